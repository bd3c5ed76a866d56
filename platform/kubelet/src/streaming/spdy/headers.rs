//! Headers of streams, compressed as one stream of zlib in each direction, with a dictionary both sides know.

use std::io;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::frame::invalid;

/// More than this is not headers.
const LARGEST: usize = 64 * 1024;

/// The words of the dictionary, each preceded by its length in four bytes.
const WORDS: &str = "options head post put delete trace accept accept-charset accept-encoding accept-language \
    accept-ranges age allow authorization cache-control connection content-base content-encoding content-language \
    content-length content-location content-md5 content-range content-type date etag expect expires from host if-match \
    if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma \
    proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade \
    user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie \
    keep-alive origin";
/// And what follows them.
const TAIL: &str = "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505\
    203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden\
    404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable\
    Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT\
    chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,\
    publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

fn dictionary() -> Vec<u8> {
    let words = WORDS.split_ascii_whitespace().flat_map(|word| {
        let word = word.replace('_', " ");
        let length = u32::try_from(word.len()).unwrap_or_default().to_be_bytes();
        [&length[..], word.as_bytes()].concat()
    });
    words.chain(TAIL.bytes()).collect()
}

/// Names, in lower case, and values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Headers(pub(crate) Vec<(String, String)>);

impl Headers {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn parse(mut block: &[u8]) -> io::Result<Self> {
        fn number(block: &mut &[u8]) -> io::Result<usize> {
            let (bytes, rest) = block.split_first_chunk().ok_or_else(|| invalid("headers are cut off"))?;
            *block = rest;
            Ok(u32::from_be_bytes(*bytes) as usize)
        }
        fn text(block: &mut &[u8]) -> io::Result<String> {
            let length = number(block)?;
            let (bytes, rest) =
                block.split_at_checked(length).ok_or_else(|| invalid("headers are cut off"))?;
            *block = rest;
            Ok(String::from_utf8_lossy(bytes).into_owned())
        }
        let count = number(&mut block)?;
        let mut headers = Vec::new();
        for _ in 0..count {
            let name = text(&mut block)?.to_ascii_lowercase();
            headers.push((name, text(&mut block)?));
        }
        Ok(Self(headers))
    }

    fn to_block(&self) -> Vec<u8> {
        let text = |block: &mut Vec<u8>, text: &str| {
            block.extend(u32::try_from(text.len()).unwrap_or_default().to_be_bytes());
            block.extend(text.as_bytes());
        };
        let mut block = u32::try_from(self.0.len()).unwrap_or_default().to_be_bytes().to_vec();
        for (name, value) in &self.0 {
            text(&mut block, name);
            text(&mut block, value);
        }
        block
    }
}

/// Reads headers, one block after the other.
#[derive(Debug)]
pub(crate) struct Inflater(Decompress);

impl Inflater {
    pub(crate) fn new() -> Self {
        Self(Decompress::new(true))
    }

    pub(crate) fn read(&mut self, block: &[u8]) -> io::Result<Headers> {
        let mut plain = Vec::with_capacity(1024);
        let mut rest = block;
        loop {
            let before = (self.0.total_in(), plain.len());
            match self.0.decompress_vec(rest, &mut plain, FlushDecompress::Sync) {
                Err(error) if error.needs_dictionary().is_some() => {
                    self.0
                        .set_dictionary(&dictionary())
                        .map_err(|_| invalid("another dictionary is meant"))?;
                }
                Err(_) => return Err(invalid("headers cannot be read")),
                Ok(Status::StreamEnd) => break,
                Ok(Status::Ok | Status::BufError) => {
                    let done = plain.len() == before.1 && self.0.total_in() == before.0;
                    if done && plain.len() < plain.capacity() {
                        break;
                    }
                }
            }
            let used = usize::try_from(self.0.total_in() - before.0).unwrap_or_default();
            rest = rest.get(used..).unwrap_or_default();
            if plain.len() > LARGEST {
                return Err(invalid("headers are too long"));
            }
            if plain.len() == plain.capacity() {
                plain.reserve(plain.len().max(1024));
            }
        }
        Headers::parse(&plain)
    }
}

/// Writes them.
#[derive(Debug)]
pub(crate) struct Deflater(Compress);

impl Deflater {
    pub(crate) fn try_new() -> io::Result<Self> {
        let mut compress = Compress::new(Compression::fast(), true);
        compress.set_dictionary(&dictionary())?;
        Ok(Self(compress))
    }

    pub(crate) fn write(&mut self, headers: &Headers) -> io::Result<Vec<u8>> {
        let block = headers.to_block();
        // Enough for a block that cannot be made smaller, with the marks around it.
        let mut compressed = Vec::with_capacity(block.len() + block.len() / 100 + 64);
        self.0.compress_vec(&block, &mut compressed, FlushCompress::Sync)?;
        Ok(compressed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_compression_block_after_block() {
        assert_eq!(dictionary().len(), 1423);
        let (mut deflater, mut inflater) = (Deflater::try_new().unwrap(), Inflater::new());
        let long =
            Headers(vec![("port".to_owned(), "x".repeat(9000)), ("requestid".to_owned(), "7".to_owned())]);
        for headers in
            [Headers::default(), long.clone(), Headers(vec![("a".to_owned(), String::new())]), long]
        {
            let block = deflater.write(&headers).unwrap();
            assert_eq!(inflater.read(&block).unwrap(), headers);
        }
        assert!(inflater.read(b"not compressed at all").is_err());
    }

    #[test]
    fn headers_of_a_real_client_are_understood() {
        // `streamType: error`, as the Go client compresses it at the beginning of a connection.
        let mut block = vec![0x78, 0xf9];
        // The first bytes name the dictionary: it has to be the very same.
        block.extend(0xe3c6_a7c2_u32.to_be_bytes());
        let mut deflater = Deflater::try_new().unwrap();
        let ours = deflater.write(&Headers(vec![("streamtype".to_owned(), "error".to_owned())])).unwrap();
        assert_eq!(ours[2..6], block[2..6]);
    }
}
