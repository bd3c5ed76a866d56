//! An issuer of tokens for development, in a folder: a private key, and beside it the set of public keys that services
//! are configured with.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use jsonwebtoken::jwk::{Jwk, PublicKeyUse, ThumbprintHash};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use pilothouse_pki::{FileError, KeyAlgorithm, PrivateKey, Visibility, write_atomically};
use secrecy::SecretString;
use serde_json::json;
use uuid::Uuid;

use crate::config::{Callers, Config, Jwt};
use crate::token::{Audience, Claims};

/// What the issuer calls itself.
const ISSUER: &str = "https://issuer.pilothouse.test/local";
/// For whom its tokens are.
const AUDIENCE: &str = "https://pilothouse.test";
/// The application that is ARM, where the local issuer is believed.
const ARM: &str = "00000000-0000-0000-0000-0000000000a1";
/// The application of administrators, where the local issuer is believed.
const ADMINISTRATOR: &str = "00000000-0000-0000-0000-0000000000ad";
/// The application of everybody else.
const CALLER: &str = "00000000-0000-0000-0000-0000000000ca";

/// An issuer in a folder.
pub struct LocalIssuer {
    folder: PathBuf,
    key_id: String,
    key: EncodingKey,
}

/// What a token is to say.
#[derive(Clone, Debug)]
pub struct TokenRequest {
    /// Who has it: a user's name. Without one the token is an application's.
    pub name: Option<String>,
    /// The tenant they are at home in.
    pub tenant: Option<Uuid>,
    /// The application; by default that of the role.
    pub app_id: Option<String>,
    /// What they are to this region.
    pub role: Option<LocalRole>,
    /// How long it is good for.
    pub lifetime: Duration,
}

/// What somebody is to a region that believes the local issuer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalRole {
    /// Azure Resource Manager.
    Arm,
    /// An administrator.
    Administrator,
}

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IssuerError {
    /// A file of the issuer cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The key cannot be made or read.
    #[error("the issuer's key `{}` cannot be used; remove it to have a new one made", .path.display())]
    Key {
        /// Its file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: pilothouse_pki::Error,
    },
    /// The key signs nothing.
    #[error("the issuer's key cannot sign tokens")]
    Sign(#[from] jsonwebtoken::errors::Error),
}

impl LocalIssuer {
    /// The issuer in this folder, made if there is none. Blocks.
    ///
    /// # Errors
    ///
    /// When its files can neither be read nor written.
    pub fn open(folder: &Path) -> Result<Self, IssuerError> {
        let refused = |action, path: &Path| {
            let path = path.to_owned();
            move |source| FileError { action, path, source }
        };
        std::fs::create_dir_all(folder).map_err(refused("make", folder))?;
        let path = folder.join("key.pem");
        let unusable = |source| IssuerError::Key { path: path.clone(), source };
        let key = match std::fs::read(&path).map(zeroize::Zeroizing::new) {
            Ok(text) => PrivateKey::from_pem(&text).map_err(unusable)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let key = PrivateKey::generate(KeyAlgorithm::EcdsaP256).map_err(unusable)?;
                write_atomically(&path, key.to_pem().as_bytes(), Visibility::OwnerOnly)?;
                key
            }
            Err(error) => return Err(refused("read", &path)(error).into()),
        };
        let key = EncodingKey::from_ec_der(key.to_der().secret_der());
        let mut public = Jwk::from_encoding_key(&key, Algorithm::ES256)?;
        let key_id = public.thumbprint(ThumbprintHash::SHA256)?;
        public.common.key_id = Some(key_id.clone());
        public.common.public_key_use = Some(PublicKeyUse::Signature);
        let issuer = Self { folder: folder.to_owned(), key_id, key };
        let published = serde_json::to_vec_pretty(&json!({ "keys": [public] })).unwrap_or_default();
        if std::fs::read(issuer.keys_file()).ok().as_deref() != Some(&published) {
            write_atomically(&issuer.keys_file(), &published, Visibility::Everyone)?;
        }
        Ok(issuer)
    }

    /// The file with its public keys.
    pub fn keys_file(&self) -> PathBuf {
        self.folder.join("keys.json")
    }

    /// A configuration that believes it.
    pub fn config(&self) -> Config {
        let only = |app_id: &str| Callers { app_ids: vec![app_id.to_owned()], ..Callers::default() };
        Config {
            jwt: Some(Jwt::with_keys_file(ISSUER, AUDIENCE, self.keys_file())),
            arm: only(ARM),
            administrators: only(ADMINISTRATOR),
            ..Config::default()
        }
    }

    /// A token.
    ///
    /// # Errors
    ///
    /// When the key signs nothing.
    pub fn issue(&self, request: &TokenRequest, now: Timestamp) -> Result<SecretString, IssuerError> {
        let TokenRequest { name, tenant, app_id, role, lifetime } = request;
        let now = now.as_duration().as_secs_f64().floor();
        let of_role = match role {
            Some(LocalRole::Arm) => ARM,
            Some(LocalRole::Administrator) => ADMINISTRATOR,
            None => CALLER,
        };
        let app_id = app_id.clone().unwrap_or_else(|| of_role.to_owned());
        // The same caller has the same id in every token.
        let object_id = object_id(name.as_deref().unwrap_or(&app_id), *tenant);
        let claims = Claims {
            iss: Some(ISSUER.to_owned()),
            aud: Some(Audience::One(AUDIENCE.to_owned())),
            exp: Some(now + lifetime.as_secs_f64()),
            nbf: Some(now),
            iat: Some(now),
            tid: tenant.map(|tenant| tenant.to_string()),
            oid: Some(object_id.clone()),
            sub: Some(object_id),
            appid: Some(app_id),
            upn: name.clone(),
            roles: role.iter().map(|role| role.name().to_owned()).collect(),
            ..Claims::default()
        };
        let header = Header { kid: Some(self.key_id.clone()), ..Header::new(Algorithm::ES256) };
        Ok(encode(&header, &claims, &self.key)?.into())
    }
}

impl LocalRole {
    fn name(self) -> &'static str {
        match self {
            Self::Arm => "Arm",
            Self::Administrator => "Administrator",
        }
    }
}

impl std::fmt::Debug for LocalIssuer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("LocalIssuer")
            .field("folder", &self.folder)
            .field("key_id", &self.key_id)
            .finish_non_exhaustive()
    }
}

/// A UUID that follows from who it is for.
fn object_id(name: &str, tenant: Option<Uuid>) -> String {
    let text = format!("{}/{name}", tenant.unwrap_or_default());
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest.as_ref()[..16]);
    uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
}
