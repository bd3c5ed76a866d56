//! The wire: tagged values, one after another.

use super::Error;

/// One value as it came.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wire<'a> {
    Number(u64),
    Eight(u64),
    Four,
    Bytes(&'a [u8]),
    /// A form that no sender uses any more; it is skipped.
    Group,
}

pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl Wire<'_> {
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Number(_) => 0,
            Self::Eight(_) => 1,
            Self::Bytes(_) => 2,
            Self::Group => 3,
            Self::Four => 5,
        }
    }
}

impl<'a> Reader<'a> {
    pub(super) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next value with its number, or nothing at the end.
    pub(super) fn field(&mut self) -> Result<Option<(u32, Wire<'a>)>, Error> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.number()?;
        let number = u32::try_from(tag >> 3).map_err(|_| Error::LongNumber)?;
        if number == 0 {
            return Err(Error::FieldZero);
        }
        let wire = self.value((tag & 7) as u8)?;
        Ok(Some((number, wire)))
    }

    fn value(&mut self, code: u8) -> Result<Wire<'a>, Error> {
        Ok(match code {
            0 => Wire::Number(self.number()?),
            1 => Wire::Eight(u64::from_le_bytes(*self.array()?)),
            2 => {
                let length = usize::try_from(self.number()?).map_err(|_| Error::CutShort)?;
                Wire::Bytes(self.bytes(length)?)
            }
            3 => {
                self.skip_group()?;
                Wire::Group
            }
            5 => {
                self.array::<4>()?;
                Wire::Four
            }
            other => return Err(Error::UnknownWire(other)),
        })
    }

    /// To the end of a group, which may contain groups. Only their number is kept, so depth costs nothing.
    fn skip_group(&mut self) -> Result<(), Error> {
        let mut open = 1_usize;
        while open > 0 {
            match self.number()? & 7 {
                3 => open += 1,
                4 => open -= 1,
                code => {
                    self.value(code as u8)?;
                }
            }
        }
        Ok(())
    }

    /// Seven bits a byte, the lowest first.
    pub(super) fn number(&mut self) -> Result<u64, Error> {
        let mut number = 0_u64;
        for shift in (0..70).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or(Error::CutShort)?;
            self.rest = rest;
            // Of the tenth byte only one bit has a place.
            number |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or_default();
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Error::LongNumber)
    }

    fn bytes(&mut self, length: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Error::CutShort)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const LENGTH: usize>(&mut self) -> Result<&'a [u8; LENGTH], Error> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Error::CutShort)?;
        self.rest = rest;
        Ok(taken)
    }
}
