//! A disk that forgets what was not flushed. The model is described at the top of `power_loss.rs`.

use std::collections::{BTreeMap, HashMap};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;

use camino::{Utf8Path, Utf8PathBuf};
use rand::Rng as _;
use rand::rngs::StdRng;

use super::log::{Descriptor, Operation};

const SECTOR: usize = 512;

/// One folder on a disk.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    folder: Utf8PathBuf,
    files: Vec<File>,
    /// Names as programs see them, and as the disk has them.
    names: Names,
    flushed_names: Names,
    /// What was done to names since the directory was flushed.
    renamings: Vec<Names>,
    open: HashMap<Descriptor, Target>,
}

/// Names of files, by their place in [`Disk::files`].
type Names = BTreeMap<Utf8PathBuf, usize>;

#[derive(Clone, Copy, Debug)]
enum Target {
    Folder,
    File(usize),
}

#[derive(Clone, Debug, Default)]
struct File {
    flushed: Vec<u8>,
    /// Since the last flush.
    changes: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, data: Vec<u8> },
    Resize(usize),
}

/// How much of what was not flushed a power cut leaves.
#[derive(Clone, Copy, Debug)]
pub(super) enum Survival {
    None,
    /// Each sector with this probability.
    Some(f64),
    All,
}

impl Survival {
    pub(super) fn random(random: &mut StdRng) -> Self {
        match random.random_range(0..6) {
            0 => Self::None,
            1 => Self::All,
            2 => Self::Some(0.98),
            3 => Self::Some(0.1),
            _ => Self::Some(random.random()),
        }
    }

    /// How many of `count` things in a row have happened.
    fn cut(self, count: usize, random: &mut StdRng) -> usize {
        match self {
            Self::None => 0,
            Self::All => count,
            Self::Some(probability) if random.random_bool(probability) => count,
            // Of those that are not up to date, most have never been written.
            Self::Some(_) if random.random_bool(0.7) => 0,
            Self::Some(_) => random.random_range(0..=count),
        }
    }
}

impl Disk {
    /// A folder as it is, all of it flushed.
    pub(super) fn load(folder: &Utf8Path) -> Self {
        let mut files = Vec::new();
        let mut names = Names::new();
        for name in self::names(folder) {
            let path = folder.join(name);
            let flushed = std::fs::read(&path).unwrap();
            names.insert(path, files.len());
            files.push(File { flushed, changes: Vec::new() });
        }
        let flushed_names = names.clone();
        Self {
            folder: folder.to_owned(),
            files,
            names,
            flushed_names,
            renamings: Vec::new(),
            open: HashMap::new(),
        }
    }

    pub(super) fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Opened { descriptor, path } => {
                let target =
                    if *path == self.folder { Target::Folder } else { Target::File(self.named(path)) };
                self.open.insert(*descriptor, target);
            }
            Operation::Closed { descriptor } => drop(self.open.remove(descriptor)),
            Operation::Copied { from, to } => drop(self.open.insert(*to, self.open[from])),
            Operation::Wrote { descriptor, offset, data } => {
                self.change(*descriptor, Change::Write { offset: *offset, data: data.clone() });
            }
            Operation::Resized { descriptor, size } => self.change(*descriptor, Change::Resize(*size)),
            Operation::Synced { descriptor } => match self.open[descriptor] {
                Target::Folder => {
                    self.flushed_names = self.names.clone();
                    self.renamings.clear();
                }
                Target::File(file) => self.files[file].flush(),
            },
            Operation::Renamed { from, to } => self.rename(|names| {
                let file = names.remove(from).unwrap();
                names.insert(to.clone(), file);
            }),
            Operation::Linked { from, to } => self.rename(|names| {
                let file = names[from];
                names.insert(to.clone(), file);
            }),
            Operation::Unlinked { path } => self.rename(|names| {
                names.remove(path);
            }),
            Operation::Said { .. } => {}
        }
    }

    /// The file of this name; a new one if there is none.
    fn named(&mut self, path: &Utf8Path) -> usize {
        assert_eq!(path.parent(), Some(&*self.folder), "folders within the folder are not modelled");
        if let Some(file) = self.names.get(path) {
            return *file;
        }
        let file = self.files.len();
        self.files.push(File::default());
        self.rename(|names| {
            names.insert(path.to_owned(), file);
        });
        file
    }

    fn rename(&mut self, rename: impl FnOnce(&mut Names)) {
        rename(&mut self.names);
        self.renamings.push(self.names.clone());
    }

    fn change(&mut self, descriptor: Descriptor, change: Change) {
        match self.open[&descriptor] {
            Target::File(file) => self.files[file].changes.push(change),
            Target::Folder => panic!("a folder is not written to"),
        }
    }

    /// Cuts the power, and writes what is left to another folder.
    pub(super) fn write(&self, folder: &Utf8Path, survival: Survival, random: &mut StdRng) {
        let names = match survival.cut(self.renamings.len(), random) {
            0 => &self.flushed_names,
            count => &self.renamings[count - 1],
        };
        for (path, file) in names {
            let name = path.file_name().unwrap();
            if is_shared_memory(name) {
                continue;
            }
            let mut options = std::fs::OpenOptions::new();
            // As private as the key must be.
            let mut output =
                options.write(true).create(true).truncate(true).mode(0o600).open(folder.join(name)).unwrap();
            output.write_all(&self.files[*file].left(survival, random)).unwrap();
        }
    }
}

