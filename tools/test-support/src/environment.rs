//! Environment variables that steer the tests. They are set by `./test`; by hand they are rarely needed.

use std::env;

/// When set, a missing program or server fails the test that needs it. Otherwise that test is skipped.
pub const REQUIRE: &str = "PILOTHOUSE_TEST_REQUIRE";

/// Names a file to which every skipped test appends one line, so that skips can be counted.
pub const SKIPS: &str = "PILOTHOUSE_TEST_SKIPS";

/// Names a file to which every component that was made to fall appends one line.
pub const FALLS: &str = "PILOTHOUSE_TEST_FALLS";

/// When set, loops that are bounded in the default run are long: soak, fault matrices, scale.
pub const LONG: &str = "PILOTHOUSE_TEST_LONG";

/// Marks a process started by [`child_of_this_test`](crate::process::child_of_this_test) and names the test.
pub const CHILD: &str = "PILOTHOUSE_TEST_CHILD";

/// Names the folder of the Python environments, where it is not the one of the cache.
pub const PYTHON: &str = "PILOTHOUSE_TEST_PYTHON";

/// Names the folder of Kubernetes' own programs, where it is not the one of the cache: one folder per version in it.
pub const UPSTREAM: &str = "PILOTHOUSE_TEST_UPSTREAM";

/// Names the folder of the original Maestro, where it is not the one of the cache: one folder per version in it.
pub const MAESTRO: &str = "PILOTHOUSE_TEST_MAESTRO";

/// The same for Helm.
pub const HELM: &str = "PILOTHOUSE_TEST_HELM";

/// Whether this is a long run, `./test --long`.
pub fn is_long() -> bool {
    is_set(LONG)
}

/// Picks the number of rounds of a loop: `sample` in the default run, `long` under `./test --long`.
pub fn rounds(sample: usize, long: usize) -> usize {
    if is_long() { long } else { sample }
}

/// Whether a switch is on. An empty value counts as off, because that is what `VAR= command` means to a reader.
pub(crate) fn is_set(name: &str) -> bool {
    env::var_os(name).is_some_and(|value| !value.is_empty())
}
