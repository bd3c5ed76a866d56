//! The volumes of a pod, as folders on disk.
//!
//! Volumes whose content comes from the API are written whole into a fresh folder, and a symbolic link `..data` is moved
//! over to it: a reader sees all of the old content or all of the new.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};

use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{
    DownwardAPIVolumeFile, KeyToPath, PersistentVolume, PersistentVolumeClaim, Pod, ServiceAccount, Volume,
    VolumeProjection,
};
use kube::api::PostParams;
use kube::{Api, ResourceExt as _};
use pilothouse_runtime::{Chain, fault};
use tracing::warn;

use super::objects::{Objects, Place, Unresolved, field};
use super::resource_fields::resource_field;
use super::tokens::{Token, Tokens};
use crate::config::Config;

/// Makes the volumes of one pod.
pub(crate) struct Volumes<'a> {
    pub(crate) client: &'a kube::Client,
    pub(crate) config: &'a Config,
    pub(crate) pod: &'a Pod,
    pub(crate) folder: &'a Path,
    pub(crate) place: &'a Place<'a>,
    /// Reads what the volumes are made of.
    pub(crate) objects: &'a Objects,
    pub(crate) tokens: &'a Tokens,
    /// What was made before.
    pub(crate) before: Option<&'a Made>,
    pub(crate) now: Timestamp,
}

/// Where volumes are, and when a token in one of them should be replaced.
#[derive(Clone, Debug, Default)]
pub(crate) struct Made {
    /// What it was made from: as long as that is the same there is nothing to do.
    pub(crate) basis: Basis,
    pub(crate) paths: BTreeMap<String, PathBuf>,
    pub(crate) renew_at: Option<Timestamp>,
}

/// Versions of the objects that volumes are made of, and what of the pod itself may change.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Basis {
    pub(crate) versions: Vec<Option<String>>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
}

type Files = BTreeMap<String, (Vec<u8>, u32)>;

const MODE: i32 = 0o644;
/// The link to what a volume contains now.
const DATA: &str = "..data";

