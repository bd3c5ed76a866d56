use url::Url;

use crate::api_version::ApiVersion;

/// What the client called, before any proxy: the base of every link that is handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller(Url);

const API_VERSION: &str = "api-version";
const SKIP_TOKEN: &str = "$skipToken";

impl Caller {
    /// From the header `Referer`, which ARM always sends, if it is the URL of something that can be called.
    pub fn of_referer(text: &str) -> Option<Self> {
        let mut url = Url::parse(text).ok()?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return None;
        }
        // These fail only where there is no host.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.set_fragment(None);
        Some(Self(url))
    }

    /// From what arrived: scheme, the header `Host`, path and query.
    pub fn of_request(scheme: &str, host: &str, path_and_query: &str) -> Option<Self> {
        Self::of_referer(&format!("{scheme}://{host}{path_and_query}"))
    }

    /// A link to another path of the same service. Other parameters of the query stay.
    pub fn link(&self, path: &str, version: ApiVersion) -> String {
        let mut url = self.0.clone();
        url.set_path(path);
        set(&mut url, API_VERSION, Some(&version.to_string()));
        set(&mut url, SKIP_TOKEN, None);
        url.into()
    }

    /// A link to what follows behind the page that was asked for.
    pub fn next_page(&self, token: &str) -> String {
        let mut url = self.0.clone();
        set(&mut url, SKIP_TOKEN, Some(token));
        url.into()
    }
}

fn set(url: &mut Url, name: &str, value: Option<&str>) {
    let others: Vec<_> = url
        .query_pairs()
        .filter(|(found, _)| !found.eq_ignore_ascii_case(name))
        .map(|(found, value)| (found.into_owned(), value.into_owned()))
        .collect();
    let mut pairs = url.query_pairs_mut();
    pairs.clear().extend_pairs(others);
    if let Some(value) = value {
        pairs.append_pair(name, value);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn links_start_from_what_the_client_called() {
        let caller =
            Caller::of_referer("https://ada@management.test/subscriptions/s?api-version=2.0&t=1#x").unwrap();
        let version = ApiVersion::release(2026, 10, 1);
        assert_eq!(caller.link("/a/b", version), "https://management.test/a/b?t=1&api-version=2026-10-01");
        assert_eq!(
            caller.next_page("r1/2"),
            "https://management.test/subscriptions/s?api-version=2.0&t=1&%24skipToken=r1%2F2"
        );
        let again = Caller::of_referer(&caller.next_page("x")).unwrap();
        assert_eq!(again.next_page("y").matches("skipToken").count(), 1);
        assert!(Caller::of_referer("javascript:alert(1)").is_none());
        assert!(Caller::of_request("http", "127.0.0.1:8443", "/x?y=z").is_some());
    }

    proptest! {
        #[test]
        fn a_link_keeps_what_the_client_called_and_leads_where_it_should(
            host in "[a-z]{1,9}\\.test(:[1-9][0-9]{1,3})?", path in "(/[a-zA-Z0-9][a-zA-Z0-9.-]{0,8}){1,5}",
            other in "[a-z]{1,9}", value in "[a-z0-9]{1,9}", token in "\\PC{1,30}",
        ) {
            prop_assume!(other != "api-version");
            let caller = Caller::of_request("https", &host, &format!("/x?{other}={value}&API-VERSION=1.0")).unwrap();
            let link = Url::parse(&caller.link(&path, ApiVersion::release(2026, 10, 1))).unwrap();
            prop_assert_eq!(link.path(), path);
            prop_assert_eq!(Caller::of_referer(link.as_str()).unwrap().0, link.clone());
            let pairs: Vec<_> = link.query_pairs().into_owned().collect();
            prop_assert_eq!(pairs, [(other, value), ("api-version".to_owned(), "2026-10-01".to_owned())]);

            let next = Url::parse(&caller.next_page(&token)).unwrap();
            let tokens: Vec<_> = next.query_pairs().filter(|(name, _)| name == "$skipToken").collect();
            prop_assert_eq!(tokens.len(), 1);
            prop_assert_eq!(&tokens[0].1, &token);
        }

        #[test]
        fn whatever_a_client_says_it_called_is_none_or_can_be_called(text in "\\PC{0,40}|https?://\\PC{0,40}") {
            if let Some(caller) = Caller::of_referer(&text) {
                let link = caller.link("/a", ApiVersion::release(2026, 10, 1));
                prop_assert!(link.starts_with("http"), "{link}");
                prop_assert!(!link.contains('@') || !link.split('/').nth(2).unwrap().contains('@'), "{link}");
            }
        }
    }
}
