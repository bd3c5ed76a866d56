//! `hcp` as an archive to download: one program in a tar, compressed.
//!
//! It is made when somebody first asks for it, kept on disk, and made again when the program has changed since. A tar of
//! one file is a header of 512 bytes, the file, and zeros to its end.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::sync::Mutex;

/// Everything in a tar comes in pieces of this size.
const BLOCK: u64 = 512;
/// What the program is called inside.
const MEMBER: &str = "hcp";

/// The archive of one program.
#[derive(Debug)]
pub(crate) struct Archive {
    program: PathBuf,
    folder: PathBuf,
    /// What the archive on disk was made of.
    made: Mutex<Option<Source>>,
}

/// What tells one build of a program from the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Source {
    length: u64,
    modified: Option<SystemTime>,
}

// === impl Archive ===

impl Archive {
    pub(crate) fn new(program: PathBuf, folder: PathBuf) -> Self {
        Self { program, folder, made: Mutex::new(None) }
    }

    /// The program that it is made of.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// Opens the archive, made now if it is not there. Whoever asks meanwhile waits for the same one.
    pub(crate) async fn open(&self) -> io::Result<tokio::fs::File> {
        let mut made = self.made.lock().await;
        let (program, folder, known) = (self.program.clone(), self.folder.clone(), *made);
        let work = move || -> io::Result<(Source, PathBuf)> {
            let path = folder.join("hcp.tar.gz");
            let source = Source::of(&fs::metadata(&program)?);
            if known != Some(source) || !path.is_file() {
                fs::create_dir_all(&folder)?;
                make(&program, &path)?;
            }
            Ok((source, path))
        };
        let (source, path) = tokio::task::spawn_blocking(work).await.map_err(io::Error::other)??;
        *made = Some(source);
        // One that is replaced later goes on being read by who has it open.
        tokio::fs::File::open(path).await
    }
}

// === impl Source ===

impl Source {
    fn of(metadata: &Metadata) -> Self {
        Self { length: metadata.len(), modified: metadata.modified().ok() }
    }
}

/// Writes the archive of a program to `path`, where it is either whole or not there.
fn make(program: &Path, path: &Path) -> io::Result<()> {
    let partial = path.with_extension("partial");
    let mut input = File::open(program)?;
    let metadata = input.metadata()?;
    // The quickest: it is made while somebody waits, and read a few times.
    let mut output = GzEncoder::new(File::create(&partial)?, Compression::fast());
    output.write_all(&header(&metadata))?;
    let written = io::copy(&mut input, &mut output)?;
    if written != metadata.len() {
        return Err(io::Error::other("the program changed while it was read"));
    }
    // The file is filled up to a whole block, and two blocks of zeros are the end.
    let rest = (BLOCK - written % BLOCK) % BLOCK + 2 * BLOCK;
    io::copy(&mut io::Read::take(io::repeat(0), rest), &mut output)?;
    output.finish()?.sync_all()?;
    fs::rename(partial, path)
}

/// The header of the one member, in the format `ustar`.
fn header(metadata: &Metadata) -> [u8; BLOCK as usize] {
    let modified = metadata.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let modified = modified.map_or(0, |since| since.as_secs());
    let mut header = [0; BLOCK as usize];
    let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, MEMBER);
    put(100, "0000755\0");
    // Nobody's in particular: who unpacks it owns it.
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{:011o}\0", metadata.len()));
    put(136, &format!("{modified:011o}\0"));
    // The sum is taken with blanks in its own place.
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u32 = header.iter().copied().map(u32::from).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    header
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use flate2::read::GzDecoder;
    use tokio::io::AsyncReadExt as _;

    use super::*;

    /// Unpacks the archive with the system's own program, and reads what came out.
    async fn unpacked(archive: &Archive, folder: &Path) -> String {
        let mut bytes = Vec::new();
        archive.open().await.unwrap().read_to_end(&mut bytes).await.unwrap();
        let length = io::copy(&mut GzDecoder::new(bytes.as_slice()), &mut io::sink()).unwrap();
        assert_eq!(length % BLOCK, 0, "it ends with a whole block");
        let file = folder.join("downloaded.tar.gz");
        fs::write(&file, bytes).unwrap();
        let status = Command::new("tar").arg("-xzf").arg(&file).arg("-C").arg(folder).status().unwrap();
        assert!(status.success());
        let output = Command::new(folder.join(MEMBER)).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    fn write_program(path: &Path, text: &str) {
        fs::write(path, format!("#!/bin/sh\necho {text}\n")).unwrap();
    }

    #[tokio::test]
    async fn the_archive_is_unpacked_by_tar_and_follows_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        write_program(&program, "first");
        let archive = Archive::new(program.clone(), folder.path().join("made"));
        let out = folder.path().join("out");
        fs::create_dir(&out).unwrap();
        assert_eq!(unpacked(&archive, &out).await, "first\n");
        let made = || fs::metadata(folder.path().join("made/hcp.tar.gz")).unwrap().modified().unwrap();
        let before = made();
        archive.open().await.unwrap();
        assert_eq!(made(), before, "it is made once");
        write_program(&program, "another");
        assert_eq!(unpacked(&archive, &out).await, "another\n");
    }
}
