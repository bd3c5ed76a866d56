//! What the crate promises, seen from outside: by rustls, by OpenSSL, by `kubectl`, and by a moved clock.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod authorities;
mod handshake;
mod kubeconfig;
mod leaks;
mod openssl;
mod renewal;
mod requests;
mod support;
