use std::fmt;

use aws_lc_rs::digest;
use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair, RsaKeyPair,
};
use rcgen::{KeyPair, PublicKeyData as _, RsaKeySize};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use x509_parser::oid_registry::OID_KEY_TYPE_EC_PUBLIC_KEY;
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::SubjectPublicKeyInfo;
use zeroize::{Zeroize as _, Zeroizing};

use crate::{Error, pem};

/// The kind of a key pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyAlgorithm {
    /// ECDSA on P-256 with SHA-256: small, fast, read by everything current.
    #[default]
    EcdsaP256,
    /// ECDSA on P-384 with SHA-384.
    EcdsaP384,
    /// RSA with 2048 bits, for peers that cannot do better.
    Rsa2048,
    /// RSA with 3072 bits.
    Rsa3072,
    /// RSA with 4096 bits; usually met in authorities made elsewhere.
    Rsa4096,
}

/// A private key. Prints as its algorithm and is wiped when dropped.
///
/// ```compile_fail
/// fn serializable<T: serde::Serialize>() {}
/// serializable::<pilothouse_pki::PrivateKey>();
/// ```
pub struct PrivateKey {
    pair: KeyPair,
    algorithm: KeyAlgorithm,
}

impl PrivateKey {
    /// A new key from the machine's randomness. RSA takes tens of milliseconds, more for long keys.
    pub fn generate(algorithm: KeyAlgorithm) -> Result<Self, Error> {
        let pair = match algorithm {
            KeyAlgorithm::EcdsaP256 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256),
            KeyAlgorithm::EcdsaP384 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384),
            KeyAlgorithm::Rsa2048 => KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048),
            KeyAlgorithm::Rsa3072 => KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_3072),
            KeyAlgorithm::Rsa4096 => KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_4096),
        }
        .map_err(|error| Error::Crypto { action: "generating a key", reason: error.to_string() })?;
        Ok(Self { pair, algorithm })
    }

    /// Reads the first private key in `text`: PKCS#8, PKCS#1 or SEC1, not encrypted.
    pub fn from_pem(text: &[u8]) -> Result<Self, Error> {
        use rustls_pki_types::pem::Error as PemError;
        let mut der = PrivateKeyDer::from_pem_slice(text).map_err(|error| match error {
            PemError::NoItemsFound => Error::Missing { what: "the private key file", section: "PRIVATE KEY" },
            // The parser's message can quote the line it stumbled over, and that line may be a key.
            _ => Error::Malformed { what: "the private key", reason: "it is not well-formed PEM".to_owned() },
        })?;
        let key = Self::from_der(&der);
        der.zeroize();
        key
    }

    fn from_der(der: &PrivateKeyDer<'_>) -> Result<Self, Error> {
        let pkcs8 = match der {
            PrivateKeyDer::Pkcs8(key) => Zeroizing::new(key.secret_pkcs8_der().to_vec()),
            PrivateKeyDer::Pkcs1(key) => {
                let pair = RsaKeyPair::from_der(key.secret_pkcs1_der()).map_err(|_| Error::UnsupportedKey)?;
                let document: Pkcs8V1Der<'_> = pair.as_der().map_err(|_| Error::UnsupportedKey)?;
                Zeroizing::new(document.as_ref().to_vec())
            }
            PrivateKeyDer::Sec1(key) => {
                let pair = [&ECDSA_P256_SHA256_ASN1_SIGNING, &ECDSA_P384_SHA384_ASN1_SIGNING]
                    .into_iter()
                    .find_map(|curve| EcdsaKeyPair::from_private_key_der(curve, key.secret_sec1_der()).ok())
                    .ok_or(Error::UnsupportedKey)?;
                let document = pair.to_pkcs8v1().map_err(|_| Error::UnsupportedKey)?;
                Zeroizing::new(document.as_ref().to_vec())
            }
            _ => return Err(Error::UnsupportedKey),
        };
        let pair = KeyPair::try_from(pkcs8.as_slice()).map_err(|_| Error::UnsupportedKey)?;
        // Built before the check, so that a refused key is wiped as well.
        let mut key = Self { pair, algorithm: KeyAlgorithm::default() };
        key.algorithm = KeyAlgorithm::of_public_key(&key.public_key_info()).ok_or(Error::UnsupportedKey)?;
        Ok(key)
    }

    /// Which kind of key this is.
    pub fn algorithm(&self) -> KeyAlgorithm {
        self.algorithm
    }

    /// The key as PKCS#8 PEM. The text is wiped when dropped; do not copy it into an ordinary string.
    pub fn to_pem(&self) -> Zeroizing<String> {
        pem::encode("PRIVATE KEY", self.pair.serialized_der())
    }

    /// The key for a TLS configuration, which keeps a copy of its own for as long as it lives.
    pub fn to_der(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.pair.serialize_der()).into()
    }

    /// The public half as PEM, for whoever checks what this key signed.
    pub fn public_pem(&self) -> String {
        pem::encode("PUBLIC KEY", &self.public_key_info()).to_string()
    }

    /// What tells this key from every other one: the SHA-256 of its public half, in hexadecimal.
    pub fn fingerprint(&self) -> String {
        let digest = digest::digest(&digest::SHA256, &self.public_key_info());
        digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(crate) fn pair(&self) -> &KeyPair {
        &self.pair
    }

    /// The `SubjectPublicKeyInfo` of the public half.
    pub(crate) fn public_key_info(&self) -> Vec<u8> {
        self.pair.subject_public_key_info()
    }
}

