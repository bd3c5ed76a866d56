//! The original on one side, ours on the other: the same story has to come out, whoever tells which part of it.

mod packets;
mod programs;
mod source;
mod story;
