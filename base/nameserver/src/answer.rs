//! What is known about a question.

use std::net::IpAddr;

use hickory_proto::op::{Query, ResponseCode};
use hickory_proto::rr::Record;

/// What is known about a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether there is such a name, or why nothing is said.
    pub code: ResponseCode,
    /// Whether it is said of names that are ours. Not where it only says whom else to ask.
    pub authoritative: bool,
    /// What was asked for.
    pub answers: Vec<Record>,
    /// Whose names these are.
    pub authority: Vec<Record>,
    /// What will be asked next.
    pub additional: Vec<Record>,
}

/// Whoever knows about names. A cheap handle.
pub trait Answers: Clone + Send + Sync + 'static {
    /// What is known about a question of the internet's class, asked from this address.
    fn answer(&self, question: &Query, client: IpAddr) -> Answer;
}

impl Answer {
    /// Nothing but a code.
    pub fn only(code: ResponseCode) -> Self {
        Self {
            code,
            authoritative: matches!(code, ResponseCode::NoError | ResponseCode::NXDomain),
            answers: Vec::new(),
            authority: Vec::new(),
            additional: Vec::new(),
        }
    }

    /// What was asked for, and what may be asked next.
    pub fn found(answers: Vec<Record>, additional: Vec<Record>) -> Self {
        Self { answers, additional, ..Self::only(ResponseCode::NoError) }
    }

    /// There is no such name, or no such record of it; whose names these are says for how long that holds.
    pub fn none(code: ResponseCode, authority: Vec<Record>) -> Self {
        Self { authority, ..Self::only(code) }
    }

    /// Somebody else knows: these servers, at these addresses.
    pub fn referral(servers: Vec<Record>, addresses: Vec<Record>) -> Self {
        let nothing = Self::only(ResponseCode::NoError);
        Self { authoritative: false, authority: servers, additional: addresses, ..nothing }
    }
}
