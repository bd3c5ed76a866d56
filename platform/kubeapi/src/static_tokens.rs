//! Tokens from a file that stay the same: the way in for whoever has no certificate.
//!
//! One line each, as kube-apiserver reads them: `token,user,uid` and, in quotes, the groups. A token is looked up by its
//! digest, so that neither the time a look-up takes nor a memory dump tells one.

use std::collections::HashMap;

use aws_lc_rs::digest::{SHA256, digest};

use crate::authentication::User;

/// Who has which token.
#[derive(Clone, Debug, Default)]
pub struct StaticTokens {
    users: HashMap<Vec<u8>, User>,
}

/// Why a file of tokens cannot be used. It never shows a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the token file is not usable: {problem}; write `token,user,uid,\"group,group\"`")]
pub struct StaticTokensError {
    line: usize,
    problem: &'static str,
}

impl StaticTokens {
    /// Reads the text of a file. Empty lines and those that begin with `#` are nobody's.
    ///
    /// # Errors
    ///
    /// If a line has too few fields, lacks the token or the user, or has the token of another.
    pub fn parse(text: &str) -> Result<Self, StaticTokensError> {
        let mut users = HashMap::new();
        for (line, content) in (1..).zip(text.lines().map(str::trim)) {
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let refused = |problem| StaticTokensError { line, problem };
            let fields = fields(content).ok_or_else(|| refused("a quote is not closed"))?;
            let [token, name, uid, groups @ ..] = fields.as_slice() else {
                return Err(refused("it has fewer than three fields"));
            };
            if token.is_empty() || name.is_empty() {
                return Err(refused("it has no token or no user"));
            }
            let groups = groups.iter().flat_map(|groups| groups.split(',')).map(str::trim);
            let groups = groups.filter(|group| !group.is_empty()).map(str::to_owned).collect();
            let user = User { name: name.clone(), uid: uid.clone(), groups, ..User::default() };
            if users.insert(key(token), user.authenticated()).is_some() {
                return Err(refused("its token is in the file twice"));
            }
        }
        Ok(Self { users })
    }

    /// Whose token this is.
    pub(crate) fn find(&self, token: &str) -> Option<User> {
        if self.users.is_empty() {
            return None;
        }
        self.users.get(&key(token)).cloned()
    }
}

fn key(token: &str) -> Vec<u8> {
    digest(&SHA256, token.as_bytes()).as_ref().to_vec()
}

/// The fields of a line. In quotes a comma is a comma, and two quotes are one.
fn fields(line: &str) -> Option<Vec<String>> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        let last = fields.last_mut()?;
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                last.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            other => last.push(other),
        }
    }
    (!quoted).then(|| fields.iter().map(|field| field.trim().to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_its_user_and_groups() {
        let text = "# who may do what\n\nhunter2,ada,7,\"system:masters,dev\"\nother, bob ,8\n";
        let tokens = StaticTokens::parse(text).unwrap();
        let ada = tokens.find("hunter2").unwrap();
        assert_eq!((ada.name.as_str(), ada.uid.as_str()), ("ada", "7"));
        assert_eq!(ada.groups, ["system:masters", "dev", "system:authenticated"]);
        assert_eq!(tokens.find("other").unwrap().groups, ["system:authenticated"]);
        assert_eq!(tokens.find("hunter"), None);
        assert!(!format!("{tokens:?}").contains("hunter2"), "no token is shown");
    }

    #[test]
    fn a_wrong_line_is_named_and_its_token_is_not() {
        for (text, line, problem) in [
            ("a,b,c\nhunter2,ada", 2, "it has fewer than three fields"),
            ("hunter2,,1", 1, "it has no token or no user"),
            ("hunter2,ada,1\nhunter2,bob,2", 2, "its token is in the file twice"),
            ("hunter2,ada,1,\"dev", 1, "a quote is not closed"),
        ] {
            let refused = StaticTokens::parse(text).unwrap_err();
            assert_eq!(refused, StaticTokensError { line, problem });
            assert!(!refused.to_string().contains("hunter2"));
        }
    }
}
