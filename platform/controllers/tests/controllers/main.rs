//! The controllers over a live API server. There is no kubelet: the test says what pods do.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod adoption;
mod deletion;
mod jobs;
mod joining;
mod nodes;
mod real;
mod scheduling;
mod services;
mod support;
mod workloads;
