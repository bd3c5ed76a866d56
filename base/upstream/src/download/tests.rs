use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::{Arc, Mutex};

use rstest::rstest;

use super::*;
use crate::release::Sum;
use crate::{Installation, Origin, Provided};

/// What a host answers.
struct Reply {
    head: String,
    body: Vec<u8>,
    /// It says no more, and does not hang up.
    hangs: bool,
}

/// A host of files on the loopback. Ends with the test's process.
struct Host {
    address: SocketAddr,
    asked: Asked,
}

/// What was asked for: path, and where the range begins.
type Asked = Arc<Mutex<Vec<(String, Option<u64>)>>>;

impl Host {
    fn start(answer: impl Fn(&str, Option<u64>) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Asked::default();
        let noted = Arc::clone(&asked);
        std::thread::spawn(move || {
            let mut hanging = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let Some((path, range)) = request(&stream) else { continue };
                noted.lock().unwrap().push((path.clone(), range));
                let reply = answer(&path, range);
                // Whoever asked may be gone.
                let _ = write!(stream, "HTTP/1.1 {}\r\nconnection: close\r\n\r\n", reply.head);
                let _ = stream.write_all(&reply.body);
                if reply.hangs {
                    hanging.push(stream);
                }
            }
        });
        Self { address, asked }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn ranges(&self) -> Vec<Option<u64>> {
        self.asked.lock().unwrap().iter().map(|(_, range)| *range).collect()
    }
}

fn request(stream: &TcpStream) -> Option<(String, Option<u64>)> {
    let mut lines = BufReader::new(stream).lines();
    let path = lines.next()?.ok()?.split(' ').nth(1)?.to_owned();
    let mut range = None;
    for line in lines.map_while(Result::ok).take_while(|line| !line.is_empty()) {
        if let Some(value) = line.to_lowercase().strip_prefix("range: bytes=") {
            range = value.trim_end_matches('-').parse().ok();
        }
    }
    Some((path, range))
}

fn status(head: &str) -> Reply {
    Reply { head: format!("{head}\r\ncontent-length: 0"), body: Vec::new(), hangs: false }
}

fn whole(body: &[u8]) -> Reply {
    let head = format!("200 OK\r\ncontent-length: {}", body.len());
    Reply { head, body: body.to_vec(), hangs: false }
}

/// As hosts of files do it: from where the caller has to go on.
fn file(body: &[u8], range: Option<u64>) -> Reply {
    let Some(start) = range else { return whole(body) };
    let rest = &body[usize::try_from(start).unwrap()..];
    let (last, all) = (body.len() - 1, body.len());
    let head = format!(
        "206 Partial Content\r\ncontent-length: {}\r\ncontent-range: bytes {start}-{last}/{all}",
        rest.len()
    );
    Reply { head, body: rest.to_vec(), hangs: false }
}

fn newest() -> Version {
    Version::find(None).unwrap()
}

