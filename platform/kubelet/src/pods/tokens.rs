//! The tokens of a pod's account, kept until four fifths of their life are over.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};

/// When a token that could not be renewed is tried again.
const AGAIN: SignedDuration = SignedDuration::from_secs(10);

/// The audience, and for how many seconds it is wanted.
pub(crate) type Wanted = (String, i64);

/// The tokens of one pod.
#[derive(Debug, Default)]
pub(crate) struct Tokens(Mutex<BTreeMap<Wanted, Token>>);

/// A token and when it should be, and when it has to be, replaced.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) renew_at: Timestamp,
    expires_at: Timestamp,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Token").field("renew_at", &self.renew_at).finish_non_exhaustive()
    }
}

impl Token {
    /// Its life is counted from now: the server's clock is not ours.
    pub(crate) fn new(text: String, expires_at: Timestamp, now: Timestamp) -> Self {
        let life = expires_at.duration_since(now);
        let renew_at = now.saturating_add(life * 4 / 5).unwrap_or(Timestamp::MAX);
        Self { text, renew_at, expires_at }
    }
}

impl Tokens {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Wanted, Token>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One that need not be renewed yet.
    pub(crate) fn fresh(&self, wanted: &Wanted, now: Timestamp) -> Option<Token> {
        self.lock().get(wanted).filter(|token| now < token.renew_at).cloned()
    }

    /// One that is still good although it could not be renewed, to be tried again soon.
    pub(crate) fn usable(&self, wanted: &Wanted, now: Timestamp) -> Option<Token> {
        let token = self.lock().get(wanted).filter(|token| now < token.expires_at).cloned()?;
        let renew_at = now.saturating_add(AGAIN).unwrap_or(Timestamp::MAX);
        Some(Token { renew_at, ..token })
    }

    pub(crate) fn keep(&self, wanted: Wanted, token: Token) {
        self.lock().insert(wanted, token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_asked_for_again_at_four_fifths_and_used_until_its_end() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let tokens = Tokens::default();
        let wanted = ("api".to_owned(), 1000);
        assert_eq!(tokens.fresh(&wanted, at(0)), None);
        tokens.keep(wanted.clone(), Token::new("one".to_owned(), at(1000), at(0)));
        assert_eq!(tokens.fresh(&wanted, at(799)).map(|token| token.renew_at), Some(at(800)));
        assert_eq!(tokens.fresh(&("other".to_owned(), 1000), at(1)), None);
        assert_eq!(tokens.fresh(&wanted, at(800)), None);
        assert_eq!(tokens.usable(&wanted, at(999)).map(|token| token.renew_at), Some(at(1009)));
        assert_eq!(tokens.usable(&wanted, at(1000)), None);
    }
}
