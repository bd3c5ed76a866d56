//! The bytes of frames.

use std::io;

use bytes::Bytes;

use super::headers::{Deflater, Headers, Inflater};

/// No control frame of an honest client comes near.
const LARGEST_CONTROL: usize = 64 * 1024;
const VERSION: u16 = 3;
const LAST: u8 = 1;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const HEADERS: u16 = 8;
/// The reason that needs no reason.
const CANCEL: u32 = 5;

/// What every frame begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    Data { id: u32, last: bool, length: usize },
    Control { kind: u16, last: bool, length: usize },
}

impl Head {
    pub(super) const LENGTH: usize = 8;

    pub(super) fn parse(bytes: [u8; Self::LENGTH]) -> Self {
        let [first, second, third, fourth, flags, long, middle, short] = bytes;
        let length = u32::from_be_bytes([0, long, middle, short]) as usize;
        let last = flags & LAST != 0;
        if first & 0x80 == 0 {
            return Self::Data { id: u32::from_be_bytes([first, second, third, fourth]), last, length };
        }
        Self::Control { kind: u16::from_be_bytes([third, fourth]), last, length }
    }
}

pub(super) fn control_length(length: usize) -> io::Result<usize> {
    if length > LARGEST_CONTROL { Err(invalid("a control frame is too long")) } else { Ok(length) }
}

/// What clients say beside data.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Control {
    Open {
        id: u32,
        last: bool,
        headers: Headers,
    },
    Reset {
        id: u32,
    },
    Ping {
        id: u32,
    },
    GoAway,
    /// Settings, windows, and whatever else there is.
    Other,
}

impl Control {
    pub(super) fn parse(kind: u16, last: bool, payload: &[u8], inflater: &mut Inflater) -> io::Result<Self> {
        let number = || {
            let bytes = payload.first_chunk().ok_or_else(|| invalid("a control frame is too short"))?;
            Ok::<u32, io::Error>(u32::from_be_bytes(*bytes) & 0x7fff_ffff)
        };
        Ok(match kind {
            SYN_STREAM => {
                // Beside the stream: the one it belongs to, a priority and a slot, which mean nothing here.
                let block = payload.get(10..).ok_or_else(|| invalid("a new stream has no headers"))?;
                Self::Open { id: number()?, last, headers: inflater.read(block)? }
            }
            HEADERS => {
                // Of no use, but part of what is compressed as one.
                let block = payload.get(4..).ok_or_else(|| invalid("headers are missing"))?;
                inflater.read(block)?;
                Self::Other
            }
            RST_STREAM => Self::Reset { id: number()? },
            PING => {
                let bytes = payload.first_chunk().ok_or_else(|| invalid("a ping has no number"))?;
                Self::Ping { id: u32::from_be_bytes(*bytes) }
            }
            GOAWAY => Self::GoAway,
            _ => Self::Other,
        })
    }
}

/// What we say.
#[derive(Clone, Debug)]
pub(super) enum Sent {
    Reply {
        id: u32,
    },
    /// At most what fits into a frame, which every queue's piece does.
    Data {
        id: u32,
        data: Bytes,
        last: bool,
    },
    Reset {
        id: u32,
    },
    Ping {
        id: u32,
    },
}

impl Sent {
    /// The frame, without its data.
    pub(super) fn head(&self, deflater: &mut Deflater) -> io::Result<Vec<u8>> {
        Ok(match self {
            Self::Data { id, data, last } => {
                let length = u32::try_from(data.len()).ok().filter(|length| *length < 1 << 24);
                let length = length.ok_or_else(|| invalid("a frame would be too long"))?.to_be_bytes();
                let flags = if *last { LAST } else { 0 };
                [&id.to_be_bytes()[..], &[flags], &length[1..]].concat()
            }
            Self::Reply { id } => {
                let block = deflater.write(&Headers::default())?;
                control(SYN_REPLY, &[&id.to_be_bytes()[..], &block].concat())
            }
            Self::Reset { id } => control(RST_STREAM, &[id.to_be_bytes(), CANCEL.to_be_bytes()].concat()),
            Self::Ping { id } => control(PING, &id.to_be_bytes()),
        })
    }
}

fn control(kind: u16, payload: &[u8]) -> Vec<u8> {
    let [_, long, middle, short] = (u32::try_from(payload.len()).unwrap_or_default()).to_be_bytes();
    let version = (0x8000 | VERSION).to_be_bytes();
    [&version[..], &kind.to_be_bytes(), &[0, long, middle, short], payload].concat()
}

pub(super) fn invalid(text: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}
