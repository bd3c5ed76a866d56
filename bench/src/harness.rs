//! What every benchmark needs: samples, comparisons in one run, figures with budgets, and printing them.

mod catalogue;
mod compare;
mod disk;
mod figure;
mod folder;
mod interruption;
mod memory;
mod output;
mod processes;
pub(crate) mod processor;
mod program;
mod progress;
mod report;
mod samples;
mod size;

pub(crate) use catalogue::Catalogue;
pub(crate) use compare::{Comparison, in_turns};
pub(crate) use disk::flush_rate;
pub(crate) use figure::{Budget, Figure};
pub(crate) use folder::{Folder, file_system};
pub(crate) use interruption::interruption;
pub(crate) use memory::{Memory, Rest, resident};
pub(crate) use output::{Format, Render, table};
pub(crate) use processes::{Process, SHIM};
pub(crate) use program::{PILOTHOUSE, Program, is_pilothouse};
pub(crate) use progress::Progress;
pub(crate) use report::Report;
pub(crate) use samples::Samples;
pub(crate) use size::Size;
