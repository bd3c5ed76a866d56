//! `/version`: which Kubernetes this speaks, and which build of what speaks it.

use serde_json::{Value, json};

/// Packagers set these when they build; a plain build knows neither.
const COMMIT: Option<&str> = option_env!("PILOTHOUSE_COMMIT");
const BUILD_DATE: Option<&str> = option_env!("PILOTHOUSE_BUILD_DATE");

/// The page for a server that speaks a version such as `1.33.4`. All fields are there, since clients' types demand them;
/// what is not known, and what only a program written in Go has, is empty.
pub(crate) fn page(version: &str) -> Value {
    let version = version.trim_start_matches('v');
    let mut parts = version.split('.');
    json!({
        "major": parts.next().unwrap_or_default(),
        "minor": parts.next().unwrap_or_default(),
        "gitVersion": format!("v{version}"),
        "gitCommit": COMMIT.unwrap_or_default(),
        "gitTreeState": "",
        "buildDate": BUILD_DATE.unwrap_or_default(),
        "goVersion": "",
        "compiler": "rustc",
        "platform": platform(std::env::consts::OS, std::env::consts::ARCH),
    })
}

/// In the words that clients know: they choose programs and images by them.
fn platform(system: &str, architecture: &str) -> String {
    let architecture = match architecture {
        "x86_64" => "amd64",
        "x86" => "386",
        "aarch64" => "arm64",
        "powerpc64" if cfg!(target_endian = "little") => "ppc64le",
        other => other,
    };
    format!("{system}/{architecture}")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::version::Info;

    use super::*;

    #[test]
    fn the_page_is_what_clients_parse_and_claims_nothing_it_does_not_know() {
        let info: Info = serde_json::from_value(page("1.33.4")).unwrap();
        assert_eq!((info.major.as_str(), info.minor.as_str()), ("1", "33"));
        assert_eq!(info.git_version, "v1.33.4");
        assert_eq!(info.git_commit, COMMIT.unwrap_or_default());
        assert_eq!(info.build_date, BUILD_DATE.unwrap_or_default());
        assert_eq!((info.git_tree_state.as_str(), info.go_version.as_str()), ("", ""));
        assert_eq!(info.platform, platform(std::env::consts::OS, std::env::consts::ARCH));
    }

    #[test]
    fn platforms_have_the_names_that_clients_know() {
        for (architecture, expected) in
            [("x86_64", "linux/amd64"), ("aarch64", "linux/arm64"), ("riscv64", "linux/riscv64")]
        {
            assert_eq!(platform("linux", architecture), expected);
        }
    }
}