impl Volumes<'_> {
    /// Makes or refreshes all of them.
    pub(crate) async fn make(&self) -> Result<Made, Unresolved> {
        let mut made = Made::default();
        for volume in self.pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default() {
            let path = self.volume(volume, &mut made.renew_at).await?;
            made.paths.insert(volume.name.clone(), path);
        }
        Ok(made)
    }

    async fn volume(&self, volume: &Volume, renew_at: &mut Option<Timestamp>) -> Result<PathBuf, Unresolved> {
        let own = self.folder.join("volumes").join(&volume.name);
        let objects = self.objects;
        let mut files = Files::new();
        if let Some(source) = &volume.config_map {
            let entries = objects.config_map(&source.name, source.optional.unwrap_or(false)).await?;
            let mode = source.default_mode.unwrap_or(MODE);
            pick(&mut files, "ConfigMap", &source.name, entries, source.items.as_deref(), mode)?;
        } else if let Some(source) = &volume.secret {
            let name = source.secret_name.clone().unwrap_or_default();
            let entries = objects.secret(&name, source.optional.unwrap_or(false)).await?;
            let mode = source.default_mode.unwrap_or(MODE);
            pick(&mut files, "Secret", &name, entries, source.items.as_deref(), mode)?;
        } else if let Some(source) = &volume.downward_api {
            self.downward(&mut files, source.items.as_deref(), source.default_mode.unwrap_or(MODE))?;
        } else if let Some(source) = &volume.projected {
            let mode = source.default_mode.unwrap_or(MODE);
            for projection in source.sources.iter().flatten() {
                self.project(projection, mode, &mut files, renew_at).await?;
            }
        } else if let Some(source) = &volume.persistent_volume_claim {
            // A claim stays bound to its volume.
            return match self.before.and_then(|made| made.paths.get(&volume.name)) {
                Some(path) => Ok(path.clone()),
                None => self.claimed(&source.claim_name).await,
            };
        } else if let Some(source) = &volume.host_path {
            let path = PathBuf::from(&source.path);
            if source.type_.as_deref() == Some("DirectoryOrCreate") {
                fs::create_dir_all(&path).map_err(|error| broken(&volume.name, &error))?;
            }
            return Ok(path);
        } else if volume.empty_dir.is_some() {
            make_folder(&own, 0o777).map_err(|error| broken(&volume.name, &error))?;
            return Ok(own);
        } else {
            return Err(Unresolved::Other(format!(
                "volume `{}` is of a kind this node does not have; it has emptyDir, configMap, secret, downwardAPI, \
                 projected, persistentVolumeClaim and, where allowed, hostPath",
                volume.name
            )));
        }
        write_files(&own, &files, self.now).map_err(|error| broken(&volume.name, &error))?;
        Ok(own)
    }

    async fn project(
        &self,
        projection: &VolumeProjection,
        mode: i32,
        files: &mut Files,
        renew_at: &mut Option<Timestamp>,
    ) -> Result<(), Unresolved> {
        let objects = self.objects;
        if let Some(source) = &projection.config_map {
            let entries = objects.config_map(&source.name, source.optional.unwrap_or(false)).await?;
            pick(files, "ConfigMap", &source.name, entries, source.items.as_deref(), mode)?;
        }
        if let Some(source) = &projection.secret {
            let entries = objects.secret(&source.name, source.optional.unwrap_or(false)).await?;
            pick(files, "Secret", &source.name, entries, source.items.as_deref(), mode)?;
        }
        if let Some(source) = &projection.downward_api {
            self.downward(files, source.items.as_deref(), mode)?;
        }
        if let Some(source) = &projection.service_account_token {
            let token =
                self.token(source.audience.as_deref(), source.expiration_seconds.unwrap_or(3607)).await?;
            files.insert(source.path.clone(), (token.text.into_bytes(), 0o600 | mode.unsigned_abs()));
            *renew_at = Some(renew_at.map_or(token.renew_at, |earlier| earlier.min(token.renew_at)));
        }
        Ok(())
    }

    fn downward(
        &self,
        files: &mut Files,
        items: Option<&[DownwardAPIVolumeFile]>,
        mode: i32,
    ) -> Result<(), Unresolved> {
        for item in items.unwrap_or_default() {
            let value = if let Some(reference) = &item.resource_field_ref {
                resource_field(self.pod, None, reference, self.place.allocatable)?
            } else {
                let reference =
                    item.field_ref.as_ref().ok_or_else(|| Unresolved::Field(item.path.clone()))?;
                field(self.pod, self.place, &reference.field_path)?
            };
            files.insert(item.path.clone(), (value.into_bytes(), item.mode.unwrap_or(mode).unsigned_abs()));
        }
        Ok(())
    }

    /// A token for the pod's account that is good for this pod only: the one it has, or the next when that grows old.
    async fn token(&self, audience: Option<&str>, seconds: i64) -> Result<Token, Unresolved> {
        let wanted = (audience.unwrap_or_default().to_owned(), seconds);
        if let Some(token) = self.tokens.fresh(&wanted, self.now) {
            return Ok(token);
        }
        match self.request_token(audience, seconds).await {
            Ok(token) => {
                self.tokens.keep(wanted, token.clone());
                Ok(token)
            }
            Err(error) => match self.tokens.usable(&wanted, self.now) {
                Some(token) => {
                    warn!(error = %Chain(&error), "cannot renew a token yet, trying again");
                    Ok(token)
                }
                None => Err(error),
            },
        }
    }

    async fn request_token(&self, audience: Option<&str>, seconds: i64) -> Result<Token, Unresolved> {
        let account = self
            .pod
            .spec
            .as_ref()
            .and_then(|spec| spec.service_account_name.clone())
            .unwrap_or_else(|| "default".into());
        let request = TokenRequest {
            spec: TokenRequestSpec {
                audiences: audience.map(|audience| vec![audience.to_owned()]).unwrap_or_default(),
                bound_object_ref: Some(BoundObjectReference {
                    api_version: Some("v1".into()),
                    kind: Some("Pod".into()),
                    name: Some(self.pod.name_any()),
                    uid: self.pod.uid(),
                }),
                expiration_seconds: Some(seconds),
            },
            ..TokenRequest::default()
        };
        let api: Api<ServiceAccount> =
            Api::namespaced(self.client.clone(), &self.pod.namespace().unwrap_or_default());
        let answer =
            api.create_token_request(&account, &PostParams::default(), &request).await.map_err(|error| {
                Unresolved::Api {
                    kind: "a token of ServiceAccount",
                    name: account.clone(),
                    source: Box::new(error),
                }
            })?;
        let status = answer.status.ok_or_else(|| {
            Unresolved::Other(format!("no token was issued for ServiceAccount `{account}`"))
        })?;
        Ok(Token::new(status.token, status.expiration_timestamp.0, self.now))
    }

    async fn claimed(&self, claim: &str) -> Result<PathBuf, Unresolved> {
        let namespace = self.pod.namespace().unwrap_or_default();
        let kind = "PersistentVolumeClaim";
        let unread = |kind, name: &str| {
            let name = name.to_owned();
            move |error| Unresolved::Api { kind, name, source: Box::new(error) }
        };
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), &namespace);
        let found = claims.get_opt(claim).await.map_err(unread(kind, claim))?;
        let found = found.ok_or_else(|| Unresolved::Missing { kind, namespace, name: claim.to_owned() })?;
        let bound = found.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound");
        let name = found.spec.and_then(|spec| spec.volume_name).filter(|_| bound);
        let name = name
            .ok_or_else(|| Unresolved::Other(format!("PersistentVolumeClaim `{claim}` is not bound yet")))?;
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        let volume = volumes.get(&name).await.map_err(unread("PersistentVolume", &name))?;
        let path = host_path(&volume).ok_or_else(|| {
            Unresolved::Other(format!("PersistentVolume `{name}` is not a folder on this node"))
        })?;
        let is_ours = self.config.volume_root.as_ref().is_some_and(|root| is_below(&path, root));
        if !is_ours && !self.config.allow_host_path {
            return Err(Unresolved::Other(format!(
                "PersistentVolume `{name}` is at {}, which is outside of this node's volumes",
                path.display()
            )));
        }
        if is_ours {
            make_folder(&path, 0o700).map_err(|error| broken(claim, &error))?;
        }
        Ok(path)
    }
}

