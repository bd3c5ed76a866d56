//! Which TLS sessions may be resumed where clients may show certificates.
//!
//! A session that is resumed brings along whom it was opened by, and nobody looks again whether that certificate is still good,
//! or has been replaced. So sessions of those who showed one are not resumed. Those of others may be: probes, above all, which
//! come every few seconds to every API server there is.
//!
//! Everybody is given tickets all the same, also those that lead nowhere: they acknowledge the client's last message of the
//! handshake. A client that sends its first request only after that would otherwise wait until the system acknowledges it by
//! itself, which it puts off for 40 ms.

use std::sync::Arc;

use rustls::server::{ServerSessionMemoryCache, StoresServerSessions};

/// How many sessions are kept.
const SESSIONS: usize = 256;
/// Up to which size a session is taken for one without a certificate: a name, a secret and a few numbers, some 100 bytes. With
/// one it has well over 200, even with the shortest names and keys. One with a very long name is not resumed, and no harm done.
const WITHOUT_CERTIFICATE: usize = 160;

#[derive(Debug)]
pub(crate) struct AnonymousSessions(Arc<ServerSessionMemoryCache>);

impl AnonymousSessions {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(ServerSessionMemoryCache::new(SESSIONS)))
    }
}

impl StoresServerSessions for AnonymousSessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        value.len() > WITHOUT_CERTIFICATE || self.0.put(key, value)
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.get(key)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.take(key)
    }

    fn can_cache(&self) -> bool {
        true
    }
}
