//! Tokens of others: issuers of OpenID Connect who say who somebody is.
//!
//! A token names its issuer. If that is one of those we were told to believe, it has to be signed by one of the keys that the
//! issuer publishes (found by its discovery document, over TLS, kept, and read again when a token names a key that is
//! not among them), for one of the audiences, and good now. What it says becomes a user with groups, as the file maps it;
//! rules of the file may still refuse it. Everything else about such a user is what roles and bindings say.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use pilothouse_access::Keys;
use pilothouse_runtime::Tasks;
use serde_json::Value;

use crate::authentication::{CREDENTIAL, User};

mod claims;
mod file;
#[cfg(test)]
mod tests;

pub use self::file::TokenIssuersError;

use self::claims::{ClaimRule, Mapping, UserRule};

/// How far an issuer's clock may be ahead of ours. As upstream.
const AHEAD: SignedDuration = SignedDuration::from_mins(5);

/// Whose tokens are believed, and what they say.
#[derive(Debug, Default)]
pub struct TokenIssuers(Vec<Issuer>);

/// One issuer.
#[derive(Debug)]
pub(crate) struct Issuer {
    url: String,
    audiences: Vec<String>,
    keys: Keys,
    claim_rules: Vec<ClaimRule>,
    mapping: Mapping,
    user_rules: Vec<UserRule>,
}

// === impl TokenIssuers ===

impl TokenIssuers {
    /// Reads an `AuthenticationConfiguration`, in YAML or JSON, as kube-apiserver has it.
    ///
    /// # Errors
    ///
    /// If anything in it cannot be carried out; the error names the field.
    pub fn parse(text: &str) -> Result<Self, TokenIssuersError> {
        file::parse(text).map(Self)
    }

    /// Refuses an issuer that is the cluster itself: its tokens are checked otherwise.
    pub(crate) fn check_against(&self, own: &str) -> Result<(), TokenIssuersError> {
        match self.0.iter().position(|issuer| issuer.url == own) {
            Some(index) => {
                let problem =
                    format!("`{own}` issues the tokens of service accounts; it cannot be another's");
                Err(file::refused(format!("jwt[{index}].issuer.url"), problem))
            }
            None => Ok(()),
        }
    }

    /// Keeps the keys up to date, as tasks that may be stopped anywhere.
    pub(crate) fn watch(&self, tasks: &Tasks) {
        self.0.iter().for_each(|issuer| issuer.keys.watch(tasks));
    }

    /// Whose token this claims to be. That is not verified yet.
    pub(crate) fn of(&self, token: &str) -> Option<&Issuer> {
        if self.0.is_empty() {
            return None;
        }
        let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
        let claims = claims::parse(&payload)?;
        let issuer = claims["iss"].as_str()?;
        self.0.iter().find(|known| known.url == issuer)
    }
}

// === impl Issuer ===

impl Issuer {
    /// The user behind a token, or why it is not believed.
    pub(crate) async fn user(&self, token: &str, now: Timestamp) -> Result<User, String> {
        let payload = self.keys.open(token).await.map_err(|denial| format!("{denial:?}"))?;
        let claims = claims::parse(&payload).ok_or("its claims are no object")?;
        self.check(&claims, now)?;
        self.claim_rules.iter().try_for_each(|rule| rule.check(&claims))?;
        let mut user = self.mapping.user(&claims)?;
        if let Some(id) = claims["jti"].as_str().filter(|id| !id.is_empty()) {
            user.extra.insert(CREDENTIAL.to_owned(), vec![format!("JTI={id}")]);
        }
        self.user_rules.iter().try_for_each(|rule| rule.check(&user))?;
        Ok(user.authenticated())
    }

    /// Who, for whom and when.
    fn check(&self, claims: &Value, now: Timestamp) -> Result<(), String> {
        if claims["iss"].as_str() != Some(self.url.as_str()) {
            return Err("it is another issuer's".to_owned());
        }
        let ours = |audience: &Value| {
            audience.as_str().is_some_and(|one| self.audiences.iter().any(|own| own == one))
        };
        let meant = match &claims["aud"] {
            Value::Array(audiences) => audiences.iter().any(ours),
            one => ours(one),
        };
        if !meant {
            return Err("it is for another audience".to_owned());
        }
        let second = |name: &str| claims[name].as_f64();
        let (now, ahead) = (now.as_duration().as_secs_f64(), AHEAD.as_secs_f64());
        // Written so that what cannot be compared does not pass either.
        if !second("exp").is_some_and(|expiry| now < expiry) {
            return Err("it has expired".to_owned());
        }
        if !second("nbf").is_none_or(|begin| begin - ahead <= now) {
            return Err("its time has not come".to_owned());
        }
        Ok(())
    }
}
