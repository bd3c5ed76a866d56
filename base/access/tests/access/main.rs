//! Tokens, certificates, the gate and the audit log, from outside.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod audit;
mod authorize;
mod certificates;
mod gate;
mod issuer;
mod keys;
mod openssl;
mod support;
mod tokens;
