//! Questions and answers as they are sent (RFC 1035, and the size of answers by RFC 6891).
//!
//! Only what a server of its own names needs: one question in, records out.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use super::name::Name;

#[cfg(test)]
mod tests;

/// What every client takes.
const SMALLEST: usize = 512;
/// What goes through every network in one piece.
const LARGEST: usize = 1232;
/// The largest message over a connection.
pub(super) const OVER_TCP: usize = 65_535;
const HEADER: usize = 12;
/// The class of everything.
const INTERNET: u16 = 1;
const OPT: u16 = 41;

/// Types of records.
pub(super) mod kind {
    pub(crate) const A: u16 = 1;
    pub(crate) const NS: u16 = 2;
    pub(crate) const CNAME: u16 = 5;
    pub(crate) const SOA: u16 = 6;
    pub(crate) const PTR: u16 = 12;
    pub(crate) const TXT: u16 = 16;
    pub(crate) const SRV: u16 = 33;
    pub(crate) const ANY: u16 = 255;
}

/// How a question was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    Fine = 0,
    Malformed = 1,
    ServerFailure = 2,
    NoSuchName = 3,
    NotImplemented = 4,
    Refused = 5,
}

/// One question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Query {
    id: u16,
    recursion_desired: bool,
    pub(super) name: Name,
    pub(super) kind: u16,
    class: u16,
    /// The size the client takes, if it said so.
    size: Option<u16>,
}

/// Why a message is no question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// Nobody waits for an answer.
    Ignored,
    /// Somebody does, who is known by this number only.
    Answered(u16, Code),
}

/// One record of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) name: Name,
    pub(super) seconds: u32,
    pub(super) data: Data,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Data {
    A(Ipv4Addr),
    Ns(Name),
    Cname(Name),
    Ptr(Name),
    Srv { weight: u16, port: u16, target: Name },
    Soa { server: Name, contact: Name, minimum: u32 },
    Txt(&'static str),
}

/// What is known about a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) code: Code,
    pub(super) answers: Vec<Record>,
    pub(super) authority: Vec<Record>,
    pub(super) additional: Vec<Record>,
}

struct Writer {
    bytes: Vec<u8>,
    limit: usize,
    /// Where names, without capitals, were written before.
    names: HashMap<Vec<u8>, u16>,
}

// === impl Query ===

impl Query {
    /// Reads a message.
    pub(super) fn read(message: &[u8]) -> Result<Self, Unreadable> {
        let word = |at: usize| Some(u16::from_be_bytes([*message.get(at)?, *message.get(at + 1)?]));
        let (Some(id), Some(flags)) = (word(0), word(2)) else { return Err(Unreadable::Ignored) };
        if flags & 0x8000 != 0 {
            // An answer; to answer that could go on for ever.
            return Err(Unreadable::Ignored);
        }
        if flags & 0x7800 != 0 {
            return Err(Unreadable::Answered(id, Code::NotImplemented));
        }
        Self::read_question(message, id, flags).ok_or(Unreadable::Answered(id, Code::Malformed))
    }

    fn read_question(message: &[u8], id: u16, flags: u16) -> Option<Self> {
        let word = |at: usize| Some(u16::from_be_bytes([*message.get(at)?, *message.get(at + 1)?]));
        let (questions, answers, authority, additional) = (word(4)?, word(6)?, word(8)?, word(10)?);
        if questions != 1 {
            return None;
        }
        let (name, mut at) = Name::read(message, HEADER)?;
        let (kind, class) = (word(at)?, word(at + 2)?);
        at += 4;
        let mut size = None;
        let before = u32::from(answers) + u32::from(authority);
        for number in 0..before + u32::from(additional) {
            at = skip_name(message, at)?;
            let (kind, class, length) = (word(at)?, word(at + 2)?, word(at + 8)?);
            at += 10 + usize::from(length);
            if at > message.len() {
                return None;
            }
            if kind == OPT && number >= before && size.replace(class).is_some() {
                return None;
            }
        }
        Some(Self { id, recursion_desired: flags & 0x0100 != 0, name, kind, class, size })
    }

    /// Whether it is about what there is here.
    pub(super) fn is_of_internet(&self) -> bool {
        self.class == INTERNET || self.class == 255
    }

    /// The size of an answer as a datagram.
    pub(super) fn datagram(&self) -> usize {
        self.size.map_or(SMALLEST, |size| usize::from(size).clamp(SMALLEST, LARGEST))
    }

    /// The answer as it is sent, no longer than `limit`. What does not fit is left out, and the client told so.
    pub(super) fn reply(&self, answer: &Answer, limit: usize) -> Vec<u8> {
        let opt = if self.size.is_some() { 11 } else { 0 };
        let mut writer = Writer { bytes: vec![0; HEADER], limit: limit - opt, names: HashMap::new() };
        writer.name(&self.name, true);
        writer.word(self.kind);
        writer.word(self.class);
        let answers = writer.records(&answer.answers);
        let authority = if answers.1 { writer.records(&answer.authority) } else { (0, false) };
        // These are a courtesy: nobody needs to ask again for them.
        let additional = if authority.1 { writer.records(&answer.additional).0 } else { 0 };
        let truncated = !(answers.1 && authority.1);
        let mut bytes = writer.bytes;
        if self.size.is_some() {
            bytes.push(0);
            for word in [OPT, LARGEST as u16, 0, 0, 0] {
                bytes.extend_from_slice(&word.to_be_bytes());
            }
        }
        let opt_records = u16::from(self.size.is_some());
        let counts = [1, answers.0, authority.0, additional + opt_records];
        header(&mut bytes, self.id, self.recursion_desired, truncated, answer.code, counts);
        bytes
    }
}

