//! The keys secrets are sealed with, and the file they live in.
//!
//! The file is JSON, readable by its owner only, and holds every key that something may still be sealed with;
//! the last one seals. It is not part of a backup of the database: keep it apart, or the backup is worth
//! nothing to its owner or everything to a thief.

use std::fmt;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use camino::{Utf8Path, Utf8PathBuf};
use nix::unistd::geteuid;
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize as _, Zeroizing};

use crate::Error;

/// Seals and opens secrets. Clones share their keys.
#[derive(Clone)]
pub struct Keyring(Arc<Shared>);

struct Shared {
    path: Option<Utf8PathBuf>,
    keys: RwLock<Vec<Key>>,
}

struct Key {
    id: String,
    /// Kept to write the file again when a key is added.
    secret: Zeroizing<Vec<u8>>,
    cipher: RandomizedNonceKey,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    keys: Vec<FileKey>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileKey {
    id: String,
    key: String,
}

impl Drop for FileKey {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}

/// Marks what is sealed, and how: a later form would have another number.
const PREFIX: &str = "sealed:1:";
const KEY_BYTES: usize = 32;

impl Keyring {
    /// One new key, kept nowhere: what it seals is lost with the process.
    pub fn ephemeral() -> Result<Self, Error> {
        Ok(Self(Arc::new(Shared { path: None, keys: RwLock::new(vec![Key::generate()?]) })))
    }

    /// The keys in a file; a new file with one key if there is none.
    pub fn open_or_create(path: impl Into<Utf8PathBuf>) -> Result<Self, Error> {
        let path = path.into();
        if path.exists() {
            return Self::open(path);
        }
        let keys = vec![Key::generate()?];
        match write(&path, &keys, true) {
            Ok(()) => {}
            // Several processes that start at once on one store have the keys of the first.
            Err(_) if path.exists() => return Self::open(path),
            Err(error) => return Err(error),
        }
        Ok(Self(Arc::new(Shared { path: Some(path), keys: RwLock::new(keys) })))
    }

    /// The keys in a file.
    pub fn open(path: impl Into<Utf8PathBuf>) -> Result<Self, Error> {
        let path = path.into();
        let keys = read(&path)?;
        Ok(Self(Arc::new(Shared { path: Some(path), keys: RwLock::new(keys) })))
    }

    /// Also opens what was sealed with the keys of another file, which is not changed. None of them seals.
    pub fn and_open_with(self, path: impl Into<Utf8PathBuf>) -> Result<Self, Error> {
        let former = read(&path.into())?;
        let mut keys = self.0.keys.write().unwrap_or_else(PoisonError::into_inner);
        let new: Vec<_> =
            former.into_iter().filter(|former| keys.iter().all(|key| key.id != former.id)).collect();
        keys.splice(0..0, new);
        drop(keys);
        Ok(self)
    }

    /// Reads the file again, after another process added or retired a key.
    pub fn reload(&self) -> Result<(), Error> {
        if let Some(path) = &self.0.path {
            *self.0.keys.write().unwrap_or_else(PoisonError::into_inner) = read(path)?;
        }
        Ok(())
    }

    /// Adds a key that seals from now on. Returns its id.
    pub fn add_key(&self) -> Result<String, Error> {
        let key = Key::generate()?;
        let id = key.id.clone();
        self.change(|keys| keys.push(key))?;
        Ok(id)
    }

    /// Forgets a key. What is still sealed with it cannot be opened any more.
    pub(crate) fn remove_key(&self, id: &str) -> Result<(), Error> {
        self.change(|keys| keys.retain(|key| key.id != id))
    }

    /// The ids of all keys, the one that seals last.
    pub fn key_ids(&self) -> Vec<String> {
        self.read().iter().map(|key| key.id.clone()).collect()
    }

    /// Seals `plain` so that it opens only in the same `place`. Returns the text and the key's id.
    pub(crate) fn seal(&self, place: &str, plain: &[u8]) -> Result<(String, String), Error> {
        let failed = |problem: &str| Error::Sealing { action: "sealed", problem: problem.to_owned() };
        let keys = self.read();
        let key = keys.last().ok_or_else(|| failed("the keyring is empty"))?;
        let mut bytes = plain.to_vec();
        let nonce = key
            .cipher
            .seal_in_place_append_tag(Aad::from(place.as_bytes()), &mut bytes)
            .map_err(|_| failed("the cipher refused it"))?;
        let mut text = format!("{PREFIX}{}:", key.id);
        // With room for the quotes around it.
        text.reserve((NONCE_LEN + bytes.len()).div_ceil(3) * 4 + 2);
        // Whole groups of three bytes, so that what follows can be written by itself.
        BASE64.encode_string(nonce.as_ref(), &mut text);
        BASE64.encode_string(&bytes, &mut text);
        Ok((text, key.id.clone()))
    }

