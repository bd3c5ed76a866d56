//! Where ARM wants to hear that an operation has ended.

use http::HeaderMap;
use pilothouse_arm::{CloudError, ErrorCode, header};
use url::{Host, Url};

use crate::answer::Refusal;
use crate::config::Notifications;

/// The address that the request asks to be called back at, if it may be. An address that may not be called is no error:
/// the answer then lacks the promise, and the caller looks for itself.
pub(crate) fn wanted(headers: &HeaderMap, config: &Notifications) -> Result<Option<String>, Refusal> {
    let Some(value) = headers.get(header::ASYNC_NOTIFICATION_URI) else { return Ok(None) };
    let url = value.to_str().ok().and_then(|text| Url::parse(text).ok()).filter(Url::has_host);
    let url = url.ok_or_else(|| {
        let name = header::ASYNC_NOTIFICATION_URI;
        let message = format!("The header '{name}' is not the URL of a host.");
        CloudError::new(ErrorCode::InvalidParameter, message).with_target(name)
    })?;
    Ok(is_allowed(&url, config).then(|| url.into()))
}

fn is_allowed(url: &Url, config: &Notifications) -> bool {
    if url.scheme() != "https" || !url.username().is_empty() || url.password().is_some() {
        return false;
    }
    let Some(Host::Domain(host)) = url.host() else { return false };
    let host = host.trim_end_matches('.');
    config.host_suffixes.iter().any(|entry| {
        let entry = entry.to_ascii_lowercase();
        if entry.starts_with('.') { host.ends_with(&entry) } else { host == entry }
    })
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn only_hosts_below_the_configured_names_are_called_back() {
        let suffixes = [".ARM.test", "azure.example"];
        let config =
            Notifications { host_suffixes: suffixes.map(str::to_owned).to_vec(), ..Notifications::default() };
        let of = |text: &'static str| {
            let name = HeaderName::from_static(header::ASYNC_NOTIFICATION_URI);
            wanted(&HeaderMap::from_iter([(name, HeaderValue::from_static(text))]), &config)
        };
        for text in ["https://west.arm.test/a?b=c", "https://Azure.example:8443/", "https://a.b.arm.test./"] {
            assert!(of(text).unwrap().is_some(), "{text}");
        }
        for text in [
            "http://west.arm.test/",
            "https://evil-arm.test/",
            "https://arm.test/",
            "https://below.azure.example/",
            "https://arm.test.evil.example/",
            "https://127.0.0.1/",
            "https://[::1]/",
            "https://ada:secret@west.arm.test/",
            "ftp://west.arm.test/",
        ] {
            assert_eq!(of(text).unwrap(), None, "{text}");
        }
        for text in ["", "arm.test", "/relative", "https://", "mailto:a@arm.test", "https://a b/"] {
            assert!(of(text).is_err(), "{text}");
        }
        assert_eq!(wanted(&HeaderMap::new(), &config).unwrap(), None);
        let nobody = Notifications::default();
        let name = HeaderName::from_static(header::ASYNC_NOTIFICATION_URI);
        let headers = HeaderMap::from_iter([(name, HeaderValue::from_static("https://west.arm.test/"))]);
        assert_eq!(wanted(&headers, &nobody).unwrap(), None, "nobody is called unless configured");
    }
}
