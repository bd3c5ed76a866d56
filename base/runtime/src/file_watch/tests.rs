use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;
use tokio::time::{Instant, timeout};

use super::*;

/// Less than it takes to look without having been told.
const PATIENCE: Duration = Duration::from_secs(20);

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

async fn told(watch: &mut FileWatch) {
    timeout(PATIENCE, watch.changed()).await.unwrap();
}

#[tokio::test]
async fn written_replaced_removed_and_new_files_are_told_of_and_others_are_not() {
    let folder = folder();
    let file = folder.path().join("gateway.toml");
    let mut watch = FileWatch::new([file.clone()]);
    fs::write(&file, "one").unwrap();
    told(&mut watch).await;
    fs::write(&file, "two").unwrap();
    told(&mut watch).await;
    fs::write(folder.path().join("new"), "three").unwrap();
    let told_of = watch.told.as_ref().unwrap();
    let events = told_of.inotify.read_events().unwrap();
    assert!(
        !events.is_empty() && !events.iter().any(|event| told_of.concerns(event)),
        "that is another file"
    );
    fs::rename(folder.path().join("new"), &file).unwrap();
    told(&mut watch).await;
    fs::remove_file(&file).unwrap();
    told(&mut watch).await;
}

/// As Kubernetes does it: the file is a link into `..data`, which is a link to a folder of this moment.
#[tokio::test]
async fn mounted_files_are_told_of_each_time_they_are_exchanged() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let publish = |moment: &str| {
        fs::create_dir(at(moment)).unwrap();
        fs::write(at(moment).join("gateway.toml"), moment).unwrap();
        symlink(moment, at("..data_tmp")).unwrap();
        fs::rename(at("..data_tmp"), at("..data")).unwrap();
    };
    publish("..first");
    symlink("..data/gateway.toml", at("gateway.toml")).unwrap();
    let mut watch = FileWatch::new([at("gateway.toml")]);
    for (former, moment) in [("..first", "..second"), ("..second", "..third")] {
        publish(moment);
        told(&mut watch).await;
        assert_eq!(fs::read_to_string(at("gateway.toml")).unwrap(), moment);
        fs::remove_dir_all(at(former)).unwrap();
    }
    // Also in the folder that it is in by now.
    fs::write(at("..third").join("gateway.toml"), "other").unwrap();
    told(&mut watch).await;
}

#[tokio::test]
async fn links_are_followed_wherever_they_are_on_the_way() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    for release in ["first", "second"] {
        fs::create_dir_all(at("releases").join(release)).unwrap();
        fs::write(at("releases").join(release).join("gateway.toml"), release).unwrap();
    }
    symlink(at("releases").join("first"), at("current")).unwrap();
    let mut watch = FileWatch::new([at("releases/../current/gateway.toml")]);
    fs::remove_file(at("current")).unwrap();
    told(&mut watch).await;
    symlink("releases/second", at("current")).unwrap();
    told(&mut watch).await;
    fs::write(at("releases/second/gateway.toml"), "third").unwrap();
    told(&mut watch).await;
    // A circle leads nowhere, and ends.
    fs::remove_file(at("current")).unwrap();
    symlink("current", at("current")).unwrap();
    assert!(!entries(&at("current/gateway.toml")).is_empty());
}

#[tokio::test(start_paused = true)]
async fn without_being_told_files_are_looked_at_once_a_minute() {
    let start = Instant::now();
    let mut watch = FileWatch::new([PathBuf::from("/nonexistent/folder/gateway.toml")]);
    watch.changed().await;
    watch.changed().await;
    assert_eq!(start.elapsed(), 2 * REPAIR);
}
