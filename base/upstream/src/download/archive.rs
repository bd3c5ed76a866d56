//! Files of a tar archive, one after the other.
//!
//! A few programs with short names are wanted of an archive whose bytes are known. Whatever else is in it, extensions for long
//! names included, is passed over: no name that needs one is wanted.

use std::io::{self, Read};

/// Everything comes in blocks.
const BLOCK: usize = 512;

/// What a header says.
struct Entry {
    name: String,
    size: u64,
    is_file: bool,
}

/// Shows every ordinary file to `visit`, which reads as much of it as it likes.
pub(super) fn each_file(
    mut archive: impl Read,
    mut visit: impl FnMut(&str, &mut dyn Read) -> io::Result<()>,
) -> io::Result<()> {
    let mut block = [0; BLOCK];
    loop {
        archive.read_exact(&mut block)?;
        if block.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        let entry = Entry::read(&block)?;
        let mut contents = archive.by_ref().take(entry.size);
        if entry.is_file {
            visit(&entry.name, &mut contents)?;
        }
        let left = contents.limit();
        let padding = entry.size.next_multiple_of(BLOCK as u64) - entry.size;
        let passed = io::copy(&mut archive.by_ref().take(left + padding), &mut io::sink())?;
        if passed != left + padding {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

impl Entry {
    fn read(block: &[u8; BLOCK]) -> io::Result<Self> {
        let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        let counted = block.iter().enumerate();
        // The sum is made as if its own field held blanks.
        let sum: u64 =
            counted.map(|(at, byte)| u64::from(if (148..156).contains(&at) { b' ' } else { *byte })).sum();
        if octal(&block[148..156]) != Some(sum) {
            return Err(invalid("this is not a header of a tar archive"));
        }
        let size = octal(&block[124..136]).ok_or_else(|| invalid("a file in the archive has no size"))?;
        let name = text(&block[..100]);
        // GNU's format has other things there, and another magic.
        let prefix = if &block[257..263] == b"ustar\0" { text(&block[345..500]) } else { String::new() };
        let name = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
        let name = name.trim_start_matches("./").to_owned();
        Ok(Self { name, size, is_file: matches!(block[156], b'0' | 0) })
    }
}

/// Bytes up to the first zero.
fn text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}

fn octal(field: &[u8]) -> Option<u64> {
    u64::from_str_radix(text(field).trim(), 8).ok()
}