/// The folder a persistent volume is.
pub(crate) fn host_path(volume: &PersistentVolume) -> Option<PathBuf> {
    let spec = volume.spec.as_ref()?;
    let path = spec.host_path.as_ref().map(|source| &source.path);
    path.or_else(|| spec.local.as_ref().map(|source| &source.path)).map(PathBuf::from)
}

/// Whether a path is strictly inside a folder, by its letters alone.
pub(crate) fn is_below(path: &Path, folder: &Path) -> bool {
    path != folder && path.starts_with(folder) && !path.components().any(|part| part == Component::ParentDir)
}

fn pick(
    files: &mut Files,
    kind: &'static str,
    name: &str,
    entries: Option<BTreeMap<String, Vec<u8>>>,
    items: Option<&[KeyToPath]>,
    mode: i32,
) -> Result<(), Unresolved> {
    // Absent, and allowed to be.
    let Some(mut entries) = entries else { return Ok(()) };
    let Some(items) = items else {
        files.extend(entries.into_iter().map(|(key, bytes)| (key, (bytes, mode.unsigned_abs()))));
        return Ok(());
    };
    for item in items {
        let bytes = entries.remove(&item.key).ok_or_else(|| Unresolved::NoKey {
            kind,
            name: name.to_owned(),
            key: item.key.clone(),
        })?;
        files.insert(item.path.clone(), (bytes, item.mode.unwrap_or(mode).unsigned_abs()));
    }
    Ok(())
}

/// Writes files so that a reader sees all of the old ones or all of the new ones. Also what was written before is looked after to
/// the end: whoever wrote it may have been killed at any moment.
fn write_files(folder: &Path, files: &Files, now: Timestamp) -> io::Result<()> {
    make_folder(folder, 0o755)?;
    if !is_current(folder, files) {
        publish(folder, files, &format!("..{}", now.as_nanosecond()))?;
    }
    for path in files.keys() {
        // Only the first part of a path has a link; what is below comes along.
        let first = path.split('/').next().unwrap_or(path);
        let link = folder.join(first);
        if fs::symlink_metadata(&link).is_err() {
            symlink(Path::new(DATA).join(first), link)?;
        }
    }
    remove_former(folder)
}

/// Moves the link over to a fresh folder with these files.
fn publish(folder: &Path, files: &Files, name: &str) -> io::Result<()> {
    let fresh = folder.join(name);
    make_folder(&fresh, 0o755)?;
    for (path, (bytes, mode)) in files {
        if Path::new(path).components().any(|part| !matches!(part, Component::Normal(_))) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("`{path}` is no path within a volume"),
            ));
        }
        let file = fresh.join(path);
        if let Some(parent) = file.parent() {
            make_folder(parent, 0o755)?;
        }
        fs::write(&file, bytes)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(*mode))?;
    }
    let moving = folder.join("..data_tmp");
    let _ = fs::remove_file(&moving);
    symlink(name, &moving)?;
    fault::point("kubelet.volume.before");
    fs::rename(&moving, folder.join(DATA))?;
    fault::point("kubelet.volume.after");
    Ok(())
}

