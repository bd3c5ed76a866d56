//! Service account tokens: JSON Web Tokens signed by the cluster's own key.
//!
//! ES256 for keys on P-256, ES384 on P-384, RS256 for RSA. Only the one algorithm of the one key is accepted back,
//! whatever a token's header claims.

use std::fmt;
use std::time::Duration;

use aws_lc_rs::digest;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeyPair as RsaKeyPair;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED,
    ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_SHA256, UnparsedPublicKey, VerificationAlgorithm,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use pilothouse_pki::{KeyAlgorithm, PrivateKey};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::Error;

/// The shortest and the longest life of a token.
pub(crate) const SHORTEST: Duration = Duration::from_secs(600);
pub(crate) const LONGEST: Duration = Duration::from_secs(1 << 32);

/// Makes and checks tokens.
pub(crate) struct Tokens {
    pair: Pair,
    issuer: String,
    key_id: String,
}

enum Pair {
    Ecdsa { name: &'static str, pair: EcdsaKeyPair, verification: &'static dyn VerificationAlgorithm },
    Rsa(RsaKeyPair),
}

/// An object by name and identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reference {
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// What a token says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claims {
    pub(crate) namespace: String,
    pub(crate) service_account: Reference,
    /// Kind and object without which the token is void.
    pub(crate) bound: Option<(String, Reference)>,
    pub(crate) audiences: Vec<String>,
    pub(crate) expires_at: Timestamp,
}

/// Why a token was not accepted. Callers answer 401 and say no more.
#[derive(Debug)]
pub(crate) struct Refused;

impl Tokens {
    pub(crate) fn new(key: &PrivateKey, issuer: String) -> Result<Self, Error> {
        let der = key.to_der();
        let der = der.secret_der();
        let ecdsa = |name, signing, verification| {
            let pair = EcdsaKeyPair::from_pkcs8(signing, der)
                .map_err(|_| Error::TokenKey { problem: "it is no elliptic curve key in PKCS#8" })?;
            Ok::<_, Error>(Pair::Ecdsa { name, pair, verification })
        };
        let pair = match key.algorithm() {
            KeyAlgorithm::EcdsaP256 => {
                ecdsa("ES256", &ECDSA_P256_SHA256_FIXED_SIGNING, &ECDSA_P256_SHA256_FIXED)?
            }
            KeyAlgorithm::EcdsaP384 => {
                ecdsa("ES384", &ECDSA_P384_SHA384_FIXED_SIGNING, &ECDSA_P384_SHA384_FIXED)?
            }
            _ => Pair::Rsa(
                RsaKeyPair::from_pkcs8(der)
                    .map_err(|_| Error::TokenKey { problem: "it is no RSA key in PKCS#8" })?,
            ),
        };
        let key_id = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, pair.public()));
        Ok(Self { pair, issuer, key_id })
    }

    /// Who a token is for, unless it says otherwise.
    pub(crate) fn issuer(&self) -> &str {
        &self.issuer
    }

    pub(crate) fn sign(&self, claims: &Claims, now: Timestamp) -> Result<String, Refused> {
        let Claims { namespace, service_account, bound, audiences, expires_at } = claims;
        let mut about = json!({ "namespace": namespace, "serviceaccount": service_account });
        if let Some((kind, object)) = bound {
            about[kind.to_lowercase()] = json!(object);
        }
        let payload = json!({
            "iss": self.issuer,
            "sub": format!("system:serviceaccount:{namespace}:{}", service_account.name),
            "aud": audiences,
            "iat": now.as_second(),
            "nbf": now.as_second(),
            "exp": expires_at.as_second(),
            "jti": uuid::Uuid::new_v4().to_string(),
            "kubernetes.io": about,
        });
        let header = json!({ "alg": self.pair.name(), "kid": self.key_id });
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", encode(&header), encode(&payload));
        let signature = self.pair.sign(text.as_bytes())?;
        Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// What a token says, if it is ours, for one of these audiences, and good now.
    pub(crate) fn verify_for(
        &self,
        token: &str,
        audiences: &[String],
        now: Timestamp,
    ) -> Result<Claims, Refused> {
        let (signed, signature) = token.rsplit_once('.').ok_or(Refused)?;
        let (header, payload) = signed.split_once('.').ok_or(Refused)?;
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| Refused);
        let parse = |text: &str| serde_json::from_slice::<Value>(&decode(text)?).map_err(|_| Refused);
        if parse(header)?["alg"] != self.pair.name() {
            return Err(Refused);
        }
        self.pair.verify(signed.as_bytes(), &decode(signature)?)?;
        let payload = parse(payload)?;
        let second = |name: &str| {
            payload[name].as_i64().and_then(|second| Timestamp::from_second(second).ok()).ok_or(Refused)
        };
        let expires_at = second("exp")?;
        // A peer's clock may be a little ahead of ours.
        let leeway = SignedDuration::from_secs(60);
        let begins = second("nbf")?.saturating_sub(leeway).map_err(|_| Refused)?;
        if payload["iss"] != self.issuer || now >= expires_at || now < begins {
            return Err(Refused);
        }
        let shown: Vec<String> = serde_json::from_value(payload["aud"].clone()).map_err(|_| Refused)?;
        if !shown.iter().any(|audience| audiences.contains(audience)) {
            return Err(Refused);
        }
        let about = &payload["kubernetes.io"];
        let reference = |value: &Value| Reference::deserialize(value).map_err(|_| Refused);
        let bound = ["Pod", "Secret", "Node"].into_iter().find_map(|kind| {
            let object = reference(&about[kind.to_lowercase()]).ok()?;
            Some((kind.to_owned(), object))
        });
        Ok(Claims {
            namespace: about["namespace"].as_str().ok_or(Refused)?.to_owned(),
            service_account: reference(&about["serviceaccount"])?,
            bound,
            audiences: shown,
            expires_at,
        })
    }

    /// The public key for whoever wants to check tokens by itself.
    pub(crate) fn key_set(&self) -> Value {
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let mut key = json!({ "use": "sig", "kid": self.key_id, "alg": self.pair.name() });
        match &self.pair {
            Pair::Ecdsa { name, pair, .. } => {
                // Uncompressed: one byte of form, then both coordinates.
                let point = pair.public_key().as_ref().get(1..).unwrap_or_default();
                let (x, y) = point.split_at(point.len() / 2);
                key["kty"] = json!("EC");
                key["crv"] = json!(if *name == "ES256" { "P-256" } else { "P-384" });
                key["x"] = json!(encode(x));
                key["y"] = json!(encode(y));
            }
            Pair::Rsa(pair) => {
                let public = pair.public_key();
                key["kty"] = json!("RSA");
                key["n"] = json!(encode(public.modulus().big_endian_without_leading_zero()));
                key["e"] = json!(encode(public.exponent().big_endian_without_leading_zero()));
            }
        }
        json!({ "keys": [key] })
    }
}

