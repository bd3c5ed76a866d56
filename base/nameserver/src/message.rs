//! Questions and answers as they are sent. The format is hickory's; here is what is taken for a question, and how much of an
//! answer is sent.

use hickory_proto::ProtoError;
use hickory_proto::op::{
    self, Edns, Header, HeaderCounts, Message, MessageType, Metadata, OpCode, ResponseCode,
};
use hickory_proto::rr::{DNSClass, Record};
use hickory_proto::serialize::binary::{
    BinDecodable as _, BinDecoder, BinEncodable as _, BinEncoder, EncodedSize as _,
};

use crate::answer::Answer;

#[cfg(test)]
mod tests;

/// What every client takes.
const SMALLEST: u16 = 512;
/// What goes through every network in one piece.
const LARGEST: u16 = 1232;
/// The largest message over a connection.
pub(crate) const OVER_TCP: usize = 65_535;
/// The part of a message that says who asks, and for what.
const IDENTIFIED: usize = 4;
/// What it takes to say which size we take.
const EDNS: usize = 11;

/// One question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Query {
    id: u16,
    recursion_desired: bool,
    pub(crate) question: op::Query,
    /// The size the client takes, if it said so.
    size: Option<u16>,
}

/// Why a message is no question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// Nobody waits for an answer.
    Ignored,
    /// Somebody does, who is known by this number only, and takes no answer to anything but what was asked for.
    Answered(u16, OpCode, ResponseCode),
}

// === impl Query ===

impl Query {
    /// Reads a message.
    pub(crate) fn read(message: &[u8]) -> Result<Self, Unreadable> {
        // One that breaks off within its header is answered, too.
        let mut start = [0; Header::LEN];
        let length = message.len().min(start.len());
        start[..length].copy_from_slice(&message[..length]);
        let header = Header::from_bytes(&start).ok().filter(|_| length >= IDENTIFIED);
        let Some(Header { metadata, .. }) = header else { return Err(Unreadable::Ignored) };
        if metadata.message_type == MessageType::Response {
            // To answer an answer could go on for ever.
            return Err(Unreadable::Ignored);
        }
        if metadata.op_code != OpCode::Query {
            return Err(Unreadable::Answered(metadata.id, metadata.op_code, ResponseCode::NotImp));
        }
        let malformed = Unreadable::Answered(metadata.id, OpCode::Query, ResponseCode::FormErr);
        Self::read_question(message).ok_or(malformed)
    }

    /// Reads part by part, so that a number in the header alone never costs memory.
    fn read_question(message: &[u8]) -> Option<Self> {
        let mut decoder = BinDecoder::new(message);
        let Header { metadata, counts } = Header::read(&mut decoder).ok()?;
        if counts.queries != 1 {
            return None;
        }
        let question = op::Query::read(&mut decoder).ok()?;
        // It goes back as it came: there is nothing before it that its name could be shortened by.
        if question.to_bytes().ok()? != message[Header::LEN..decoder.index()] {
            return None;
        }
        for count in [counts.answers, counts.authorities] {
            Message::read_records(&mut decoder, count.into(), false, OpCode::Query).ok()?;
        }
        let additionals = usize::from(counts.additionals);
        let (_, edns, _) = Message::read_records(&mut decoder, additionals, true, OpCode::Query).ok()?;
        let size = edns.map(|edns| edns.max_payload());
        Some(Self { id: metadata.id, recursion_desired: metadata.recursion_desired, question, size })
    }

    /// Whether it is about what there is here.
    pub(crate) fn is_of_internet(&self) -> bool {
        matches!(self.question.query_class(), DNSClass::IN | DNSClass::ANY)
    }

    /// The size of an answer as a datagram.
    pub(crate) fn datagram(&self) -> usize {
        self.size.unwrap_or(SMALLEST).clamp(SMALLEST, LARGEST).into()
    }

    /// That there is more to be said than what fits here, and nothing of it.
    pub(crate) fn ask_by_connection(&self) -> Result<Vec<u8>, ProtoError> {
        self.write(&Answer::only(ResponseCode::NoError), SMALLEST.into(), false)
    }

    /// The answer as it is sent, no longer than `limit`. What does not fit is left out, and the client told so.
    pub(crate) fn reply(&self, answer: &Answer, limit: usize) -> Result<Vec<u8>, ProtoError> {
        self.write(answer, limit, true)
    }

    fn write(&self, answer: &Answer, limit: usize, whole: bool) -> Result<Vec<u8>, ProtoError> {
        let mut edns = self.size.map(|_| Edns::new());
        let mut limit = limit;
        if let Some(edns) = &mut edns {
            edns.set_max_payload(LARGEST);
            limit -= EDNS;
        }
        let mut bytes = Vec::new();
        let mut encoder = BinEncoder::new(&mut bytes);
        let place = encoder.place::<Header>()?;
        self.question.emit(&mut encoder)?;
        let (answers, mut complete) = write(&mut encoder, &answer.answers, limit)?;
        let (mut authorities, mut additionals) = (0, 0);
        if complete {
            (authorities, complete) = write(&mut encoder, &answer.authority, limit)?;
        }
        if complete {
            // These are a courtesy: nobody needs to ask again for them.
            (additionals, _) = write(&mut encoder, &answer.additional, limit)?;
        }
        if let Some(edns) = &edns {
            edns.emit(&mut encoder)?;
            additionals += 1;
        }
        let mut metadata = Metadata::new(self.id, MessageType::Response, OpCode::Query);
        metadata.authoritative = answer.authoritative;
        metadata.truncation = !complete || !whole;
        metadata.recursion_desired = self.recursion_desired;
        metadata.response_code = answer.code;
        let counts = HeaderCounts { queries: 1, answers, authorities, additionals };
        place.replace(&mut encoder, Header { metadata, counts })?;
        Ok(bytes)
    }
}

// === impl Unreadable ===

impl Unreadable {
    /// What is sent back, if anything.
    pub(crate) fn reply(self) -> Result<Option<Vec<u8>>, ProtoError> {
        match self {
            Self::Ignored => Ok(None),
            Self::Answered(id, op_code, code) => Message::error_msg(id, op_code, code).to_vec().map(Some),
        }
    }
}

/// Writes as many as fit. Answers how many those were, and whether they were all.
///
/// The encoder has a limit, too, but holds every name against it before it is shortened.
fn write(encoder: &mut BinEncoder<'_>, records: &[Record], limit: usize) -> Result<(u16, bool), ProtoError> {
    let mut written = 0;
    for record in records {
        let start = encoder.offset();
        match record.emit(encoder) {
            Ok(()) if encoder.offset() <= limit => written += 1,
            Ok(()) | Err(ProtoError::MaxBufferSizeExceeded(_)) => {
                encoder.set_offset(start);
                encoder.trim();
                return Ok((written, false));
            }
            Err(error) => return Err(error),
        }
    }
    Ok((written, true))
}
