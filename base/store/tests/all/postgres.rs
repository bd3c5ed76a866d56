//! Faults that only a server can have: it restarts, connections are cut, another process is slow, and there are
//! many writers.

mod doubt;
mod late_commit;
mod plans;
mod replicas;
mod restarts;
