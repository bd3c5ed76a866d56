//! What a client is told about fields that will not be kept, in the order in which it sent them.
//!
//! A parser of JSON keeps the last of two fields with one name, so duplicates are looked for in the text itself.

use std::collections::BTreeSet;

use pilothouse_http::members;

/// More than these are cut off: one mistake in a template makes thousands.
const MOST: usize = 100;

/// Complaints about the unknown fields of a body and about those that come twice. A body that is no JSON has no
/// duplicates: YAML does not allow them.
pub(super) fn complaints(body: &[u8], unknown: &[String]) -> Vec<String> {
    let mut unmet: BTreeSet<&str> = unknown.iter().map(String::as_str).collect();
    let mut told = Vec::new();
    // Whether it is JSON at all is somebody else's question.
    let _ = members(body, |member| {
        if unmet.remove(member.path) {
            told.push(unknown_field(member.path));
        } else if member.repeated {
            let complaint = format!("duplicate field \"{}\"", member.path);
            if !told.contains(&complaint) && !told.contains(&unknown_field(member.path)) {
                told.push(complaint);
            }
        }
    });
    // What a patch made of the object stands nowhere in the patch.
    told.extend(
        unknown.iter().filter(|field| unmet.contains(field.as_str())).map(|field| unknown_field(field)),
    );
    told.truncate(MOST);
    told
}

fn unknown_field(path: &str) -> String {
    format!("unknown field \"{path}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_told_in_the_order_in_which_they_were_sent() {
        let body = br#"{"spec":{"z":1,"items":[{"b":1,"b":2,"b":3}],"a":2,"z":3},"spec":{}}"#;
        let unknown = ["spec.a", "spec.elsewhere", "spec.z"].map(str::to_owned);
        assert_eq!(
            complaints(body, &unknown),
            [
                r#"unknown field "spec.z""#,
                r#"duplicate field "spec.items[0].b""#,
                r#"unknown field "spec.a""#,
                r#"duplicate field "spec""#,
                r#"unknown field "spec.elsewhere""#,
            ]
        );
        assert_eq!(complaints(b"kind: Pod", &[]), Vec::<String>::new());
    }
}
