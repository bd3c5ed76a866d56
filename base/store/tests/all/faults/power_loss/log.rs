//! Reads what the library wrote down; the format is at the top of `shim.c`.

use camino::Utf8PathBuf;

const MAGIC: u32 = 0x5048_5348;
const HEADER: usize = 32;

/// A descriptor of the writer.
pub(super) type Descriptor = i64;

/// Something the writer did.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    Opened { descriptor: Descriptor, path: Utf8PathBuf },
    Closed { descriptor: Descriptor },
    Copied { from: Descriptor, to: Descriptor },
    Wrote { descriptor: Descriptor, offset: usize, data: Vec<u8> },
    Resized { descriptor: Descriptor, size: usize },
    Synced { descriptor: Descriptor },
    Renamed { from: Utf8PathBuf, to: Utf8PathBuf },
    Linked { from: Utf8PathBuf, to: Utf8PathBuf },
    Unlinked { path: Utf8PathBuf },
    Said { data: Vec<u8> },
}

impl Operation {
    /// What it put on the standard output.
    pub(super) fn said(&self) -> &[u8] {
        match self {
            Self::Said { data } => data,
            _ => &[],
        }
    }
}

/// All operations. What follows the first record that is cut off was never done.
pub(super) fn read(mut log: &[u8]) -> Vec<Operation> {
    let mut operations = Vec::new();
    while let Some((operation, rest)) = record(log) {
        operations.push(operation);
        log = rest;
    }
    operations
}

fn record(log: &[u8]) -> Option<(Operation, &[u8])> {
    let (header, rest) = log.split_at_checked(HEADER)?;
    let number = |at: usize| i64::from_ne_bytes(header[at..at + 8].try_into().unwrap());
    let word = |at: usize| u32::from_ne_bytes(header[at..at + 4].try_into().unwrap());
    if word(0) != MAGIC {
        return None;
    }
    let (first, second) = (number(8), number(16));
    let (data, rest) = rest.split_at_checked(usize::try_from(number(24)).unwrap())?;
    let size = |number: i64| usize::try_from(number).unwrap();
    let mut paths =
        data.split(|byte| *byte == 0).map(|path| Utf8PathBuf::from(str::from_utf8(path).unwrap()));
    let mut path = || paths.next().unwrap();
    let operation = match word(4) {
        1 => Operation::Opened { descriptor: first, path: path() },
        2 => Operation::Closed { descriptor: first },
        3 => Operation::Copied { from: first, to: second },
        4 => Operation::Wrote { descriptor: first, offset: size(second), data: data.to_vec() },
        5 => Operation::Resized { descriptor: first, size: size(second) },
        6 => Operation::Synced { descriptor: first },
        7 => Operation::Renamed { from: path(), to: path() },
        8 => Operation::Linked { from: path(), to: path() },
        9 => Operation::Unlinked { path: path() },
        10 => Operation::Said { data: data.to_vec() },
        kind => panic!("the library wrote a record of kind {kind}"),
    };
    Some((operation, rest))
}
