//! What tests and benchmarks need from outside the process under test: private servers, child processes that
//! may be killed, and waiting on conditions.
//!
//! Three rules hold for everything here:
//!
//! - **Nothing is shared with the machine.** A server listens on a free port of the loopback interface, keeps its
//!   data in a temporary folder, and is never one that was already running.
//! - **Nothing is left behind.** Whatever was started stops with the guard that owns it, and, should the test
//!   process be killed, with the process: the kernel delivers the signal, so not even `kill -9` leaves a server.
//!   Its folder is then removed by whoever starts the next one.
//! - **Nothing is skipped in silence.** A test that needs a program the machine lacks says so in one line and
//!   passes; under `./test`, which installs those programs, it fails instead. See [`requirement`].
//!
//! ```no_run
//! # use pilothouse_test_support::postgres;
//! #[test]
//! fn documents_survive_a_restart() {
//!     let Some(server) = postgres::shared() else { return };
//!     let url = server.fresh_database();
//!     // …
//! }
//! ```

pub mod engine;
pub mod environment;
pub mod eventually;
pub mod falls;
pub mod haproxy;
pub mod helm;
pub mod maestro;
pub mod modules;
pub mod mosquitto;
pub mod postgres;
pub mod process;
pub mod python;
pub mod requirement;
pub mod upstream;

mod keeper;
mod original;

pub use engine::Engine;
pub use eventually::eventually;
