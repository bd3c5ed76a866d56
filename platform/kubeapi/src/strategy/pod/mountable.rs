//! Which secrets a pod may use, where its service account has a say in it.

use serde_json::Value;

use super::{items, text};

/// An account that says so lets its pods use only the secrets that it lists.
const ENFORCED: &str = "/metadata/annotations/kubernetes.io~1enforce-mountable-secrets";

/// What whoever writes such an account is told: this way of keeping secrets apart is on its way out.
pub(in crate::strategy) fn warning(account: &Value) -> Option<String> {
    account.pointer(ENFORCED)?;
    Some(
        "metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; \
         prefer separate namespaces to isolate access to mounted secrets"
            .to_owned(),
    )
}

/// Why an account does not let a pod use what it refers to, if it does not.
pub(super) fn refused(spec: &Value, account: &Value) -> Option<String> {
    if !matches!(text(account, ENFORCED), "1" | "t" | "T" | "true" | "TRUE" | "True") {
        return None;
    }
    let owner = text(account, "/metadata/name");
    let lists = |list: &str, secret: &str| items(account, list).iter().any(|known| known["name"] == secret);
    let unlisted = |secret: &str| !lists("/secrets", secret);
    for volume in items(spec, "/volumes").iter().filter(|volume| !volume["secret"].is_null()) {
        let secret = text(volume, "/secret/secretName");
        if unlisted(secret) {
            return Some(format!(
                "volume with secret.secretName=\"{secret}\" is not allowed because service account {owner} does not reference that secret"
            ));
        }
    }
    for (list, kind) in [("/initContainers", "init container"), ("/containers", "container")] {
        for container in items(spec, list) {
            let by_name = items(container, "/env").iter().filter_map(|variable| {
                let secret = variable.pointer("/valueFrom/secretKeyRef")?;
                Some((format!("envVar {}", text(variable, "/name")), text(secret, "/name")))
            });
            let whole = items(container, "/envFrom")
                .iter()
                .filter_map(|source| Some(("envFrom".to_owned(), text(source.get("secretRef")?, "/name"))));
            if let Some((place, secret)) = by_name.chain(whole).find(|(_, secret)| unlisted(secret)) {
                return Some(format!(
                    "{kind} {} with {place} referencing secret.secretName=\"{secret}\" is not allowed because service account {owner} does not reference that secret",
                    text(container, "/name"),
                ));
            }
        }
    }
    let pulls = items(spec, "/imagePullSecrets").iter().map(|pull| text(pull, "/name"));
    let (index, secret) = pulls.enumerate().find(|(_, secret)| !lists("/imagePullSecrets", secret))?;
    Some(format!(
        "imagePullSecrets[{index}].name=\"{secret}\" is not allowed because service account {owner} does not reference that imagePullSecret"
    ))
}
