//! Tokens that let a new node in: Secrets of a type of their own in `kube-system`.
//!
//! A token names its Secret (`ID.SECRET` is in `bootstrap-token-ID`), so looking one up is one look into the cache and never a
//! walk. Whatever is odd about a Secret makes its token nobody's; the client learns no more than that.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::Value;

use crate::authentication::User;
use crate::storage::Cache;

/// The type of such a Secret.
const TYPE: &str = "bootstrap.kubernetes.io/token";
/// What everybody is in who comes this way.
const GROUP: &str = "system:bootstrappers";
const ID_LENGTH: usize = 6;
const SECRET_LENGTH: usize = 16;
/// How long the rest of a group's name may be.
const LONGEST_GROUP: usize = 256;

/// Whose token this is.
pub(crate) fn find(cache: &Cache, token: &str, now: Timestamp) -> Option<User> {
    let (id, secret) = parts(token)?;
    let stored = cache.get(&format!("secrets/kube-system/bootstrap-token-{id}"))?;
    user(&serde_json::from_slice(&stored).ok()?, (id, secret), now)
}

/// `ID.SECRET`, each of small letters and digits.
fn parts(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.split_once('.')?;
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let fits = id.len() == ID_LENGTH && secret.len() == SECRET_LENGTH && plain(id) && plain(secret);
    fits.then_some((id, secret))
}

fn user(object: &Value, (id, secret): (&str, &str), now: Timestamp) -> Option<User> {
    if object["type"] != TYPE || !object["metadata"]["deletionTimestamp"].is_null() {
        return None;
    }
    let data = |key: &str| {
        let encoded = object["data"][key].as_str()?;
        String::from_utf8(STANDARD.decode(encoded).ok()?).ok()
    };
    verify_slices_are_equal(data("token-secret")?.as_bytes(), secret.as_bytes()).ok()?;
    if data("token-id")? != id || data("usage-bootstrap-authentication")? != "true" {
        return None;
    }
    // A time that cannot be read is over.
    if let Some(end) = data("expiration").filter(|end| !end.is_empty())
        && end.parse::<Timestamp>().ok()? <= now
    {
        return None;
    }
    let mut groups = vec![GROUP.to_owned()];
    if let Some(more) = data("auth-extra-groups").filter(|more| !more.is_empty()) {
        for group in more.split(',') {
            groups.push(is_bootstrap_group(group).then(|| group.to_owned())?);
        }
    }
    groups.sort();
    groups.dedup();
    Some(User { name: format!("system:bootstrap:{id}"), groups, ..User::default() }.authenticated())
}

/// `system:bootstrappers:…`, of small letters, digits, colons and dashes, with a letter or digit at the end.
fn is_bootstrap_group(group: &str) -> bool {
    let Some(rest) = group.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix(':')) else { return false };
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    rest.len() <= LONGEST_GROUP
        && rest.bytes().all(|byte| plain(byte) || matches!(byte, b':' | b'-'))
        && rest.bytes().last().is_some_and(plain)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ID: &str = "abcdef";
    const SECRET: &str = "0123456789abcdef";

    fn secret(changes: &[(&str, Option<&str>)]) -> Value {
        let mut data = json!({
            "token-id": STANDARD.encode(ID),
            "token-secret": STANDARD.encode(SECRET),
            "usage-bootstrap-authentication": STANDARD.encode("true"),
        });
        for (key, value) in changes {
            match value {
                Some(value) => data[*key] = json!(STANDARD.encode(value)),
                None => drop(data.as_object_mut().unwrap().remove(*key)),
            }
        }
        json!({ "metadata": { "name": "bootstrap-token-abcdef" }, "type": TYPE, "data": data })
    }

    fn found(secret: &Value) -> Option<User> {
        user(secret, (ID, SECRET), "2026-11-15T12:00:00Z".parse().unwrap())
    }

    #[test]
    fn a_token_has_one_form_only() {
        assert_eq!(parts("abcdef.0123456789abcdef"), Some((ID, SECRET)));
        for wrong in [
            "abcdef",
            "abcde.0123456789abcdef",
            "abcdef.0123456789abcde",
            "ABCDEF.0123456789abcdef",
            "abcde.f0123456789abcdef0",
            "a.b.c",
        ] {
            assert_eq!(parts(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_good_secret_names_its_user_and_groups() {
        let user = found(&secret(&[])).unwrap();
        assert_eq!(user.name, "system:bootstrap:abcdef");
        assert_eq!(user.groups, ["system:bootstrappers", "system:authenticated"]);
        let more = "system:bootstrappers:workers,system:bootstrappers:a:b-1";
        let user = found(&secret(&[("auth-extra-groups", Some(more))])).unwrap();
        assert_eq!(
            user.groups,
            [
                "system:bootstrappers",
                "system:bootstrappers:a:b-1",
                "system:bootstrappers:workers",
                "system:authenticated"
            ]
        );
        assert!(found(&secret(&[("expiration", Some("2026-11-15T12:00:01Z"))])).is_some());
        assert!(found(&secret(&[("expiration", Some("2026-11-15T14:00:01+02:00"))])).is_some());
    }

    #[test]
    fn whatever_is_odd_about_a_secret_makes_its_token_nobodys() {
        for odd in [
            ("expiration", Some("2026-11-15T12:00:00Z")),
            ("expiration", Some("tomorrow")),
            ("usage-bootstrap-authentication", Some("false")),
            ("usage-bootstrap-authentication", None),
            ("token-id", Some("abcdeg")),
            ("token-secret", Some("0123456789abcdeg")),
            ("token-secret", None),
            ("auth-extra-groups", Some("system:masters")),
            ("auth-extra-groups", Some("system:bootstrappers:a-")),
            ("auth-extra-groups", Some("system:bootstrappers:a,")),
        ] {
            assert_eq!(found(&secret(&[odd])), None, "{odd:?}");
        }
        let mut other = secret(&[]);
        other["type"] = json!("Opaque");
        assert_eq!(found(&other), None, "of another type");
        let mut going = secret(&[]);
        going["metadata"]["deletionTimestamp"] = json!("2026-11-15T11:00:00Z");
        assert_eq!(found(&going), None, "being deleted");
    }
}
