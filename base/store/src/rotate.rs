//! Changing the key that secrets are sealed with.

use serde::Serialize;
use tracing::info;

use crate::engine::{Command, Maintenance};
use crate::store::Store;
use crate::{Error, Keyring, seal};

/// What a rotation did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rotation {
    /// The key that seals from now on.
    pub key: String,
    /// How many versions of documents were sealed anew.
    pub resealed: u64,
    /// The keys that were removed from the key file.
    pub retired: Vec<String>,
}

/// Versions sealed anew in one go.
const CHUNK: usize = 200;

impl Store {
    /// Adds a key and seals everything anew with it, past versions included. Revisions and etags stay.
    ///
    /// With `retire`, the former keys are then removed for good: backups made before cannot be opened any more.
    /// Interrupted, it can be repeated; every key that is still needed stays in the file until the end.
    pub async fn rotate_key(&self, retire: bool) -> Result<Rotation, Error> {
        let inner = self.inner();
        let keyring = inner.keyring.as_ref().ok_or_else(no_keyring)?;
        let former = keyring.key_ids();
        let key = keyring.add_key()?;
        let mut resealed = self.seal_anew(keyring, &key).await?;
        let mut retired = Vec::new();
        if retire {
            for id in former {
                // From here on nobody can write with it; what was written until here is sealed anew below.
                inner.engine.submit(Command::Maintain(Maintenance::RetireKey { id: id.clone() })).await?;
                retired.push(id);
            }
            resealed += self.seal_anew(keyring, &key).await?;
            for id in &retired {
                keyring.remove_key(id)?;
            }
        }
        info!(%key, resealed, retired = retired.len(), "rotated the sealing key");
        Ok(Rotation { key, resealed, retired })
    }

    /// Seals anew whatever is not sealed with the last key of the keyring, past versions included; says how many that
    /// were. For key files that somebody else looks after: once this returns, nothing needs the former keys.
    pub async fn seal_with_last_key(&self) -> Result<u64, Error> {
        let keyring = self.inner().keyring.as_ref().ok_or_else(no_keyring)?;
        let mut keys = keyring.key_ids();
        let Some(key) = keys.pop().filter(|_| !keys.is_empty()) else { return Ok(0) };
        let resealed = self.seal_anew(keyring, &key).await?;
        if resealed > 0 {
            info!(%key, resealed, "sealed anew with the last key");
        }
        Ok(resealed)
    }

    async fn seal_anew(&self, keyring: &Keyring, key: &str) -> Result<u64, Error> {
        let inner = self.inner();
        let (mut after, mut resealed) = (0, 0);
        loop {
            let scanned = inner.engine.scan(after, CHUNK).await?;
            let Some(last) = scanned.last() else { return Ok(resealed) };
            after = last.position;
            let mut rows = Vec::new();
            for version in scanned {
                let Some(body) =
                    version.body.filter(|_| version.sealing_key.as_deref().is_some_and(|id| id != key))
                else {
                    continue;
                };
                let container = inner.catalog.prepared(&version.key.container)?;
                let plain = seal::open(container, &version.key, body, Some(keyring))?;
                let mut plain = seal::outline(&version.key, &plain)?;
                let (body, sealing_key) = seal::seal(container, &version.key, &mut plain, Some(keyring))?;
                rows.push((version.position, body, sealing_key));
            }
            resealed += rows.len() as u64;
            if !rows.is_empty() {
                inner.engine.submit(Command::Maintain(Maintenance::Reseal { rows })).await?;
            }
        }
    }
}

fn no_keyring() -> Error {
    Error::Sealing { action: "sealed", problem: "the store was opened without a keyring".to_owned() }
}
