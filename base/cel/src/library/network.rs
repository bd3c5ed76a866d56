//! Addresses and ranges of addresses.

use std::fmt;
use std::net::IpAddr;

use super::{Outcome, text};
use crate::error::EvaluationError;
use crate::value::Value;

/// An address and how many of its bits name the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    address: IpAddr,
    length: u8,
}

impl Range {
    fn parse(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/')?;
        let address = self::address(address).ok()?;
        if length.is_empty() || length.len() > 3 || (length.len() > 1 && length.starts_with('0')) {
            return None;
        }
        let length: u8 = length.parse().ok().filter(|_| length.bytes().all(|byte| byte.is_ascii_digit()))?;
        (length <= if address.is_ipv4() { 32 } else { 128 }).then_some(Self { address, length })
    }

    pub(crate) fn is_v4(&self) -> bool {
        self.address.is_ipv4()
    }

    fn contains(&self, address: IpAddr) -> bool {
        self.is_v4() == address.is_ipv4() && masked(address, self.length) == masked(self.address, self.length)
    }

    fn includes(&self, other: &Self) -> bool {
        self.length <= other.length && self.contains(other.address)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.address, self.length)
    }
}

fn masked(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(four) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            IpAddr::V4((u32::from(four) & mask).into())
        }
        IpAddr::V6(six) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            IpAddr::V6((u128::from(six) & mask).into())
        }
    }
}

fn address(text: &str) -> Result<IpAddr, String> {
    if text.contains('%') {
        return Err(format!("IP address \"{text}\" with zone value is not allowed"));
    }
    let parsed = text.parse::<IpAddr>().map_err(|_| {
        format!("IP Address \"{text}\" parse error during conversion from string: ParseAddr(\"{text}\"): unable to parse IP")
    })?;
    match parsed {
        IpAddr::V6(six) if six.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address \"{text}\" is not allowed"))
        }
        parsed => Ok(parsed),
    }
}

pub(super) fn call<'a>(function: &str, arguments: &[Value<'a>]) -> Option<Outcome<'a>> {
    Some(match (function, arguments) {
        ("ip", [Value::String(text)]) => {
            address(text.as_str()).map(Value::Ip).map_err(EvaluationError::Failed)
        }
        ("isIP", [value]) => Ok(Value::Bool(address(text(value)?).is_ok())),
        ("ip.isCanonical", [value]) => {
            let text = text(value)?;
            match address(text) {
                Ok(parsed) => Ok(Value::Bool(parsed.to_string() == text)),
                Err(error) => Err(EvaluationError::Failed(error)),
            }
        }
        ("cidr", [value]) => {
            let text = text(value)?;
            Range::parse(text).map(Value::Range).ok_or_else(|| unparsable(text))
        }
        ("isCIDR", [value]) => Ok(Value::Bool(Range::parse(text(value)?).is_some())),
        (_, [Value::Ip(address)]) => Ok(of_address(function, *address)?),
        ("ip", [Value::Range(range)]) => Ok(Value::Ip(range.address)),
        ("prefixLength", [Value::Range(range)]) => Ok(Value::Int(i64::from(range.length))),
        ("masked", [Value::Range(range)]) => {
            Ok(Value::Range(Range { address: masked(range.address, range.length), length: range.length }))
        }
        ("containsIP", [Value::Range(range), Value::Ip(address)]) => {
            Ok(Value::Bool(range.contains(*address)))
        }
        ("containsIP", [Value::Range(range), Value::String(text)]) => match address(text.as_str()) {
            Ok(address) => Ok(Value::Bool(range.contains(address))),
            Err(error) => Err(EvaluationError::Failed(error)),
        },
        ("containsCIDR", [Value::Range(range), Value::Range(other)]) => {
            Ok(Value::Bool(range.includes(other)))
        }
        ("containsCIDR", [Value::Range(range), Value::String(text)]) => match Range::parse(text.as_str()) {
            Some(other) => Ok(Value::Bool(range.includes(&other))),
            None => Err(unparsable(text.as_str())),
        },
        _ => return None,
    })
}

fn unparsable(text: &str) -> EvaluationError {
    EvaluationError::failed(format!(
        "network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix(\"{text}\"): no '/'"
    ))
}

fn of_address<'a>(function: &str, address: IpAddr) -> Option<Value<'a>> {
    Some(Value::Bool(match (function, address) {
        ("family", address) => return Some(Value::Int(if address.is_ipv4() { 4 } else { 6 })),
        ("isUnspecified", address) => address.is_unspecified(),
        ("isLoopback", address) => address.is_loopback(),
        ("isLinkLocalMulticast", IpAddr::V4(four)) => four.octets()[..3] == [224, 0, 0],
        ("isLinkLocalMulticast", IpAddr::V6(six)) => six.segments()[0] & 0xff0f == 0xff02,
        ("isLinkLocalUnicast", address) => link_local(address),
        ("isGlobalUnicast", IpAddr::V4(four)) => {
            let special = four.is_unspecified() || four.is_loopback() || four.is_multicast();
            !(special || four.is_broadcast() || link_local(address))
        }
        ("isGlobalUnicast", IpAddr::V6(six)) => {
            !(six.is_unspecified() || six.is_loopback() || six.is_multicast() || link_local(address))
        }
        _ => return None,
    }))
}

fn link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(four) => four.is_link_local(),
        IpAddr::V6(six) => six.segments()[0] & 0xffc0 == 0xfe80,
    }
}