impl Drop for PrivateKey {
    fn drop(&mut self) {
        self.pair.zeroize();
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PrivateKey").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

impl KeyAlgorithm {
    pub(crate) fn of_public_key(info: &[u8]) -> Option<Self> {
        let (_, info) = SubjectPublicKeyInfo::from_der(info).ok()?;
        let key = info.parsed().ok()?;
        let elliptic = info.algorithm.algorithm == OID_KEY_TYPE_EC_PUBLIC_KEY;
        match (elliptic, key.key_size()) {
            (true, 256) => Some(Self::EcdsaP256),
            (true, 384) => Some(Self::EcdsaP384),
            (false, 2048) => Some(Self::Rsa2048),
            (false, 3072) => Some(Self::Rsa3072),
            (false, 4096) => Some(Self::Rsa4096),
            _ => None,
        }
    }

    pub(crate) fn is_rsa(self) -> bool {
        match self {
            Self::EcdsaP256 | Self::EcdsaP384 => false,
            Self::Rsa2048 | Self::Rsa3072 | Self::Rsa4096 => true,
        }
    }
}

impl fmt::Display for KeyAlgorithm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::EcdsaP256 => "ECDSA P-256",
            Self::EcdsaP384 => "ECDSA P-384",
            Self::Rsa2048 => "RSA 2048",
            Self::Rsa3072 => "RSA 3072",
            Self::Rsa4096 => "RSA 4096",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_key_reads_back_as_itself() {
        for algorithm in
            [KeyAlgorithm::EcdsaP256, KeyAlgorithm::EcdsaP384, KeyAlgorithm::Rsa2048, KeyAlgorithm::Rsa3072]
        {
            let key = PrivateKey::generate(algorithm).unwrap();
            let back = PrivateKey::from_pem(key.to_pem().as_bytes()).unwrap();
            assert_eq!(back.algorithm(), algorithm);
            assert_eq!(back.public_key_info(), key.public_key_info());
        }
    }

    #[test]
    fn keys_in_older_wrappings_are_written_as_pkcs8() {
        let rsa = PrivateKey::generate(KeyAlgorithm::Rsa2048).unwrap();
        // PKCS#8 is a wrapping around PKCS#1: version, algorithm, and the older form in an OCTET STRING.
        let pkcs1 = &rsa.pair.serialized_der()[26..];
        let text = pem::encode("RSA PRIVATE KEY", pkcs1);
        let back = PrivateKey::from_pem(text.as_bytes()).unwrap();
        assert!(back.to_pem().starts_with("-----BEGIN PRIVATE KEY-----"));
        assert_eq!(back.public_key_info(), rsa.public_key_info());
    }

    #[test]
    fn a_malformed_key_is_not_quoted_in_the_error() {
        let key = PrivateKey::generate(KeyAlgorithm::EcdsaP256).unwrap();
        let text = key.to_pem();
        let secret = text.lines().nth(1).unwrap();
        let broken = text.replace("-----END", "####END");
        let error = PrivateKey::from_pem(broken.as_bytes()).unwrap_err();
        assert!(!format!("{error} {error:?}").contains(secret));
    }
}
