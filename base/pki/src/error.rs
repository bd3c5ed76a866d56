use jiff::Timestamp;

use crate::certificate::Fingerprint;
use crate::files::FileError;
use crate::names::InvalidName;

/// Why a certificate could not be made or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text holds no PEM section of the kind that was needed.
    #[error("{what} contains no PEM section `{section}`")]
    Missing {
        /// What was being read, in words.
        what: &'static str,
        /// The label between `BEGIN` and the dashes.
        section: &'static str,
    },
    /// The text or the bytes inside are not what they claim to be.
    #[error("{what} cannot be read: {reason}")]
    Malformed {
        /// What was being read, in words.
        what: &'static str,
        /// What the parser objected to. Never contains the input.
        reason: String,
    },
    /// A key of a kind this crate neither makes nor signs with.
    #[error(
        "this kind of private key is not supported; use ECDSA P-256 or P-384, or RSA with 2048 to 4096 bits"
    )]
    UnsupportedKey,
    /// Certificate and private key do not belong together.
    #[error("the private key does not belong to certificate {0}")]
    KeyMismatch(Fingerprint),
    /// The certificate may not sign others.
    #[error("certificate {0} is not an authority: it lacks the CA flag")]
    NotAnAuthority(Fingerprint),
    /// The authority's path length leaves no room for another authority below it.
    #[error("authority `{name}` has path length {length} and may not sign an authority with {wanted}")]
    PathLength {
        /// The authority that was asked to sign.
        name: String,
        /// How many further authorities may stand below it.
        length: u8,
        /// What the new authority asked for; unlimited is written as `no limit`.
        wanted: String,
    },
    /// The authority can no longer sign anything that would be accepted.
    #[error("authority `{name}` expired at {at}")]
    AuthorityExpired {
        /// The authority that was asked to sign.
        name: String,
        /// The end of its validity.
        at: Timestamp,
    },
    /// A lifetime that gives a date no certificate can carry.
    #[error("a certificate valid for {seconds} s from {from} has no end that can be written down")]
    Lifetime {
        /// The start of the validity.
        from: Timestamp,
        /// The length that was asked for.
        seconds: u64,
    },
    /// A name that may not stand in a certificate.
    #[error("the certificate cannot carry this name")]
    Name(#[from] InvalidName),
    /// A signing request whose signature does not prove possession of its key.
    #[error("the signing request is not signed by the key it carries")]
    UnprovenRequest,
    /// The cryptographic library refused; in practice only when the machine has no randomness.
    #[error("{action} failed in the cryptographic library: {reason}")]
    Crypto {
        /// What was being done.
        action: &'static str,
        /// What the library said.
        reason: String,
    },
    /// Reading or writing a file failed.
    #[error("a certificate file could not be read or written")]
    File(#[from] FileError),
}
