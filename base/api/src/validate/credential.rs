//! Requests for certificates. The certificate that follows is an administrator's, so the subject must be that and
//! nothing else, and whoever asks must hold the key.

use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

use crate::invalid::Problems;

const TARGET: &str = "certificateSigningRequest";
const COMMON_NAME: &str = "system:customer-break-glass:system-admin";
const ORGANISATION: &str = "system:masters";
const LABELS: [&str; 2] = ["CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST"];

pub(crate) fn certificate_signing_request(pem: &str, problems: &mut Problems) {
    // The request itself is not repeated: it says nothing to a reader, and fills the message.
    let mut invalid = |why: String| problems.invalid(TARGET, "(request)", why);
    let mut blocks = Pem::iter_from_buffer(pem.as_bytes());
    let (Some(Ok(block)), None) = (blocks.next(), blocks.next()) else {
        return invalid("must be one PKCS#10 request as PEM".to_owned());
    };
    if !LABELS.contains(&block.label.as_str()) {
        return invalid(format!("must be a CERTIFICATE REQUEST, not a {}", block.label));
    }
    let request = match X509CertificationRequest::from_der(&block.contents) {
        Ok(([], request)) => request,
        _ => return invalid("must be a PKCS#10 request".to_owned()),
    };
    if request.verify_signature().is_err() {
        invalid("must be signed with the key that it is for".to_owned());
    }
    let subject = &request.certification_request_info.subject;
    if texts(subject, X509Name::iter_common_name) != [COMMON_NAME] {
        invalid(format!("must have the common name '{COMMON_NAME}'"));
    }
    if texts(subject, X509Name::iter_organization) != [ORGANISATION] {
        invalid(format!("must have the organisation '{ORGANISATION}' and no other"));
    }
}

/// All values of one kind; one that is no text is as wrong as another text.
fn texts<'a, I>(subject: &'a X509Name<'a>, values: fn(&'a X509Name<'a>) -> I) -> Vec<&'a str>
where
    I: Iterator<Item = &'a AttributeTypeAndValue<'a>>,
{
    values(subject).map(|value| value.as_str().unwrap_or_default()).collect()
}