impl Pair {
    fn name(&self) -> &'static str {
        match self {
            Self::Ecdsa { name, .. } => name,
            Self::Rsa(_) => "RS256",
        }
    }

    fn public(&self) -> &[u8] {
        match self {
            Self::Ecdsa { pair, .. } => pair.public_key().as_ref(),
            Self::Rsa(pair) => pair.public_key().as_ref(),
        }
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Refused> {
        let random = SystemRandom::new();
        match self {
            Self::Ecdsa { pair, .. } => {
                Ok(pair.sign(&random, message).map_err(|_| Refused)?.as_ref().to_vec())
            }
            Self::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).map_err(|_| Refused)?;
                Ok(signature)
            }
        }
    }

    fn verify(&self, message: &[u8], signature: &[u8]) -> Result<(), Refused> {
        let verification: &'static dyn VerificationAlgorithm = match self {
            Self::Ecdsa { verification, .. } => *verification,
            Self::Rsa(_) => &RSA_PKCS1_2048_8192_SHA256,
        };
        UnparsedPublicKey::new(verification, self.public()).verify(message, signature).map_err(|_| Refused)
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tokens").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> Claims {
        let reference = |name: &str| Reference { name: name.to_owned(), uid: format!("uid-of-{name}") };
        Claims {
            namespace: "kitchen".to_owned(),
            service_account: reference("cook"),
            bound: Some(("Pod".to_owned(), reference("stove"))),
            audiences: vec!["https://here".to_owned()],
            expires_at: "2026-01-01T01:00:00Z".parse().unwrap(),
        }
    }

    fn tokens(algorithm: KeyAlgorithm) -> Tokens {
        Tokens::new(&PrivateKey::generate(algorithm).unwrap(), "https://here".to_owned()).unwrap()
    }

    #[test]
    fn a_token_says_the_same_when_it_comes_back() {
        let (now, here) = ("2026-01-01T00:00:00Z".parse().unwrap(), ["https://here".to_owned()]);
        for algorithm in [KeyAlgorithm::EcdsaP256, KeyAlgorithm::EcdsaP384, KeyAlgorithm::Rsa2048] {
            let tokens = tokens(algorithm);
            let token = tokens.sign(&claims(), now).unwrap();
            assert_eq!(tokens.verify_for(&token, &here, now).unwrap(), claims(), "{algorithm:?}");
            assert!(
                tokens.verify_for(&token, &here, "2026-01-01T02:00:00Z".parse().unwrap()).is_err(),
                "expired"
            );
            assert!(tokens.verify_for(&token, &["elsewhere".to_owned()], now).is_err(), "audience");
            assert_eq!(tokens.key_set()["keys"][0]["kid"], tokens.key_id);
        }
    }

    #[test]
    fn a_token_that_was_touched_or_signed_by_another_is_refused() {
        let (now, here) = ("2026-01-01T00:00:00Z".parse().unwrap(), ["https://here".to_owned()]);
        let (ours, theirs) = (tokens(KeyAlgorithm::EcdsaP256), tokens(KeyAlgorithm::EcdsaP256));
        assert!(ours.verify_for(&theirs.sign(&claims(), now).unwrap(), &here, now).is_err());
        let token = ours.sign(&claims(), now).unwrap();
        let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
        let (_, rest) = token.split_once('.').unwrap();
        assert!(ours.verify_for(&format!("{none}.{rest}"), &here, now).is_err());
        let (signed, _) = token.rsplit_once('.').unwrap();
        assert!(ours.verify_for(&format!("{signed}."), &here, now).is_err());
    }
}
