//! The verbs, one file each: its `Args`, whose doc comment is the help text, and a `run` that carries it out.

pub mod completions;
pub mod store;
pub mod version;