// === impl Unreadable ===

impl Unreadable {
    /// What is sent back, if anything.
    pub(super) fn reply(self) -> Option<Vec<u8>> {
        match self {
            Self::Ignored => None,
            Self::Answered(id, code) => {
                let mut bytes = vec![0; HEADER];
                header(&mut bytes, id, false, false, code, [0; 4]);
                Some(bytes)
            }
        }
    }
}

fn header(bytes: &mut [u8], id: u16, recursion: bool, truncated: bool, code: Code, counts: [u16; 4]) {
    // An answer, and an authoritative one where it is about our names.
    let authoritative = matches!(code, Code::Fine | Code::NoSuchName);
    let flags = 0x8000
        | u16::from(authoritative) << 10
        | u16::from(truncated) << 9
        | u16::from(recursion) << 8
        | code as u16;
    let words = [id, flags].into_iter().chain(counts);
    for (place, word) in bytes.chunks_exact_mut(2).zip(words) {
        place.copy_from_slice(&word.to_be_bytes());
    }
}

/// Where a name ends, also one that is continued elsewhere.
fn skip_name(message: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *message.get(at)? {
            0 => return Some(at + 1),
            length @ 1..=63 => at += 1 + usize::from(length),
            192.. => return message.get(at + 1).map(|_| at + 2),
            _ => return None,
        }
    }
}

// === impl Writer ===

impl Writer {
    /// Writes as many as fit. Answers how many those were, and whether they were all.
    fn records(&mut self, records: &[Record]) -> (u16, bool) {
        let mut written = 0;
        for record in records {
            let start = self.bytes.len();
            self.record(record);
            if self.bytes.len() > self.limit || written == u16::MAX {
                self.bytes.truncate(start);
                self.names.retain(|_, place| usize::from(*place) < start);
                return (written, false);
            }
            written += 1;
        }
        (written, true)
    }

    fn record(&mut self, record: &Record) {
        self.name(&record.name, true);
        self.word(record.data.kind());
        self.word(INTERNET);
        self.double(record.seconds);
        let length_at = self.bytes.len();
        self.word(0);
        match &record.data {
            Data::A(address) => self.bytes.extend_from_slice(&address.octets()),
            Data::Ns(name) | Data::Cname(name) | Data::Ptr(name) => self.name(name, true),
            Data::Srv { weight, port, target } => {
                for word in [0, *weight, *port] {
                    self.word(word);
                }
                // By its definition, never shortened.
                self.name(target, false);
            }
            Data::Soa { server, contact, minimum } => {
                self.name(server, true);
                self.name(contact, true);
                for number in [1, 7200, 1800, 86_400, *minimum] {
                    self.double(number);
                }
            }
            Data::Txt(text) => {
                // Ours are short.
                self.bytes.push(text.len() as u8);
                self.bytes.extend_from_slice(text.as_bytes());
            }
        }
        let length = (self.bytes.len() - length_at - 2) as u16;
        self.bytes[length_at..length_at + 2].copy_from_slice(&length.to_be_bytes());
    }

    /// Writes a name, or the beginning of it and where the rest was written before.
    fn name(&mut self, name: &Name, shorten: bool) {
        let wire = name.wire();
        let mut at = 0;
        while wire[at] != 0 {
            let rest = wire[at..].to_ascii_lowercase();
            if let Some(place) = self.names.get(&rest).filter(|_| shorten) {
                let pointer = 0xc000 | *place;
                return self.word(pointer);
            }
            if let Ok(place @ 0..0x4000) = u16::try_from(self.bytes.len()) {
                self.names.entry(rest).or_insert(place);
            }
            let end = at + 1 + usize::from(wire[at]);
            self.bytes.extend_from_slice(&wire[at..end]);
            at = end;
        }
        self.bytes.push(0);
    }

    fn word(&mut self, word: u16) {
        self.bytes.extend_from_slice(&word.to_be_bytes());
    }

    fn double(&mut self, double: u32) {
        self.bytes.extend_from_slice(&double.to_be_bytes());
    }
}

// === impl Data ===

impl Data {
    pub(super) fn kind(&self) -> u16 {
        match self {
            Self::A(_) => kind::A,
            Self::Ns(_) => kind::NS,
            Self::Cname(_) => kind::CNAME,
            Self::Ptr(_) => kind::PTR,
            Self::Srv { .. } => kind::SRV,
            Self::Soa { .. } => kind::SOA,
            Self::Txt(_) => kind::TXT,
        }
    }
}
