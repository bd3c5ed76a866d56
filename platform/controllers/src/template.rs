//! A short, stable name for a pod template.

use k8s_openapi::api::core::v1::PodTemplateSpec;

/// Letters and digits that spell no words and are not mistaken for one another.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

const OFFSET: u32 = 0x811c_9dc5;
const PRIME: u32 = 0x0100_0193;

/// The template's hash, fit for names and labels. Any stable one will do; who must know whether two templates are
/// equal compares the templates.
pub(crate) fn hash(template: &PodTemplateSpec) -> String {
    // Its maps are ordered, so equal templates are equal bytes; and nothing in it can fail to be written.
    let bytes = serde_json::to_vec(template).unwrap_or_default();
    encode(fnv(&bytes))
}

/// The same for any text.
pub(crate) fn hash_text(text: &str) -> String {
    encode(fnv(text.as_bytes()))
}

fn fnv(bytes: &[u8]) -> u32 {
    bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(PRIME))
}

fn encode(mut number: u32) -> String {
    let mut text = String::new();
    loop {
        let digit = usize::try_from(number % 27).unwrap_or_default();
        text.push(char::from(ALPHABET[digit]));
        number /= 27;
        if number == 0 {
            return text;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_is_the_same_for_ever() {
        // Names of replica sets depend on it: another hash would roll every deployment.
        assert_eq!(fnv(b"a"), 0xe40c_292c);
        assert_eq!(hash(&PodTemplateSpec::default()), hash_text("{}"));
        assert_eq!(hash_text("a"), encode(0xe40c_292c));
        assert_eq!(encode(27), "bc");
    }
}
