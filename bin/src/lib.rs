//! The two commands: `pilothouse`, which runs and looks after a region, and `hcp`, which asks one for clusters.
//!
//! A command line is parsed by [`pilothouse`] or [`hcp`], each of which nests the verbs of [`commands`], one file
//! per verb. A verb writes its data through [`Output`] to standard output, everything else goes to standard error,
//! and a [`Failure`] ends with a hint. The verbs hold no logic of their own: they call the crate that does.
//!
//! Exit codes: 0 done, 1 failed, 2 the command line was not understood.

pub mod commands;
pub mod hcp;
pub mod pilothouse;

mod failure;
mod output;

pub use failure::{Failure, Hint, exit_code};
pub use output::{Format, Output, OutputArgs, Render};
