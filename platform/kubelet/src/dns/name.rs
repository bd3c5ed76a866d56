use std::fmt;

/// The longest name, as it is sent.
const LONGEST: usize = 255;
/// The longest part of one.
const LONGEST_LABEL: usize = 63;

/// A domain name, as it is sent: every part behind its length, and an empty one at the end. It keeps its capitals; nobody compares by
/// them.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Name {
    wire: Vec<u8>,
}

// === impl Name ===

impl Name {
    /// The name with these parts, unless one is empty or too long.
    pub(super) fn of<'a>(labels: impl IntoIterator<Item = &'a [u8]>) -> Option<Self> {
        let mut wire = Vec::new();
        for label in labels {
            let length = u8::try_from(label.len()).ok()?;
            if label.is_empty() || label.len() > LONGEST_LABEL {
                return None;
            }
            wire.push(length);
            wire.extend_from_slice(label);
        }
        wire.push(0);
        (wire.len() <= LONGEST).then_some(Self { wire })
    }

    /// A name as it is written, with or without the dot at the end.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.strip_suffix('.').unwrap_or(text);
        if text.is_empty() {
            return Self::of([]);
        }
        Self::of(text.split('.').map(str::as_bytes))
    }

    /// Reads a name that is not shortened, and tells where it ends.
    pub(super) fn read(message: &[u8], start: usize) -> Option<(Self, usize)> {
        let mut at = start;
        loop {
            let length = usize::from(*message.get(at)?);
            at += 1;
            if length == 0 {
                break;
            }
            if length > LONGEST_LABEL {
                return None;
            }
            at += length;
            if at - start >= LONGEST {
                return None;
            }
        }
        let wire = message.get(start..at)?.to_vec();
        Some((Self { wire }, at))
    }

    pub(super) fn labels(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.wire.as_slice();
        std::iter::from_fn(move || {
            let (length, after) = rest.split_first()?;
            let length = usize::from(*length);
            if length == 0 {
                return None;
            }
            let (label, after) = after.split_at_checked(length)?;
            rest = after;
            Some(label)
        })
    }

    /// Its parts, without capitals. What is no text is no name of ours.
    pub(super) fn lowercase(&self) -> Option<Vec<String>> {
        self.labels().map(|label| std::str::from_utf8(label).ok().map(str::to_ascii_lowercase)).collect()
    }

    pub(super) fn wire(&self) -> &[u8] {
        &self.wire
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for label in self.labels() {
            write!(formatter, "{}.", label.escape_ascii())?;
        }
        if self.wire.len() <= 1 { formatter.write_str(".") } else { Ok(()) }
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}
