//! PEM text. Reading is left to `rustls-pki-types`; writing is done here, so that the text of a private key is built in
//! one allocation that is wiped, with no copies left behind by a growing buffer.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use zeroize::Zeroizing;

use crate::Error;

/// Bytes per line: 64 characters of base64, as RFC 7468 asks for.
const LINE: usize = 48;

pub(crate) fn encode(label: &str, der: &[u8]) -> Zeroizing<String> {
    let lines = der.len().div_ceil(LINE);
    let frame = 2 * (label.len() + "-----BEGIN -----\n".len());
    let mut text = Zeroizing::new(String::with_capacity(frame + lines * 65));
    text.push_str("-----BEGIN ");
    text.push_str(label);
    text.push_str("-----\n");
    let mut line = Zeroizing::new([0_u8; 64]);
    for chunk in der.chunks(LINE) {
        // 48 bytes always fit in 64 characters and base64 is ASCII, so neither branch is ever left out.
        if let Ok(length) = STANDARD.encode_slice(chunk, line.as_mut_slice())
            && let Ok(encoded) = std::str::from_utf8(&line[..length])
        {
            text.push_str(encoded);
            text.push('\n');
        }
    }
    text.push_str("-----END ");
    text.push_str(label);
    text.push_str("-----\n");
    text
}

/// All certificates in `text`, at least one.
pub(crate) fn certificates(what: &'static str, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found = CertificateDer::pem_slice_iter(text)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| Error::Malformed { what, reason: error.to_string() })?;
    if found.is_empty() {
        return Err(Error::Missing { what, section: "CERTIFICATE" });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_reads_back_as_the_same_bytes_without_reallocating() {
        for length in [1, 47, 48, 49, 95, 96, 700] {
            let der: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
            let text = encode("CERTIFICATE", &der);
            assert!(text.capacity() <= text.len() + 66, "one allocation of about the right size");
            let back = certificates("test", text.as_bytes()).unwrap();
            assert_eq!(back[0].as_ref(), der);
            assert!(text.lines().all(|line| line.len() <= 64));
        }
    }
}