impl File {
    fn flush(&mut self) {
        for change in std::mem::take(&mut self.changes) {
            change.apply(&mut self.flushed);
        }
    }

    /// What a power cut leaves of it.
    fn left(&self, survival: Survival, random: &mut StdRng) -> Vec<u8> {
        let mut size = self.flushed.len();
        let mut sizes = vec![size];
        // By sector: which changes concern it.
        let mut concerned: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (number, change) in self.changes.iter().enumerate() {
            let range = change.range(size);
            size = change.size(size);
            sizes.push(size);
            for sector in range.start / SECTOR..range.end.div_ceil(SECTOR) {
                concerned.entry(sector).or_default().push(number);
            }
        }
        let mut left = self.flushed.clone();
        left.resize(sizes.iter().copied().max().unwrap_or_default().next_multiple_of(SECTOR), 0);
        for (sector, changes) in concerned {
            let area = sector * SECTOR..(sector + 1) * SECTOR;
            for number in &changes[..survival.cut(changes.len(), random)] {
                self.changes[*number].apply_within(area.clone(), &mut left);
            }
        }
        left.truncate(sizes[survival.cut(self.changes.len(), random)]);
        left
    }
}

impl Change {
    /// Which bytes of a file that has this size it changes.
    fn range(&self, size: usize) -> std::ops::Range<usize> {
        match self {
            Self::Write { offset, data } => *offset..offset + data.len(),
            Self::Resize(to) => *to..size.max(*to),
        }
    }

    /// The file's size afterwards.
    fn size(&self, size: usize) -> usize {
        match self {
            Self::Write { offset, data } => size.max(offset + data.len()),
            Self::Resize(to) => *to,
        }
    }

    fn apply(&self, content: &mut Vec<u8>) {
        content.resize(self.size(content.len()), 0);
        if let Self::Write { offset, data } = self {
            content[*offset..offset + data.len()].copy_from_slice(data);
        }
    }

    /// To one sector only; the file is long enough.
    fn apply_within(&self, area: std::ops::Range<usize>, content: &mut [u8]) {
        match self {
            Self::Write { offset, data } => {
                let (start, end) = (area.start.max(*offset), area.end.min(offset + data.len()));
                content[start..end].copy_from_slice(&data[start - offset..end - offset]);
            }
            Self::Resize(to) => content[area.start.max(*to)..area.end].fill(0),
        }
    }
}

/// Made anew whenever the first process opens a database.
fn is_shared_memory(name: &str) -> bool {
    name.ends_with("-shm")
}

/// The files of a folder that count, in order.
pub(super) fn names(folder: &Utf8Path) -> Vec<String> {
    let entries = folder.read_dir_utf8().unwrap().map(|entry| entry.unwrap().file_name().to_owned());
    let mut names: Vec<String> = entries.filter(|name| !is_shared_memory(name)).collect();
    names.sort_unstable();
    names
}
