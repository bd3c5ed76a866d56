//! The forms of all requests in all versions, read once.

use std::collections::HashMap;
use std::sync::LazyLock;

use schemars::JsonSchema;

use crate::schema::Form;
use crate::version::{Version, with_wire};
use crate::{
    v2024_06_10_preview, v2025_12_23_preview, v2026_06_30_preview, v2026_09_01_preview, v2026_10_01,
};

/// What a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Cluster,
    NodePool,
    ExternalAuth,
    Credential,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Cluster, Self::NodePool, Self::ExternalAuth, Self::Credential];
}

static FORMS: LazyLock<HashMap<(Version, Kind), Form>> = LazyLock::new(|| {
    let all = Version::ALL.into_iter().flat_map(|version| Kind::ALL.map(|kind| (version, kind)));
    all.map(|(version, kind)| ((version, kind), read(version, kind))).collect()
});

fn read(version: Version, kind: Kind) -> Form {
    match kind {
        Kind::Cluster => with_wire!(version, Cluster, form()),
        Kind::NodePool => with_wire!(version, NodePool, form()),
        Kind::ExternalAuth => with_wire!(version, ExternalAuth, form()),
        // Versions before the one that made it ask for nothing.
        Kind::Credential => form::<v2026_09_01_preview::CredentialRequest>(),
    }
}

fn form<W: JsonSchema>() -> Form {
    Form::of::<W>()
}

/// What requests of this kind look like in this version.
pub(crate) fn of(version: Version, kind: Kind) -> &'static Form {
    &FORMS[&(version, kind)]
}
