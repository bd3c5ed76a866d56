//! From what a token says to a user.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use pilothouse_cel::{Answer, Field, ObjectType, Program, Type, Variable};
use serde_json::{Map, Value, json};

use crate::authentication::User;

/// What one expression may cost. As upstream for rules of definitions.
const LIMIT: u64 = 1_000_000;

/// What expressions speak of: a name and a type.
pub(super) type Variables = &'static (&'static str, Type);

/// An expression over claims, or over a user.
#[derive(Debug)]
pub(super) struct Expression {
    program: Program,
    over: Variables,
}

/// Where a value comes from.
#[derive(Debug)]
pub(super) enum Source {
    Claim { claim: String, prefix: String },
    Expression(Expression),
}

/// Which claims say what of a user.
#[derive(Debug)]
pub(super) struct Mapping {
    pub(super) username: Source,
    pub(super) groups: Option<Source>,
    pub(super) uid: Option<Source>,
    pub(super) extra: Vec<(String, Expression)>,
}

/// What must be true of claims.
#[derive(Debug)]
pub(super) enum ClaimRule {
    Required { claim: String, value: String },
    Expression { holds: Expression, message: String },
}

/// What must be true of a user.
#[derive(Debug)]
pub(super) struct UserRule {
    pub(super) holds: Expression,
    pub(super) message: String,
}

static CLAIMS: LazyLock<(&str, Type)> = LazyLock::new(|| ("claims", Type::map(Type::String, Type::Dyn)));

static USER: LazyLock<(&str, Type)> = LazyLock::new(|| {
    let texts = || Type::list(Type::String);
    let fields = [
        ("username", Type::String),
        ("uid", Type::String),
        ("groups", texts()),
        ("extra", Type::map(Type::String, texts())),
    ];
    let fields = fields.map(|(name, kind)| (name.to_owned(), Field { name: name.to_owned(), kind }));
    let fields = BTreeMap::from(fields);
    ("user", Type::Object(Arc::new(ObjectType { name: "kubernetes.UserInfo".to_owned(), fields })))
});

/// Over the claims of a token.
pub(super) fn of_claims() -> Variables {
    &CLAIMS
}

/// Over the user that came of them.
pub(super) fn of_user() -> Variables {
    &USER
}

// === impl Expression ===

impl Expression {
    pub(super) fn compile(text: &str, over: Variables) -> Result<Self, String> {
        let program =
            Program::compile(text, &[(over.0, over.1.clone())]).map_err(|error| error.to_string())?;
        Ok(Self { program, over })
    }

    fn evaluate(&self, value: &Value) -> Result<Answer, String> {
        let evaluation = self.program.evaluate(&[(self.over.0, Variable::Value(value, &self.over.1))], LIMIT);
        evaluation.answer.map_err(|error| error.to_string())
    }

    fn holds(&self, value: &Value, message: &str) -> Result<(), String> {
        match self.evaluate(value)? {
            Answer::Bool(true) => Ok(()),
            Answer::Bool(false) => Err(message.to_owned()),
            other => Err(format!("a rule came to {other:?}, which is neither true nor false")),
        }
    }

    fn texts(&self, value: &Value, what: &str) -> Result<Vec<String>, String> {
        match self.evaluate(value)? {
            Answer::Text(text) if text.is_empty() => Ok(Vec::new()),
            Answer::Text(text) => Ok(vec![text]),
            Answer::Texts(texts) => Ok(texts),
            Answer::Other("null_type") => Ok(Vec::new()),
            other => Err(format!("{what} came to {other:?}, which is no text and no list of text")),
        }
    }
}

// === impl ClaimRule ===

impl ClaimRule {
    pub(super) fn check(&self, claims: &Value) -> Result<(), String> {
        match self {
            Self::Required { claim, value } => match claims[claim].as_str() {
                Some(found) if found == value => Ok(()),
                _ => Err(format!("the claim `{claim}` is not `{value}`")),
            },
            Self::Expression { holds, message } => holds.holds(claims, message),
        }
    }
}

// === impl UserRule ===

impl UserRule {
    pub(super) fn check(&self, user: &User) -> Result<(), String> {
        let user =
            json!({ "username": user.name, "uid": user.uid, "groups": user.groups, "extra": user.extra });
        self.holds.holds(&user, &self.message)
    }
}

// === impl Mapping ===

impl Mapping {
    /// The user that these claims are about.
    pub(super) fn user(&self, claims: &Value) -> Result<User, String> {
        let name = match &self.username {
            Source::Claim { claim, prefix } => {
                let name = claims[claim].as_str().filter(|name| !name.is_empty());
                let name = name.ok_or_else(|| format!("the claim `{claim}` is no name"))?;
                let unverified = claims.get("email_verified").is_some_and(|verified| *verified != true);
                if claim == "email" && unverified {
                    return Err("the email address is not verified".to_owned());
                }
                format!("{prefix}{name}")
            }
            Source::Expression(expression) => one(expression.texts(claims, "the name of the user")?)
                .filter(|name| !name.is_empty())
                .ok_or("the name of the user came to nothing")?,
        };
        let groups = match &self.groups {
            None => Vec::new(),
            Some(Source::Claim { claim, prefix }) => {
                let found = groups(claim, &claims[claim])?;
                found.into_iter().map(|group| format!("{prefix}{group}")).collect()
            }
            Some(Source::Expression(expression)) => expression.texts(claims, "the groups")?,
        };
        let uid = match &self.uid {
            None => String::new(),
            Some(Source::Claim { claim, .. }) => {
                let uid = claims[claim].as_str();
                uid.ok_or_else(|| format!("the claim `{claim}` is no text"))?.to_owned()
            }
            Some(Source::Expression(expression)) => {
                one(expression.texts(claims, "the uid")?).unwrap_or_default()
            }
        };
        let mut extra = BTreeMap::new();
        for (key, expression) in &self.extra {
            let values = expression.texts(claims, key)?;
            if !values.is_empty() {
                extra.insert(key.clone(), values);
            }
        }
        Ok(User { name, uid, groups, extra })
    }
}

fn one(texts: Vec<String>) -> Option<String> {
    <[String; 1]>::try_from(texts).ok().map(|[text]| text)
}

/// Issuers write one group as text and several as a list; who is in none may have no such claim.
fn groups(claim: &str, value: &Value) -> Result<Vec<String>, String> {
    let wrong = || format!("the claim `{claim}` is neither text nor a list of text");
    match value {
        Value::Null => Ok(Vec::new()),
        Value::String(group) => Ok(vec![group.clone()]),
        Value::Array(groups) => {
            groups.iter().map(|group| group.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
        }
        _ => Err(wrong()),
    }
}

/// Claims, if that is what a token says.
pub(super) fn parse(payload: &[u8]) -> Option<Value> {
    serde_json::from_slice::<Map<String, Value>>(payload).ok().map(Value::Object)
}