    /// Whether a text has the form of something sealed.
    pub(crate) fn is_sealed(text: &str) -> bool {
        text.starts_with(PREFIX)
    }

    /// Opens what was sealed in `place`.
    pub(crate) fn open_sealed(&self, place: &str, sealed: &str) -> Result<Zeroizing<Vec<u8>>, Error> {
        let failed = |problem: String| Error::Sealing { action: "opened", problem };
        let (id, data) = sealed
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split_once(':'))
            .ok_or_else(|| failed(format!("the value at {place} is not sealed")))?;
        let is_cut = || failed(format!("the value at {place} is not whole"));
        let (nonce, data) = data.split_at_checked(NONCE_LEN / 3 * 4).ok_or_else(is_cut)?;
        let nonce = BASE64.decode(nonce).map_err(|_| is_cut())?;
        let nonce = Nonce::try_assume_unique_for_key(&nonce).map_err(|_| is_cut())?;
        let mut sealed = Zeroizing::new(BASE64.decode(data).map_err(|_| is_cut())?);
        let keys = self.read();
        let key = keys.iter().find(|key| key.id == id).ok_or_else(|| {
            failed(format!("key `{id}` is not in the key file; restore it from where it was kept"))
        })?;
        let length = key
            .cipher
            .open_in_place(nonce, Aad::from(place.as_bytes()), &mut sealed)
            .map_err(|_| failed(format!("the value at {place} was not sealed there with key `{id}`")))?
            .len();
        sealed.truncate(length);
        Ok(sealed)
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Vec<Key>> {
        self.0.keys.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Key>)) -> Result<(), Error> {
        let mut keys = self.0.keys.write().unwrap_or_else(PoisonError::into_inner);
        // Another process may have added one since.
        if let Some(path) = &self.0.path {
            *keys = read(path)?;
        }
        change(&mut keys);
        self.0.path.as_ref().map_or(Ok(()), |path| write(path, &keys, false))
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").field("path", &self.0.path).field("keys", &self.key_ids()).finish()
    }
}

impl Key {
    fn generate() -> Result<Self, Error> {
        let mut secret = Zeroizing::new(vec![0; KEY_BYTES]);
        aws_lc_rs::rand::fill(&mut secret).map_err(|_| Error::Sealing {
            action: "sealed",
            problem: "the system gave no random bytes".to_owned(),
        })?;
        // Ids sort by age, which reads well; nothing depends on it.
        Self::try_new(uuid::Uuid::now_v7().simple().to_string(), secret)
    }

    fn try_new(id: String, secret: Zeroizing<Vec<u8>>) -> Result<Self, Error> {
        let cipher = RandomizedNonceKey::new(&AES_256_GCM_SIV, &secret).map_err(|_| Error::Sealing {
            action: "sealed",
            problem: format!("key `{id}` does not have {KEY_BYTES} bytes"),
        })?;
        Ok(Self { id, secret, cipher })
    }
}

fn unusable(path: &Utf8Path, problem: impl fmt::Display) -> Error {
    Error::Invalid { what: format!("key file {path}"), problem: problem.to_string() }
}

/// Whether a key file of this mode is one that others can read. One that somebody else has put there for our group, as the
/// volumes of Kubernetes' Secrets do, is not.
fn is_readable_by_others(mode: u32, is_ours: bool) -> bool {
    mode & if is_ours { 0o077 } else { 0o037 } != 0
}

fn read(path: &Utf8Path) -> Result<Vec<Key>, Error> {
    let metadata = std::fs::metadata(path).map_err(|error| unusable(path, error))?;
    let mode = metadata.permissions().mode() & 0o777;
    if is_readable_by_others(mode, metadata.uid() == geteuid().as_raw()) {
        return Err(unusable(path, format!("its mode is {mode:o}, others may read it; `chmod 600 {path}`")));
    }
    let text = Zeroizing::new(std::fs::read_to_string(path).map_err(|error| unusable(path, error))?);
    let file: File = serde_json::from_str(&text).map_err(|error| {
        // Not the parser's own words: they may quote a key.
        unusable(path, format!("it is not a key file (line {}, column {})", error.line(), error.column()))
    })?;
    if file.keys.is_empty() {
        return Err(unusable(path, "it has no key"));
    }
    file.keys
        .into_iter()
        .map(|key| {
            let secret =
                BASE64.decode(key.key.as_bytes()).map_err(|_| unusable(path, "a key is not base64"))?;
            Key::try_new(key.id.clone(), Zeroizing::new(secret))
        })
        .collect()
}

