//! An authoritative name server for the names of a region's clusters.
//!
//! Clusters Service makes a zone for every cluster, `first.pilothouse.test`, and has the region's zone delegate to it. This
//! server answers from those zones, as they are kept by the cloud: it follows them by watch, so a record can be asked for as
//! soon as it is stored, and taking in a change costs as much however many clusters there are.
//!
//! * `source`: where zones and record sets come from, and how changes arrive;
//! * `directory`: what is known, by name;
//! * `zone`: one zone and its records, as they are sent;
//! * `lookup`: what there is to say about a question;
//! * `service`: following, and answering.
//!
//! **A zone counts if it is delegated to**, beginning at the region's own. Anybody may make a zone of any name in his own
//! resource group; its name servers are its own, and until the zone above names them nobody is led there. Names that are not
//! below the region's domain are refused: nothing is looked up elsewhere on anybody's behalf.
//!
//! # Tasks
//!
//! `follow` (the records), and those of [`pilothouse_nameserver`].

mod config;
mod directory;
mod error;
mod lookup;
mod metrics;
mod service;
mod source;
mod zone;

pub use config::Config;
pub use error::Error;
pub use service::{Deps, Service};
pub use source::{Change, News, Source, SourceError};
