//! The file that says whose tokens are believed: an `AuthenticationConfiguration`, as kube-apiserver reads it with
//! `--authentication-config`. What it says of anything else than tokens is refused, so that nobody believes it in force.

use pilothouse_access::Keys;
use pilothouse_http::ClientBuilder;
use pilothouse_pki::Bundle;
use serde::Deserialize;
use url::Url;

use super::Issuer;
use super::claims::{ClaimRule, Expression, Mapping, Source, UserRule, of_claims, of_user};

/// The versions of the file that are understood; they say the same.
const VERSIONS: [&str; 2] = ["apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1"];
/// As upstream.
const MOST_ISSUERS: usize = 64;
/// How long reading an issuer's keys may take: requests wait for it.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(5);

/// Why a file about issuers of tokens cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct TokenIssuersError {
    field: String,
    problem: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    api_version: String,
    kind: String,
    #[serde(default)]
    jwt: Vec<Jwt>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Jwt {
    issuer: Whose,
    #[serde(default)]
    claim_validation_rules: Vec<ClaimValidationRule>,
    claim_mappings: ClaimMappings,
    #[serde(default)]
    user_validation_rules: Vec<UserValidationRule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Whose {
    url: String,
    #[serde(default, rename = "discoveryURL")]
    discovery_url: Option<String>,
    #[serde(default)]
    certificate_authority: Option<String>,
    audiences: Vec<String>,
    #[serde(default)]
    audience_match_policy: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ClaimValidationRule {
    #[serde(default)]
    claim: Option<String>,
    #[serde(default)]
    required_value: Option<String>,
    #[serde(default)]
    expression: Option<String>,
    #[serde(default)]
    message: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct UserValidationRule {
    expression: String,
    #[serde(default)]
    message: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ClaimMappings {
    username: Mapped,
    #[serde(default)]
    groups: Mapped,
    #[serde(default)]
    uid: Mapped,
    #[serde(default)]
    extra: Vec<Extra>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Mapped {
    #[serde(default)]
    claim: Option<String>,
    #[serde(default)]
    prefix: Option<String>,
    #[serde(default)]
    expression: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Extra {
    key: String,
    value_expression: String,
}

type Checked<T> = Result<T, TokenIssuersError>;

/// Reads the text of a file, in YAML or JSON.
pub(super) fn parse(text: &str) -> Checked<Vec<Issuer>> {
    let file: File =
        serde_saphyr::from_str(text).map_err(|error| refused("AuthenticationConfiguration", error))?;
    if file.kind != "AuthenticationConfiguration" {
        return Err(refused("kind", format!("`{}` is not `AuthenticationConfiguration`", file.kind)));
    }
    if !VERSIONS.contains(&file.api_version.as_str()) {
        let known = VERSIONS.join("` or `");
        return Err(refused("apiVersion", format!("`{}` is not known; write `{known}`", file.api_version)));
    }
    if file.jwt.len() > MOST_ISSUERS {
        return Err(refused("jwt", format!("has more than {MOST_ISSUERS} issuers")));
    }
    let mut issuers: Vec<Issuer> = Vec::new();
    for (index, jwt) in file.jwt.into_iter().enumerate() {
        let issuer = jwt.read(&format!("jwt[{index}]"))?;
        if issuers.iter().any(|known| known.url == issuer.url) {
            let problem = format!("`{}` is there twice", issuer.url);
            return Err(refused(format!("jwt[{index}].issuer.url"), problem));
        }
        issuers.push(issuer);
    }
    Ok(issuers)
}

pub(super) fn refused(field: impl Into<String>, problem: impl ToString) -> TokenIssuersError {
    TokenIssuersError { field: field.into(), problem: problem.to_string() }
}

impl Jwt {
    fn read(self, field: &str) -> Checked<Issuer> {
        let Self { issuer, claim_validation_rules, claim_mappings, user_validation_rules } = self;
        let keys = issuer.keys(&format!("{field}.issuer"))?;
        let rules = format!("{field}.claimValidationRules");
        claim_mappings.check_email(&format!("{field}.claimMappings"), &claim_validation_rules)?;
        let claim_rules = claim_validation_rules
            .into_iter()
            .enumerate()
            .map(|(index, rule)| rule.read(&format!("{rules}[{index}]")))
            .collect::<Checked<_>>()?;
        let user_rules = user_validation_rules.into_iter().enumerate().map(|(index, rule)| {
            let at = format!("{field}.userValidationRules[{index}].expression");
            let message = rule.message.unwrap_or_else(|| format!("{} does not hold", rule.expression));
            Ok(UserRule { holds: compile(&at, &rule.expression, of_user())?, message })
        });
        let user_rules = user_rules.collect::<Checked<_>>()?;
        let mapping = claim_mappings.read(&format!("{field}.claimMappings"))?;
        Ok(Issuer { url: issuer.url, audiences: issuer.audiences, keys, claim_rules, mapping, user_rules })
    }
}

impl Whose {
    fn keys(&self, field: &str) -> Checked<Keys> {
        let named = |name: &str| format!("{field}.{name}");
        let url = address(&named("url"), &self.url)?;
        let document = match self.discovery_url.as_deref().filter(|url| !url.is_empty()) {
            Some(text) if text.trim_end_matches('/') == self.url.trim_end_matches('/') => {
                return Err(refused(named("discoveryURL"), "is the same as `url`; leave it out"));
            }
            Some(text) => address(&named("discoveryURL"), text)?,
            None => {
                let text = format!("{}/.well-known/openid-configuration", self.url.trim_end_matches('/'));
                text.parse().unwrap_or(url)
            }
        };
        if self.audiences.is_empty() || self.audiences.iter().any(String::is_empty) {
            return Err(refused(named("audiences"), "needs at least one, and none that is empty"));
        }
        match (self.audiences.len(), self.audience_match_policy.as_deref().unwrap_or_default()) {
            (1, "" | "MatchAny") | (_, "MatchAny") => {}
            (1, other) => {
                return Err(refused(
                    named("audienceMatchPolicy"),
                    format!("`{other}` is not known; write `MatchAny` or leave it out"),
                ));
            }
            (_, _) => {
                return Err(refused(
                    named("audienceMatchPolicy"),
                    "must be `MatchAny` where there are several audiences",
                ));
            }
        }
        let builder = ClientBuilder::new(LIMIT).https_only();
        let builder = match self.certificate_authority.as_deref().filter(|pem| !pem.trim().is_empty()) {
            Some(pem) => {
                let bundle = Bundle::from_pem(pem.as_bytes())
                    .map_err(|_| refused(named("certificateAuthority"), "holds no certificates in PEM"))?;
                builder.with_authorities(bundle)
            }
            None => builder.with_system_authorities(),
        };
        let client = builder.build().map_err(|error| {
            refused(field, format!("no client can be made: {}", pilothouse_runtime::Chain(&error)))
        })?;
        Ok(Keys::discovered(&self.url, document, client))
    }
}

/// Who can change what is on the way is the issuer, so it has to be TLS.
fn address(field: &str, text: &str) -> Checked<Url> {
    let url = text.parse::<Url>().ok().filter(|url| {
        let plain = url.username().is_empty() && url.password().is_none();
        url.scheme() == "https" && url.query().is_none() && url.fragment().is_none() && plain
    });
    url.ok_or_else(|| {
        refused(field, format!("`{text}` is no `https` address without user, query and fragment"))
    })
}

impl ClaimValidationRule {
    fn read(self, field: &str) -> Checked<ClaimRule> {
        let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
        match (filled(self.claim), filled(self.expression)) {
            (Some(claim), None) => {
                Ok(ClaimRule::Required { claim, value: self.required_value.unwrap_or_default() })
            }
            (None, Some(expression)) => {
                let holds = compile(&format!("{field}.expression"), &expression, of_claims())?;
                let message = self.message.unwrap_or_else(|| format!("{expression} does not hold"));
                Ok(ClaimRule::Expression { holds, message })
            }
            _ => Err(refused(field, "needs either `claim` or `expression`")),
        }
    }
}

impl ClaimMappings {
    fn read(self, field: &str) -> Checked<Mapping> {
        let of = |name: &str| format!("{field}.{name}");
        let username = self.username.read(&of("username"), true)?;
        let username = username.ok_or_else(|| refused(of("username"), "needs `claim` or `expression`"))?;
        let mut extra: Vec<(String, Expression)> = Vec::new();
        for (index, Extra { key, value_expression }) in self.extra.into_iter().enumerate() {
            let at = format!("{field}.extra[{index}]");
            check_key(&format!("{at}.key"), &key)?;
            if extra.iter().any(|(known, _)| *known == key) {
                return Err(refused(format!("{at}.key"), format!("`{key}` is there twice")));
            }
            extra.push((key, compile(&format!("{at}.valueExpression"), &value_expression, of_claims())?));
        }
        Ok(Mapping {
            username,
            groups: self.groups.read(&of("groups"), true)?,
            uid: self.uid.read(&of("uid"), false)?,
            extra,
        })
    }

    /// Whoever names people by an address that nobody verified lets them choose their name.
    fn check_email(&self, field: &str, rules: &[ClaimValidationRule]) -> Checked<()> {
        let Some(expression) = &self.username.expression else { return Ok(()) };
        let uses_email = expression.match_indices("claims.email").any(|(at, found)| {
            let next = expression[at + found.len()..].chars().next();
            !next.is_some_and(|next| next.is_ascii_alphanumeric() || next == '_')
        });
        let others = rules.iter().filter_map(|rule| rule.expression.as_ref());
        let mut all =
            others.chain(self.extra.iter().map(|extra| &extra.value_expression)).chain([expression]);
        if uses_email && !all.any(|text| text.contains("claims.email_verified")) {
            return Err(refused(
                format!("{field}.username.expression"),
                "uses `claims.email`, so `claims.email_verified` must be used here, in an `extra` or in a rule",
            ));
        }
        Ok(())
    }
}

impl Mapped {
    fn read(self, field: &str, prefixed: bool) -> Checked<Option<Source>> {
        let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
        match (filled(self.claim), filled(self.expression)) {
            (None, None) if self.prefix.is_none() => Ok(None),
            (Some(claim), None) => match (self.prefix, prefixed) {
                (None, true) => {
                    Err(refused(format!("{field}.prefix"), "is needed beside `claim`; write `\"\"` for none"))
                }
                (Some(_), false) => Err(refused(format!("{field}.prefix"), "is not for this one")),
                (prefix, _) => Ok(Some(Source::Claim { claim, prefix: prefix.unwrap_or_default() })),
            },
            (None, Some(expression)) if self.prefix.is_none() => {
                let program = compile(&format!("{field}.expression"), &expression, of_claims())?;
                Ok(Some(Source::Expression(program)))
            }
            _ => Err(refused(field, "needs either `claim`, with a `prefix`, or `expression` alone")),
        }
    }
}

fn compile(field: &str, text: &str, over: super::claims::Variables) -> Checked<Expression> {
    Expression::compile(text, over).map_err(|problem| refused(field, problem))
}

/// What other authenticators say of a user has keys of Kubernetes, which nobody else gives away.
fn check_key(field: &str, key: &str) -> Checked<()> {
    let domain = key.split_once('/').filter(|(domain, rest)| !domain.is_empty() && !rest.is_empty());
    let Some((domain, _)) = domain else {
        return Err(refused(field, format!("`{key}` is no key such as `example.com/department`")));
    };
    if key.chars().any(|one| one.is_ascii_uppercase()) {
        return Err(refused(field, format!("`{key}` must be in lower case")));
    }
    let reserved = ["kubernetes.io", "k8s.io"];
    if reserved.iter().any(|own| domain == *own || domain.ends_with(&format!(".{own}"))) {
        return Err(refused(field, format!("`{domain}` is reserved for Kubernetes")));
    }
    Ok(())
}