/// Removes the folders of former content, and links to what is not there any more.
fn remove_former(folder: &Path) -> io::Result<()> {
    let current = fs::read_link(folder.join(DATA))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        let is_ours = name.to_string_lossy().starts_with("..") && name != DATA && name != current;
        if kind.is_dir() && is_ours {
            fs::remove_dir_all(entry.path())?;
        } else if kind.is_symlink() && (is_ours || !entry.path().exists()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn is_current(folder: &Path, files: &Files) -> bool {
    let mut found = Files::new();
    let data = folder.join(DATA);
    data.is_dir() && read_files(&data, "", &mut found).is_ok() && found == *files
}

fn read_files(folder: &Path, prefix: &str, files: &mut Files) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let found = entry.metadata()?;
        if found.is_dir() {
            read_files(&entry.path(), &format!("{name}/"), files)?;
        } else {
            files.insert(name, (fs::read(entry.path())?, found.permissions().mode() & 0o7777));
        }
    }
    Ok(())
}

/// Whatever the mask of this process is. A folder that is there has its mode: it comes to its place with it.
fn make_folder(path: &Path, mode: u32) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let fresh = parent.join(format!(".{}.new", name.to_string_lossy()));
    fs::DirBuilder::new().recursive(true).mode(0o755).create(&fresh)?;
    fs::set_permissions(&fresh, fs::Permissions::from_mode(mode))?;
    fs::rename(fresh, path)
}

fn broken(volume: &str, error: &io::Error) -> Unresolved {
    Unresolved::Other(format!("volume `{volume}` could not be made: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provided_files_are_replaced_all_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let moment = |second| Timestamp::from_second(second).unwrap();
        let files = |text: &str| {
            let file = |text: &str| (text.as_bytes().to_vec(), 0o600);
            Files::from([("plain".to_owned(), file(text)), ("deep/er".to_owned(), file(text))])
        };
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();

        write_files(folder.path(), &files("old"), moment(1)).unwrap();
        assert_eq!((read("plain"), read("deep/er")), ("old".to_owned(), "old".to_owned()));
        write_files(folder.path(), &files("new"), moment(2)).unwrap();
        assert_eq!((read("plain"), read("deep/er")), ("new".to_owned(), "new".to_owned()));
        // Nothing of the old content is left, and what is unchanged is not written again.
        write_files(folder.path(), &files("new"), moment(3)).unwrap();
        let mut names: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["..2000000000", "..data", "deep", "plain"]);

        // What is gone from the source is gone from the volume, and a mode is a change like any other.
        let left = Files::from([("plain".to_owned(), (b"new".to_vec(), 0o400))]);
        write_files(folder.path(), &left, moment(4)).unwrap();
        let mut names: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["..4000000000", "..data", "plain"]);
        let mode = fs::metadata(folder.path().join("plain")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o400);

        let outside = Files::from([("../escape".to_owned(), (Vec::new(), 0o600))]);
        assert!(write_files(folder.path(), &outside, moment(5)).is_err());
    }

    /// At every step of the way: by whoever was killed there.
    #[test]
    fn what_was_left_unfinished_is_finished_by_the_next() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("volume");
        let moment = |second| Timestamp::from_second(second).unwrap();
        let file = |text: &str| (text.as_bytes().to_vec(), 0o600);
        let files =
            |text: &str| Files::from([("plain".to_owned(), file(text)), ("deep/er".to_owned(), file(text))]);
        let names = || {
            let mut names: Vec<_> =
                fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };

        // Made, and not moved to its place.
        fs::create_dir(parent.path().join(".volume.new")).unwrap();
        write_files(&folder, &files("new"), moment(1)).unwrap();
        assert!(!parent.path().join(".volume.new").exists());
        // The link has moved, and nothing leads there.
        fs::remove_file(folder.join("plain")).unwrap();
        fs::remove_file(folder.join("deep")).unwrap();
        // Former content, and some that did not come to be it.
        fs::create_dir(folder.join("..500000000")).unwrap();
        symlink("..500000000", folder.join("..data_tmp")).unwrap();
        symlink(Path::new(DATA).join("gone"), folder.join("gone")).unwrap();
        write_files(&folder, &files("new"), moment(2)).unwrap();
        assert_eq!(fs::read_to_string(folder.join("plain")).unwrap(), "new");
        assert_eq!(fs::read_to_string(folder.join("deep/er")).unwrap(), "new");
        assert_eq!(names(), ["..1000000000", "..data", "deep", "plain"]);
    }

    #[test]
    fn only_what_is_strictly_inside_is_below() {
        let folder = Path::new("/data/volumes");
        assert!(is_below(Path::new("/data/volumes/one"), folder));
        for path in ["/data/volumes", "/data/volumes/../region.db", "/data/volumes2/one", "/etc"] {
            assert!(!is_below(Path::new(path), folder), "{path}");
        }
    }
}
