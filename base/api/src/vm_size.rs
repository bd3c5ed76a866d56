//! The sizes of machines that node pools are offered in.

use std::collections::HashMap;
use std::sync::LazyLock;

/// Sizes that differ in their number alone: `Standard_D`, the number, `s_v5`.
struct Family {
    letters: &'static str,
    suffixes: &'static [&'static str],
    numbers: &'static [u32],
}

const TO_64: &[u32] = &[2, 4, 8, 16, 32, 48, 64];
const TO_96: &[u32] = &[2, 4, 8, 16, 32, 48, 64, 96];
const TO_128: &[u32] = &[2, 4, 8, 16, 32, 48, 64, 96, 128];
const WITH_20_TO_64: &[u32] = &[2, 4, 8, 16, 20, 32, 48, 64];
const WITH_20_TO_96: &[u32] = &[2, 4, 8, 16, 20, 32, 48, 64, 96];
const WITH_20_TO_128: &[u32] = &[2, 4, 8, 16, 20, 32, 48, 64, 96, 128];

const FAMILIES: &[Family] = &[
    // For all purposes.
    Family { letters: "D", suffixes: &["s_v3", "s_v4"], numbers: TO_64 },
    Family { letters: "D", suffixes: &["s_v5", "as_v4", "as_v5"], numbers: TO_96 },
    Family { letters: "D", suffixes: &["s_v6"], numbers: TO_128 },
    Family { letters: "D", suffixes: &["ps_v6", "pls_v6", "pds_v6", "plds_v6"], numbers: TO_96 },
    // With more memory.
    Family { letters: "E", suffixes: &["s_v3", "s_v4"], numbers: WITH_20_TO_64 },
    Family { letters: "E", suffixes: &["s_v5", "as_v4", "as_v5"], numbers: WITH_20_TO_96 },
    Family { letters: "E", suffixes: &["s_v6"], numbers: WITH_20_TO_128 },
    Family { letters: "E", suffixes: &["ps_v6", "pds_v6"], numbers: TO_96 },
    // With faster processors.
    Family { letters: "F", suffixes: &["s_v2"], numbers: &[2, 4, 8, 16, 32, 48, 64, 72] },
    // With more disks.
    Family { letters: "L", suffixes: &["s_v3"], numbers: &[8, 16, 32, 48, 64, 80] },
    Family { letters: "L", suffixes: &["s_v4"], numbers: &[2, 4, 8, 16, 32, 48, 64, 80, 96] },
    // With accelerators.
    Family { letters: "NC", suffixes: &["s_v3"], numbers: &[6, 12, 24] },
    Family { letters: "NC", suffixes: &["rs_v3"], numbers: &[24] },
    Family { letters: "NC", suffixes: &["as_T4_v3"], numbers: &[4, 8, 16, 64] },
    Family { letters: "NC", suffixes: &["ads_A100_v4"], numbers: &[24, 48, 96] },
    Family { letters: "NC", suffixes: &["ads_H100_v5"], numbers: &[40] },
    Family { letters: "NC", suffixes: &["adis_H100_v5"], numbers: &[80] },
    Family { letters: "ND", suffixes: &["isr_H200_v5"], numbers: &[96] },
];

/// By their names in lower case.
static SIZES: LazyLock<HashMap<String, String>> = LazyLock::new(|| {
    let of_family = |family: &Family| {
        let Family { letters, suffixes, numbers } = *family;
        suffixes.iter().flat_map(move |suffix| {
            numbers.iter().map(move |number| format!("Standard_{letters}{number}{suffix}"))
        })
    };
    FAMILIES.iter().flat_map(of_family).map(|name| (name.to_ascii_lowercase(), name)).collect()
});

/// The name as it is usually spelled; case does not matter. A size that is not offered stays as it is.
pub(crate) fn canonical(name: String) -> String {
    SIZES.get(&name.to_ascii_lowercase()).cloned().unwrap_or(name)
}

/// Whether node pools are offered in this size.
pub(crate) fn is_offered(name: &str) -> bool {
    SIZES.contains_key(&name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_known_by_any_spelling() {
        for name in [
            "Standard_D8s_v3",
            "Standard_E20as_v5",
            "Standard_D96plds_v6",
            "Standard_F72s_v2",
            "Standard_L8s_v3",
            "Standard_NC24rs_v3",
            "Standard_NC64as_T4_v3",
            "Standard_ND96isr_H200_v5",
        ] {
            assert!(is_offered(name), "{name}");
            assert_eq!(canonical(name.to_uppercase()), name);
        }
        for name in ["", "Standard_D8s_v2", "Standard_D20s_v3", "D8s_v3", "Standard_B2s", "Standard_D8_v3"] {
            assert!(!is_offered(name), "{name}");
            assert_eq!(canonical(name.to_owned()), name);
        }
    }
}