/// Written beside and renamed, so that no crash leaves half a key file or none.
fn write(path: &Utf8Path, keys: &[Key], must_be_new: bool) -> Result<(), Error> {
    static WRITTEN: AtomicU64 = AtomicU64::new(0);
    let failed = |error: std::io::Error| unusable(path, error);
    let file = File {
        keys: keys
            .iter()
            .map(|key| FileKey { id: key.id.clone(), key: BASE64.encode(&*key.secret) })
            .collect(),
    };
    let text = Zeroizing::new(serde_json::to_string_pretty(&file).map_err(|error| unusable(path, error))?);
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let beside = path.with_extension(format!("{}-{number}.tmp", std::process::id()));
    let _ = std::fs::remove_file(&beside);
    let mut output =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside).map_err(failed)?;
    output.write_all(text.as_bytes()).and_then(|()| output.sync_all()).map_err(failed)?;
    // Two processes that both find no key file must not overwrite each other's: a link fails if it exists.
    let placed = if must_be_new {
        let linked = std::fs::hard_link(&beside, path);
        let removed = std::fs::remove_file(&beside);
        linked.and(removed)
    } else {
        std::fs::rename(&beside, path)
    };
    placed.map_err(failed)?;
    let directory =
        path.parent().filter(|parent| !parent.as_str().is_empty()).unwrap_or_else(|| Utf8Path::new("."));
    std::fs::File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, Utf8PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(folder.path().join("store.key")).unwrap();
        (folder, path)
    }

    #[test]
    fn what_is_sealed_opens_only_in_its_place_and_with_its_key() {
        let keyring = Keyring::ephemeral().unwrap();
        let (sealed, _) = keyring.seal("here", b"hunter2").unwrap();
        assert!(!sealed.contains("hunter2"));
        assert_eq!(&*keyring.open_sealed("here", &sealed).unwrap(), b"hunter2");
        assert!(keyring.open_sealed("there", &sealed).is_err());
        assert!(Keyring::ephemeral().unwrap().open_sealed("here", &sealed).is_err());
        let mut changed = sealed.clone();
        let last = changed.pop().unwrap();
        changed.push(if last == 'A' { 'B' } else { 'A' });
        assert!(keyring.open_sealed("here", &changed).is_err());
        assert!(keyring.open_sealed("here", "hunter2").is_err());
    }

    #[test]
    fn whoever_starts_at_once_has_the_same_keys() {
        let (folder, path) = folder();
        let together = std::sync::Barrier::new(8);
        let opened: Vec<_> = std::thread::scope(|scope| {
            let open = || {
                together.wait();
                Keyring::open_or_create(path.clone()).unwrap()
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let (sealed, _) = opened[0].seal("here", b"hunter2").unwrap();
        for keyring in &opened {
            assert_eq!(&*keyring.open_sealed("here", &sealed).unwrap(), b"hunter2");
        }
        assert_eq!(folder.path().read_dir().unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn the_same_secret_sealed_twice_looks_different() {
        let keyring = Keyring::ephemeral().unwrap();
        assert_ne!(keyring.seal("here", b"x").unwrap(), keyring.seal("here", b"x").unwrap());
    }

    #[test]
    fn keys_survive_in_a_file_that_only_its_owner_can_read() {
        let (_folder, path) = folder();
        let keyring = Keyring::open_or_create(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let (sealed, first) = keyring.seal("here", b"x").unwrap();
        let second = keyring.add_key().unwrap();
        let again = Keyring::open(&path).unwrap();
        assert_eq!(again.key_ids(), [first.clone(), second.clone()]);
        assert_eq!(&*again.open_sealed("here", &sealed).unwrap(), b"x");
        assert_eq!(again.seal("here", b"x").unwrap().1, second);

        again.remove_key(&first).unwrap();
        keyring.reload().unwrap();
        let error = keyring.open_sealed("here", &sealed).unwrap_err();
        assert!(error.to_string().contains(&first), "{error}");
    }

    #[test]
    fn a_key_file_that_others_can_read_or_that_is_none_is_refused() {
        let (_folder, path) = folder();
        Keyring::open_or_create(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let error = Keyring::open(&path).unwrap_err();
        assert!(error.to_string().contains("chmod 600"), "{error}");

        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&path, r#"{"keys":[{"id":"a","key":"SECRETSECRET","x":1}]}"#).unwrap();
        let error = Keyring::open(&path).unwrap_err();
        assert!(!error.to_string().contains("SECRET"), "{error}");
    }

    #[test]
    fn a_key_file_that_was_put_there_for_our_group_is_for_nobody_else() {
        for (mode, is_ours, refused) in [
            (0o600, true, false),
            (0o640, true, true),
            (0o440, false, false),
            (0o640, false, false),
            (0o460, false, true),
            (0o444, false, true),
        ] {
            assert_eq!(is_readable_by_others(mode, is_ours), refused, "{mode:o} {is_ours}");
        }
    }

    #[test]
    fn debug_shows_ids_and_no_key() {
        let keyring = Keyring::ephemeral().unwrap();
        let secret = BASE64.encode(&*keyring.read()[0].secret);
        let shown = format!("{keyring:?}");
        assert!(shown.contains(&keyring.key_ids()[0]) && !shown.contains(&secret), "{shown}");
    }
}
