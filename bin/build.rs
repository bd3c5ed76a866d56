//! How the program is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // At a fixed address: see docs/decisions/0015-many-small-processes.md.
    if std::env::var("TARGET").is_ok_and(|target| target.ends_with("-linux-gnu")) {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
