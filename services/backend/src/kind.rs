use pilothouse_arm::ResourceId;

/// What an operation is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Cluster,
    NodePool,
    ExternalAuth,
}

impl Kind {
    pub(crate) fn of(resource: &ResourceId) -> Self {
        let last = resource.resource_type();
        let last = last.as_str().rsplit('/').next().unwrap_or_default();
        if last.eq_ignore_ascii_case(pilothouse_api::NODE_POOLS) {
            Self::NodePool
        } else if last.eq_ignore_ascii_case(pilothouse_api::EXTERNAL_AUTHS) {
            Self::ExternalAuth
        } else {
            Self::Cluster
        }
    }
}
