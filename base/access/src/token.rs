//! Reading a token: its form, its signature, its times, and what it says of its bearer.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::config::Jwt;
use crate::denial::{Denial, Fault};
use crate::keys::Keys;

/// What a token says, as far as it matters here.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Claims {
    pub(crate) iss: Option<String>,
    pub(crate) aud: Option<Audience>,
    pub(crate) exp: Option<f64>,
    pub(crate) nbf: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) iat: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) oid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sub: Option<String>,
    /// The application, in tokens of the first version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) appid: Option<String>,
    /// The application, in tokens of the second version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) azp: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) preferred_username: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) upn: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) scp: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) roles: Vec<String>,
}

/// One or several.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub(crate) enum Audience {
    One(String),
    Several(Vec<String>),
}

/// What was checked.
pub(crate) async fn verify(token: &str, config: &Jwt, keys: &Keys, now: Timestamp) -> Result<Claims, Denial> {
    let payload = keys.open(token).await?;
    // Only now: what is not signed is not worth reading.
    let claims: Claims = serde_json::from_slice(&payload).map_err(|_| Denial::Token(Fault::Malformed))?;
    claims.check(config, now).map_err(Denial::Token)?;
    Ok(claims)
}

impl Claims {
    fn check(&self, config: &Jwt, now: Timestamp) -> Result<(), Fault> {
        let (now, skew) = (now.as_duration().as_secs_f64(), config.clock_skew.0.as_secs_f64());
        let expiry = self.exp.ok_or(Fault::NoExpiry)?;
        // Written so that what cannot be compared does not pass either.
        let lives = now < expiry + skew;
        if !lives {
            return Err(Fault::Expired);
        }
        let begun = self.nbf.is_none_or(|begin| begin - skew <= now);
        if !begun {
            return Err(Fault::NotYetValid);
        }
        if self.iss.as_deref() != Some(config.issuer.as_str()) {
            return Err(Fault::Issuer);
        }
        if !self.aud.as_ref().is_some_and(|audience| audience.includes(&config.audience)) {
            return Err(Fault::Audience);
        }
        let allowed = &config.allowed_app_ids;
        let known = |app_id: &str| allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(app_id));
        if !allowed.is_empty() && !self.app_id().is_some_and(known) {
            return Err(Fault::Application);
        }
        Ok(())
    }

    pub(crate) fn app_id(&self) -> Option<&str> {
        self.appid.as_deref().or(self.azp.as_deref())
    }

    /// Whether a person is behind it: applications on their own have no user name and no delegated scope.
    pub(crate) fn is_user(&self) -> bool {
        self.upn.is_some() || self.preferred_username.is_some() || self.scp.is_some()
    }

    /// What to call the bearer.
    pub(crate) fn display_name(&self) -> &str {
        let person = self.upn.as_deref().or(self.preferred_username.as_deref()).or(self.name.as_deref());
        let program = self.app_id().or(self.oid.as_deref()).or(self.sub.as_deref());
        person.or(program).unwrap_or("somebody with a token")
    }
}

impl Audience {
    fn includes(&self, wanted: &str) -> bool {
        match self {
            Self::One(audience) => audience == wanted,
            Self::Several(audiences) => audiences.iter().any(|audience| audience == wanted),
        }
    }
}
