use url::Url;

use crate::header;

/// Who calls, and where the credentials of the resource's own identities are, as ARM says it in headers. Whoever is not
/// ARM may say anything there: believe it only from a caller that is configured to be believed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallerIdentity {
    /// The tenant the caller is at home in.
    pub home_tenant_id: Option<String>,
    /// The caller's object id in its tenant.
    pub client_object_id: Option<String>,
    /// The caller's name, as ARM shows it.
    pub client_principal_name: Option<String>,
    /// Where the credentials of the resource's identities are to be had.
    pub identity_url: Option<Url>,
    /// The principal of the identity that the platform looks after for the resource.
    pub identity_principal_id: Option<String>,
}

/// The header that says where the identities' credentials are does not say it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the https address that the header X-Ms-Identity-Url must have")]
pub struct MalformedIdentityUrl(String);

impl CallerIdentity {
    /// From the headers of a request.
    ///
    /// # Errors
    ///
    /// If the address of the identities' credentials is none.
    pub fn of_headers<'a>(header: impl Fn(&str) -> Option<&'a str>) -> Result<Self, MalformedIdentityUrl> {
        let text = |name: &str| header(name).map(str::trim).filter(|value| !value.is_empty());
        let identity_url = match text(header::IDENTITY_URL) {
            None => None,
            Some(text) => match Url::parse(text) {
                // Credentials are fetched there, so nobody may listen on the way.
                Ok(url) if url.scheme() == "https" && url.has_host() => Some(url),
                _ => return Err(MalformedIdentityUrl(text.to_owned())),
            },
        };
        Ok(Self {
            home_tenant_id: text(header::HOME_TENANT_ID).map(str::to_owned),
            client_object_id: text(header::CLIENT_OBJECT_ID).map(str::to_owned),
            client_principal_name: text(header::CLIENT_PRINCIPAL_NAME).map(str::to_owned),
            identity_url,
            identity_principal_id: text(header::IDENTITY_PRINCIPAL_ID).map(str::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_arm_says_of_a_caller_is_read_and_nothing_else_passes_for_an_address() {
        let of = |url: &'static str| {
            CallerIdentity::of_headers(|name| match name {
                header::IDENTITY_URL => Some(url),
                header::HOME_TENANT_ID => Some(" t "),
                header::CLIENT_OBJECT_ID => Some(""),
                _ => None,
            })
        };
        let found = of("https://identity.test/a?b=c").unwrap();
        assert_eq!(found.home_tenant_id.as_deref(), Some("t"));
        assert_eq!(found.client_object_id, None);
        assert_eq!(found.identity_url.unwrap().as_str(), "https://identity.test/a?b=c");
        assert_eq!(of("").unwrap().identity_url, None);
        for url in ["http://identity.test", "identity.test", "https://", "file:///etc/passwd"] {
            assert_eq!(of(url), Err(MalformedIdentityUrl(url.to_owned())));
        }
    }
}
