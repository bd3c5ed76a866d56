//! Replacing fields of a signed DER structure before it is signed.
//!
//! `rcgen` keeps a distinguished name as a map with one value per attribute. That loses two things we need: Kubernetes
//! carries *every* group of a user as an `O` of its own, and an authority that somebody else made may have several
//! `OU`s or `DC`s, which have to be repeated byte for byte as issuer of what it signs. So the certificate is drafted by
//! `rcgen` with placeholder names and an empty signature, the names are put in here, and the result is signed once.

use rcgen::{KeyPair, PublicKeyData, SignatureAlgorithm, SigningKey};

use crate::Error;

const SEQUENCE: u8 = 0x30;
const BIT_STRING: u8 = 0x03;

/// Stands in for the real key while the draft is written: right algorithm and public key, no signature.
pub(crate) struct Drafting<'a>(pub(crate) &'a KeyPair);

impl PublicKeyData for Drafting<'_> {
    fn der_bytes(&self) -> &[u8] {
        self.0.der_bytes()
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        self.0.algorithm()
    }
}

impl SigningKey for Drafting<'_> {
    fn sign(&self, _: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        Ok(Vec::new())
    }
}

/// Takes `SEQUENCE { body, algorithm, signature }`, replaces the numbered fields of the body and signs it with `key`.
pub(crate) fn finish(draft: &[u8], fields: &[(usize, &[u8])], key: &KeyPair) -> Result<Vec<u8>, Error> {
    let outer = elements(split(draft).ok_or_else(unreadable)?.content).ok_or_else(unreadable)?;
    let [body, algorithm, _] = outer.as_slice() else { return Err(unreadable()) };
    let mut parts = elements(body.content).ok_or_else(unreadable)?;
    for (index, replacement) in fields {
        let part = parts.get_mut(*index).ok_or_else(unreadable)?;
        *part = split(replacement).ok_or_else(unreadable)?;
    }
    let body = encode(SEQUENCE, &parts.iter().flat_map(|part| part.raw).copied().collect::<Vec<_>>());
    let mut signature = vec![0]; // a signature has no unused bits
    signature.extend(
        key.sign(&body).map_err(|error| Error::Crypto { action: "signing", reason: error.to_string() })?,
    );
    let signature = encode(BIT_STRING, &signature);
    Ok(encode(SEQUENCE, &[body.as_slice(), algorithm.raw, signature.as_slice()].concat()))
}

/// One element: `tag`, the length in its shortest form, `content`.
pub(crate) fn encode(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut element = vec![tag];
    if length < 0x80 {
        element.push(length as u8);
    } else {
        let bytes = length.to_be_bytes();
        let significant = &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..];
        element.push(0x80 | significant.len() as u8);
        element.extend_from_slice(significant);
    }
    element.extend_from_slice(content);
    element
}

#[derive(Clone, Copy)]
struct Element<'a> {
    raw: &'a [u8],
    content: &'a [u8],
}

fn split(bytes: &[u8]) -> Option<Element<'_>> {
    let first = *bytes.get(1)?;
    let (header, length) = if first < 0x80 {
        (2, usize::from(first))
    } else {
        let count = usize::from(first & 0x7f);
        let digits = bytes.get(2..2 + count)?;
        if count == 0 || count > size_of::<usize>() {
            return None;
        }
        (2 + count, digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)))
    };
    let end = header.checked_add(length)?;
    Some(Element { raw: bytes.get(..end)?, content: bytes.get(header..end)? })
}

fn elements(mut bytes: &[u8]) -> Option<Vec<Element<'_>>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let element = split(bytes)?;
        bytes = bytes.get(element.raw.len()..)?;
        found.push(element);
    }
    Some(found)
}

fn unreadable() -> Error {
    Error::Malformed { what: "a certificate draft", reason: "not the expected DER structure".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_every_form_are_read_back() {
        for length in [0, 1, 127, 128, 255, 256, 65_535, 65_536] {
            let content = vec![7; length];
            let element = encode(0x04, &content);
            let read = split(&element).unwrap();
            assert_eq!((read.raw.len(), read.content), (element.len(), content.as_slice()));
        }
    }

    #[test]
    fn cut_and_oversized_elements_are_refused() {
        let whole = encode(0x30, &[1; 300]);
        for end in 0..whole.len() {
            assert!(split(&whole[..end]).is_none(), "cut at {end}");
        }
        assert!(split(&[0x30, 0x80]).is_none(), "indefinite length");
        assert!(split(&[0x30, 0xff, 0xff]).is_none(), "length of lengths beyond the input");
        assert!(split(&[0x30, 0x88, 255, 255, 255, 255, 255, 255, 255, 255]).is_none(), "overflow");
    }
}