/// An archive of programs that say these versions, packed by somebody else's program.
fn pack(project: Project, says: &str, format: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let (top, bin, programs): (_, _, &[(&str, &str)]) = match project {
        Project::Etcd => (
            format!("etcd-{}-linux-testing", newest().etcd()),
            String::new(),
            &[("etcd", "etcd Version: "), ("etcdctl", "etcdctl version: ")],
        ),
        Project::Kubernetes => (
            "kubernetes".to_owned(),
            "server/bin".to_owned(),
            &[
                ("kube-apiserver", "Kubernetes "),
                ("kube-controller-manager", "Kubernetes "),
                ("kube-scheduler", "Kubernetes "),
                ("kubectl", "Client Version: "),
                ("kubelet", "Kubernetes "),
            ],
        ),
    };
    let bin = folder.path().join(&top).join(bin);
    fs::create_dir_all(&bin).unwrap();
    if format != "ustar" {
        // Names that need an extension of the format.
        fs::write(bin.join("a-file-with-a-long-name-".repeat(6)), "nobody wants it").unwrap();
    }
    for (name, answer) in programs {
        // Not a whole number of blocks, and more than one.
        let padding = "#".repeat(1_000 + name.len());
        fs::write(bin.join(name), format!("#!/bin/sh\necho '{answer}{says}'\n{padding}\n")).unwrap();
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let output = Command::new("tar")
        .arg(format!("--format={format}"))
        .args(["-cz", "-C"])
        .arg(folder.path())
        .arg(&top)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

fn sum_of(kind: fn(String) -> Sum, bytes: &[u8]) -> Sum {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    let digits = kind(String::new()).of(&mut file).unwrap();
    kind(digits)
}

/// Both archives, and whoever downloads them from `mirror`.
struct Release {
    etcd: Vec<u8>,
    kubernetes: Vec<u8>,
}

impl Release {
    fn packed(format: &str) -> Self {
        let etcd = pack(Project::Etcd, newest().etcd(), format);
        Self { etcd, kubernetes: pack(Project::Kubernetes, newest().kubernetes(), format) }
    }

    fn of(&self, path: &str) -> Option<Vec<u8>> {
        let path = path.split('?').next()?;
        let (etcd, kubernetes) = (newest().etcd().to_owned(), newest().kubernetes().to_owned());
        if path == format!("/{etcd}/etcd-{etcd}-linux-testing.tar.gz") {
            Some(self.etcd.clone())
        } else {
            (path == format!("/{kubernetes}/kubernetes-server-linux-testing.tar.gz"))
                .then(|| self.kubernetes.clone())
        }
    }

    fn download(&self, mirror: &str) -> Download {
        let file = |project, version: &str, sum| ReleaseFile {
            project,
            version: version.to_owned(),
            architecture: "testing".to_owned(),
            sum,
        };
        Download {
            mirror: Some(parse_mirror(mirror).unwrap()),
            files: vec![
                file(Project::Etcd, newest().etcd(), sum_of(Sum::Sha256, &self.etcd)),
                file(Project::Kubernetes, newest().kubernetes(), sum_of(Sum::Sha512, &self.kubernetes)),
            ],
            architecture: "testing".to_owned(),
            stall: Duration::from_millis(300),
        }
    }
}

fn install(root: &Path, download: Download) -> Result<Vec<Provided>, Error> {
    let installation = Installation::new(newest(), root, &[], OsStr::new("")).downloading(download);
    installation.run(&|_| ())
}

/// Names of what is in the folder of the version.
fn left(root: &Path) -> Vec<String> {
    let entries = fs::read_dir(root.join(newest().kubernetes())).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn told(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[test]
fn sums_look_like_sums() {
    for file in release::pinned() {
        let length = match &file.sum {
            Sum::Sha256(_) => 64,
            Sum::Sha512(_) => 128,
        };
        let digits = file.sum.digits();
        assert_eq!(digits.len(), length, "{file:?}");
        assert!(
            digits.chars().all(|digit| digit.is_ascii_digit() || ('a'..='f').contains(&digit)),
            "{file:?}"
        );
    }
    // The sums of nothing, as everybody knows them.
    let nothing = sum_of(Sum::Sha256, b"");
    assert_eq!(nothing.digits(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

#[test]
fn files_are_where_their_projects_keep_them() {
    let download = Download { architecture: "amd64".to_owned(), ..Download::new(None).unwrap() };
    let files = download.files(&newest(), &[Project::Etcd, Project::Kubernetes]).unwrap();
    let urls: Vec<_> = files.iter().map(|file| download.url(file).unwrap().to_string()).collect();
    assert_eq!(
        urls,
        [
            "https://github.com/etcd-io/etcd/releases/download/v3.6.4/etcd-v3.6.4-linux-amd64.tar.gz",
            "https://dl.k8s.io/v1.34.1/kubernetes-server-linux-amd64.tar.gz",
        ]
    );
}

#[rstest]
#[case::gnu("gnu")]
#[case::posix("pax")]
#[case::old("ustar")]
fn a_release_is_downloaded_once_and_then_in_the_cache(#[case] format: &'static str) {
    let release = Arc::new(Release::packed(format));
    let served = Arc::clone(&release);
    let host = Host::start(move |path, range| match served.of(path) {
        Some(body) => file(&body, range),
        None => status("404 Not Found"),
    });
    let root = tempfile::tempdir().unwrap();
    let provided = install(root.path(), release.download(&host.url())).unwrap();
    assert_eq!(provided.len(), 5);
    assert!(provided.iter().all(|one| one.origin == Origin::Downloaded), "{provided:?}");
    let expected = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"];
    assert_eq!(left(root.path()), expected);
    assert_eq!(host.ranges(), [None, None]);

    let again = install(root.path(), release.download(&host.url())).unwrap();
    assert!(again.iter().all(|one| one.origin == Origin::Cache), "{again:?}");
    assert_eq!(host.ranges().len(), 2);
}

#[test]
fn a_download_that_broke_off_goes_on_where_it_stopped() {
    let release = Arc::new(Release::packed("gnu"));
    let served = Arc::clone(&release);
    let times = Mutex::new(0);
    let host = Host::start(move |path, range| {
        let body = served.of(path).unwrap();
        let mut times = times.lock().unwrap();
        *times += 1;
        match *times {
            // Says how long it is, stops in the middle, and hangs up or does not.
            1 | 2 => {
                let mut reply = file(&body, range);
                reply.body.truncate(reply.body.len() / 2);
                reply.hangs = *times == 1;
                reply
            }
            _ => file(&body, range),
        }
    });
    let root = tempfile::tempdir().unwrap();
    let stalled = install(root.path(), release.download(&host.url())).unwrap_err();
    assert!(told(&stalled).contains("nothing has come for"), "{}", told(&stalled));
    assert_eq!(left(root.path()), [format!("etcd-{}-linux-testing.tar.gz.fetched", newest().etcd())]);
    let broken = install(root.path(), release.download(&host.url())).unwrap_err();
    assert!(told(&broken).contains("run again to go on"), "{}", told(&broken));

    assert_eq!(install(root.path(), release.download(&host.url())).unwrap().len(), 5);
    let etcd = release.etcd.len() as u64;
    assert_eq!(host.ranges(), [None, Some(etcd / 2), Some(etcd / 2 + (etcd - etcd / 2) / 2), None]);
    assert_eq!(left(root.path()).len(), 5);
}

#[test]
fn whoever_was_stopped_after_the_last_byte_asks_for_nothing() {
    let release = Arc::new(Release::packed("gnu"));
    let served = Arc::clone(&release);
    let host = Host::start(move |path, range| file(&served.of(path).unwrap(), range));
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join(newest().kubernetes());
    fs::create_dir(&folder).unwrap();
    let name = format!("etcd-{}-linux-testing.tar.gz.fetched", newest().etcd());
    fs::write(folder.join(name), &release.etcd).unwrap();
    install(root.path(), release.download(&host.url())).unwrap();
    let asked = host.asked.lock().unwrap();
    assert!(asked.len() == 1 && asked[0].0.contains("kubernetes-server"), "{asked:?}");
}

/// Bytes of somebody else's are here already, and the host has a shorter file.
#[test]
fn a_host_that_cannot_go_on_begins_anew() {
    let release = Arc::new(Release::packed("gnu"));
    let served = Arc::clone(&release);
    let host = Host::start(move |path, range| match range {
        Some(_) => status("416 Range Not Satisfiable"),
        None => whole(&served.of(path).unwrap()),
    });
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join(newest().kubernetes());
    fs::create_dir(&folder).unwrap();
    let name = format!("etcd-{}-linux-testing.tar.gz.fetched", newest().etcd());
    fs::write(folder.join(name), vec![7; release.etcd.len() + 1]).unwrap();
    assert_eq!(install(root.path(), release.download(&host.url())).unwrap().len(), 5);
}

#[test]
fn a_file_with_another_sum_is_refused_and_gone() {
    let release = Arc::new(Release::packed("gnu"));
    let served = Arc::clone(&release);
    let host = Host::start(move |path, _| {
        let mut body = served.of(path).unwrap();
        *body.last_mut().unwrap() ^= 1;
        whole(&body)
    });
    let root = tempfile::tempdir().unwrap();
    let refused = told(&install(root.path(), release.download(&host.url())).unwrap_err());
    assert!(refused.contains("its SHA-256 is ") && refused.contains("it was removed"), "{refused}");
    assert!(left(root.path()).is_empty(), "{:?}", left(root.path()));
}

/// Its length was not told, so nobody noticed before the sum.
#[test]
fn a_file_that_ends_early_is_refused() {
    let release = Arc::new(Release::packed("gnu"));
    let served = Arc::clone(&release);
    let host = Host::start(move |path, _| {
        let mut body = served.of(path).unwrap();
        body.truncate(body.len() / 2);
        Reply { head: "200 OK".to_owned(), body, hangs: false }
    });
    let root = tempfile::tempdir().unwrap();
    let refused = told(&install(root.path(), release.download(&host.url())).unwrap_err());
    assert!(refused.contains("its SHA-256 is "), "{refused}");
    assert!(left(root.path()).is_empty(), "{:?}", left(root.path()));
}

#[test]
fn a_release_of_another_version_is_refused_before_anything_is_in_its_place() {
    let etcd = pack(Project::Etcd, "0.0.1", "gnu");
    let release = Arc::new(Release { etcd, kubernetes: Vec::new() });
    let served = Arc::clone(&release);
    let host = Host::start(move |path, range| file(&served.of(path).unwrap(), range));
    let root = tempfile::tempdir().unwrap();
    let refused = told(&install(root.path(), release.download(&host.url())).unwrap_err());
    assert!(
        refused.ends_with("etcd of the release does not say that it is v3.6.4: etcd Version: 0.0.1\n"),
        "{refused}"
    );
    assert!(!left(root.path()).contains(&"etcd".to_owned()), "{:?}", left(root.path()));
}

#[test]
fn an_archive_without_the_programs_is_refused() {
    let etcd = pack(Project::Kubernetes, "v0.0.1", "gnu");
    let release = Arc::new(Release { etcd, kubernetes: Vec::new() });
    let served = Arc::clone(&release);
    let host = Host::start(move |path, range| file(&served.of(path).unwrap(), range));
    let root = tempfile::tempdir().unwrap();
    let refused = told(&install(root.path(), release.download(&host.url())).unwrap_err());
    assert!(refused.ends_with("there is no `etcd-v3.6.4-linux-testing/etcd` in it"), "{refused}");
}

#[test]
fn redirects_are_followed_to_a_point() {
    let release = Arc::new(Release::packed("gnu"));
    let served = Arc::clone(&release);
    let host = Host::start(move |path, range| match path.strip_prefix("/elsewhere") {
        Some(path) => file(&served.of(path).unwrap(), range),
        None => status(&format!("302 Found\r\nlocation: /elsewhere{path}?signature=secret")),
    });
    let root = tempfile::tempdir().unwrap();
    assert_eq!(install(root.path(), release.download(&host.url())).unwrap().len(), 5);

    let circle = Host::start(|path, _| status(&format!("302 Found\r\nlocation: {path}")));
    let root = tempfile::tempdir().unwrap();
    let refused = told(&install(root.path(), release.download(&circle.url())).unwrap_err());
    assert!(refused.contains("after others had done the same"), "{refused}");
    assert_eq!(circle.ranges().len(), 6);
}

#[rstest]
#[case("http://192.0.2.1/file", "which is not safe")]
#[case("ftp://127.0.0.1/file", "which is not safe")]
#[case("http://[", "which is no address")]
fn nobody_is_followed_to_where_it_is_not_safe(#[case] location: &'static str, #[case] why: &str) {
    let release = Release::packed("gnu");
    let host = Host::start(move |_, _| status(&format!("302 Found\r\nlocation: {location}")));
    let root = tempfile::tempdir().unwrap();
    let refused = told(&install(root.path(), release.download(&host.url())).unwrap_err());
    assert!(refused.contains(why), "{refused}");
}

#[test]
fn a_host_that_does_not_have_it_or_is_not_there_is_told() {
    let release = Release::packed("gnu");
    let host = Host::start(|_, _| status("404 Not Found"));
    let root = tempfile::tempdir().unwrap();
    let refused = told(&install(root.path(), release.download(&host.url())).unwrap_err());
    assert!(refused.contains("the host answered 404"), "{refused}");
    assert_eq!(host.ranges().len(), 1);

    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = told(&install(root.path(), release.download(&format!("http://{nobody}"))).unwrap_err());
    assert!(refused.contains("the host does not answer"), "{refused}");
}

#[test]
fn what_has_no_sum_is_refused_before_anything_is_asked_for() {
    let host = Host::start(|_, _| status("404 Not Found"));
    let root = tempfile::tempdir().unwrap();
    let older = Version::find(Some("1.33")).unwrap();
    let mut download = Download::new(Some(&host.url())).unwrap();
    download.architecture = "amd64".to_owned();
    let install = |version, download| {
        Installation::new(version, root.path(), &[], OsStr::new("")).downloading(download).run(&|_| ())
    };
    let refused = told(&install(older, download.clone()).unwrap_err());
    assert!(refused.contains("no checksum of Kubernetes v1.33.13 for amd64"), "{refused}");
    assert!(refused.contains("without --download it is built"), "{refused}");
    download.architecture = "riscv64".to_owned();
    let refused = told(&install(newest(), download).unwrap_err());
    assert!(refused.contains("for riscv64"), "{refused}");
    assert!(host.ranges().is_empty());
}

#[test]
fn two_runs_at_once_do_not_write_one_file() {
    let release = Release::packed("gnu");
    let host = Host::start(|_, _| status("404 Not Found"));
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join(newest().kubernetes());
    fs::create_dir(&folder).unwrap();
    let name = format!("etcd-{}-linux-testing.tar.gz.fetched", newest().etcd());
    let held = File::create(folder.join(name)).unwrap();
    held.lock().unwrap();
    let refused = told(&install(root.path(), release.download(&host.url())).unwrap_err());
    assert!(refused.contains("another run is downloading it"), "{refused}");
}

#[rstest]
#[case("http://mirror.example/kubernetes")]
#[case("ftp://127.0.0.1/")]
#[case("mirror")]
fn mirrors_are_named_by_a_safe_address(#[case] mirror: &str) {
    let refused = told(&Download::new(Some(mirror)).unwrap_err());
    assert!(
        refused.contains(&format!("`{mirror}`")) && refused.ends_with("http on the loopback"),
        "{refused}"
    );
}
