//! With plain folders in the place of the kernel's.

use super::*;

fn amounts() -> Amounts {
    Amounts { memory: Some(64 << 20), limit: Some(500), shares: 256, processes: Some(100), whole: true }
}

#[test]
fn limits_of_the_second_version_are_written_as_its_files_want_them() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("cgroup.controllers"), "cpuset cpu io memory pids\n").unwrap();
    let parent = Group::of_second_version(folder.path().into());
    parent.delegate().unwrap();
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(read("cgroup.subtree_control"), "+memory +cpu +pids");
    let group = parent.child("one");
    group.make().unwrap();
    group.make().unwrap();
    for file in ["memory.swap.max", "memory.oom.group"] {
        fs::write(folder.path().join("one").join(file), "").unwrap();
    }
    group.limit(&amounts()).unwrap();
    for (file, expected) in [
        ("one/memory.max", "67108864"),
        ("one/memory.swap.max", "0"),
        ("one/memory.oom.group", "1"),
        ("one/cpu.max", "50000 100000"),
        ("one/cpu.weight", "10"),
        ("one/pids.max", "100"),
    ] {
        assert_eq!(read(file), expected, "{file}");
    }
    for (times, weight) in [(1, "100"), (2, "200"), (256, "10000")] {
        group.weigh(times).unwrap();
        assert_eq!(read("one/cpu.weight"), weight, "{times} processors");
    }
    group.limit(&Amounts::default()).unwrap();
    assert_eq!((read("one/memory.max"), read("one/cpu.max")), ("max".to_owned(), "max 100000".to_owned()));
    group.join().unwrap();
    assert_eq!(read("one/cgroup.procs"), "0");

    fs::write(folder.path().join("one/memory.events"), "low 0\noom 2\noom_kill 3\noom_group_kill 1\n")
        .unwrap();
    assert_eq!(group.kills(), 3);
    for (file, text) in [
        ("memory.current", "5000\n"),
        ("memory.stat", "anon 3000\nfile 2000\ninactive_file 1500\n"),
        ("cpu.stat", "usage_usec 7\nuser_usec 5\n"),
        ("pids.current", "4\n"),
    ] {
        fs::write(folder.path().join("one").join(file), text).unwrap();
    }
    let memory = Memory { usage: 5000, working_set: 3500, resident: 3000 };
    assert_eq!(group.usage(), Some(Usage { processor: 7000, memory, processes: 4 }));
}

#[test]
fn a_group_of_the_first_version_is_in_a_folder_per_controller() {
    let folder = tempfile::tempdir().unwrap();
    let mut parent = Group::of_first_version();
    for controller in Controller::ALL {
        fs::create_dir(folder.path().join(controller.name())).unwrap();
        parent.add(controller, folder.path().join(controller.name()));
    }
    // What cannot be made is left out, and the rest goes on.
    fs::remove_dir(folder.path().join("cpuacct")).unwrap();
    let group = parent.child("one").make_what_can_be().unwrap();
    assert!(group.has(Controller::Memory) && group.has(Controller::Cpu) && !group.has(Controller::Cpuacct));
    fs::write(folder.path().join("memory/one/memory.memsw.limit_in_bytes"), "").unwrap();
    group.limit(&Amounts { processes: None, ..amounts() }).unwrap();
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    for (file, expected) in [
        ("memory/one/memory.limit_in_bytes", "67108864"),
        ("memory/one/memory.memsw.limit_in_bytes", "67108864"),
        ("cpu/one/cpu.shares", "256"),
        ("cpu/one/cpu.cfs_quota_us", "50000"),
    ] {
        assert_eq!(read(file), expected, "{file}");
    }
    group.weigh(2).unwrap();
    assert_eq!(read("cpu/one/cpu.shares"), "2048");
    let shown = group.child("inner").shown();
    assert!(shown.contains(&(folder.path().join("memory/one/inner"), "/memory".to_owned())), "{shown:?}");
}

#[test]
fn groups_are_removed_from_the_inside_out() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("node")).unwrap();
    let mut node = Group::of_first_version();
    node.add(Controller::Memory, folder.path().join("node"));
    for path in ["pod1", "pod1/shim", "pod1/container:main", "pod1/container:main/inner"] {
        node.child(path).make().unwrap();
    }
    assert_eq!(node.children().into_iter().collect::<Vec<_>>(), ["pod1"]);
    assert!(node.exists());
    node.remove().unwrap();
    assert!(!node.exists());
    node.remove().unwrap();
}
