use std::collections::BTreeMap;

use pilothouse_arm::{ApiVersion, ResourceId, SystemData};
use serde_json::{Map, Value};

use crate::forms::Kind;
use crate::invalid::{Invalid, Problems};
use crate::wire::{InEnvelope, Tracked, Wire, json};
use crate::{
    forms, hub, merge, v2024_06_10_preview, v2025_12_23_preview, v2026_06_30_preview, v2026_09_01_preview,
    v2026_10_01, validate, wire, zero,
};

/// A version of the contract that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// `2024-06-10-preview`.
    V20240610Preview,
    /// `2025-12-23-preview`.
    V20251223Preview,
    /// `2026-06-30-preview`.
    V20260630Preview,
    /// `2026-09-01-preview`.
    V20260901Preview,
    /// `2026-10-01`.
    V20261001,
}

/// What a region asks for beyond the form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Whether a cluster must say under which identities its operators act.
    pub operator_identities: bool,
    /// Whether the subscription may ask for what is not for everybody yet.
    pub experimental: bool,
}

/// What a request is about, and what is there already.
#[derive(Debug)]
pub struct Target<'a, T> {
    /// The resource, as the request spells it; that becomes the spelling that is shown.
    pub id: ResourceId,
    /// The region of the service; what a body says about it is ignored.
    pub location: String,
    /// What is stored.
    pub existing: Option<&'a T>,
    /// What is asked for beyond the form.
    pub rules: Rules,
}

/// Does something with the wire type of a resource in some version.
macro_rules! with_wire {
    ($version:expr, $resource:ident, $function:ident($($argument:expr),*)) => {
        match $version {
            Version::V20240610Preview => $function::<v2024_06_10_preview::$resource>($($argument),*),
            Version::V20251223Preview => $function::<v2025_12_23_preview::$resource>($($argument),*),
            Version::V20260630Preview => $function::<v2026_06_30_preview::$resource>($($argument),*),
            Version::V20260901Preview => $function::<v2026_09_01_preview::$resource>($($argument),*),
            Version::V20261001 => $function::<v2026_10_01::$resource>($($argument),*),
        }
    };
}
pub(crate) use with_wire;

impl Default for Rules {
    /// Everything that can be required is, and nothing experimental is allowed.
    fn default() -> Self {
        Self { operator_identities: true, experimental: false }
    }
}

impl Version {
    /// All that are served, oldest first.
    pub const ALL: [Self; 5] = [
        Self::V20240610Preview,
        Self::V20251223Preview,
        Self::V20260630Preview,
        Self::V20260901Preview,
        Self::V20261001,
    ];

    /// The version of this date, if it is served.
    pub fn of(version: ApiVersion) -> Option<Self> {
        Self::ALL.into_iter().find(|served| served.api_version() == version)
    }

    /// Its date.
    pub const fn api_version(self) -> ApiVersion {
        match self {
            Self::V20240610Preview => ApiVersion::preview(2024, 6, 10),
            Self::V20251223Preview => ApiVersion::preview(2025, 12, 23),
            Self::V20260630Preview => ApiVersion::preview(2026, 6, 30),
            Self::V20260901Preview => ApiVersion::preview(2026, 9, 1),
            Self::V20261001 => ApiVersion::release(2026, 10, 1),
        }
    }

    /// A cluster from the body of a PUT.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn cluster_put(
        self,
        body: &[u8],
        target: &Target<'_, hub::Cluster>,
    ) -> Result<hub::Cluster, Invalid> {
        self.cluster_take(wire::parse(body)?, target, Problems::default())
    }

    /// A cluster from the body of a PATCH: a merge patch on what this version shows of it.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn cluster_patch(
        self,
        body: &[u8],
        target: &Target<'_, hub::Cluster>,
    ) -> Result<hub::Cluster, Invalid> {
        let stored = target.existing.map(|stored| self.cluster_view(stored));
        let (body, problems) = self.patched(Kind::Cluster, body, stored)?;
        self.cluster_take(body, target, problems)
    }

    /// A cluster as this version shows it.
    pub fn cluster_write(self, cluster: &hub::Cluster) -> Value {
        self.shown(self.cluster_view(cluster))
    }

    /// A node pool from the body of a PUT. `cluster` is the one it belongs to.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn node_pool_put(
        self,
        body: &[u8],
        target: &Target<'_, hub::NodePool>,
        cluster: &hub::Cluster,
    ) -> Result<hub::NodePool, Invalid> {
        self.node_pool_take(wire::parse(body)?, target, cluster, Problems::default())
    }

    /// A node pool from the body of a PATCH: a merge patch on what this version shows of it.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn node_pool_patch(
        self,
        body: &[u8],
        target: &Target<'_, hub::NodePool>,
        cluster: &hub::Cluster,
    ) -> Result<hub::NodePool, Invalid> {
        let stored = target.existing.map(|stored| self.node_pool_view(stored));
        let (body, problems) = self.patched(Kind::NodePool, body, stored)?;
        self.node_pool_take(body, target, cluster, problems)
    }

    /// A node pool as this version shows it.
    pub fn node_pool_write(self, node_pool: &hub::NodePool) -> Value {
        self.shown(self.node_pool_view(node_pool))
    }

    /// An external authentication from the body of a PUT.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn external_auth_put(
        self,
        body: &[u8],
        target: &Target<'_, hub::ExternalAuth>,
    ) -> Result<hub::ExternalAuth, Invalid> {
        self.external_auth_take(wire::parse(body)?, target, Problems::default())
    }

    /// An external authentication from the body of a PATCH: a merge patch on what this version shows of it.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn external_auth_patch(
        self,
        body: &[u8],
        target: &Target<'_, hub::ExternalAuth>,
    ) -> Result<hub::ExternalAuth, Invalid> {
        let stored = target.existing.map(|stored| self.external_auth_view(stored));
        let (body, problems) = self.patched(Kind::ExternalAuth, body, stored)?;
        self.external_auth_take(body, target, problems)
    }

    /// An external authentication as this version shows it.
    pub fn external_auth_write(self, external_auth: &hub::ExternalAuth) -> Value {
        self.shown(self.external_auth_view(external_auth))
    }

    /// A version of OpenShift as this version of the contract shows it.
    pub fn open_shift_version_write(self, version: &hub::OpenShiftVersion) -> Value {
        let properties = v2024_06_10_preview::OpenShiftVersionProperties::write(version);
        self.shown(json(&v2024_06_10_preview::OpenShiftVersion::of(&version.id, properties)))
    }

    /// What operators need, as this version shows it.
    pub fn role_set_write(self, set: &hub::OperatorRoleSet) -> Value {
        let properties = v2024_06_10_preview::RoleSetProperties::write(set);
        json(&v2024_06_10_preview::RoleSet::of(&set.id, properties))
    }

    /// What is asked for with `requestAdminCredential`: nothing in particular before `2026-09-01-preview`, a
    /// certificate for a key of the caller's from then on.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn credential_request(self, body: &[u8]) -> Result<hub::CredentialRequest, Invalid> {
        if self < Self::V20260901Preview {
            return Ok(hub::CredentialRequest::default());
        }
        // Without a body nothing was said, which is not the same as saying something malformed.
        let mut body = if body.is_empty() { Value::Object(Map::new()) } else { wire::parse(body)? };
        let mut problems = Problems::default();
        forms::of(self, Kind::Credential).check(&mut body, &[], &mut problems);
        problems.form_is_checked();
        let request = match body {
            Value::Object(_) => wire::convert::<v2026_09_01_preview::CredentialRequest>(body)?.read(),
            _ => hub::CredentialRequest::default(),
        };
        if let Some(pem) = &request.certificate_signing_request {
            validate::certificate_signing_request(pem, &mut problems);
        }
        problems.finish(request)
    }

    /// A way into a cluster, as every version shows it.
    pub fn credential_write(self, credential: &hub::Credential) -> Value {
        json(&v2024_06_10_preview::Credential::write(credential))
    }

    fn cluster_take(
        self,
        body: Value,
        target: &Target<'_, hub::Cluster>,
        mut problems: Problems,
    ) -> Result<hub::Cluster, Invalid> {
        let view = |cluster: &hub::Cluster| self.cluster_view(cluster);
        let excused = validate::excused(target);
        let request = Request { version: self, kind: Kind::Cluster, body, excused: &excused };
        let cluster = with_wire!(self, Cluster, take(request, target, &view, &mut problems))?;
        validate::cluster(self, &cluster, target, &mut problems);
        problems.finish(cluster)
    }

    fn cluster_view(self, cluster: &hub::Cluster) -> Value {
        with_wire!(self, Cluster, view(cluster))
    }

    fn node_pool_take(
        self,
        body: Value,
        target: &Target<'_, hub::NodePool>,
        cluster: &hub::Cluster,
        mut problems: Problems,
    ) -> Result<hub::NodePool, Invalid> {
        let view = |node_pool: &hub::NodePool| self.node_pool_view(node_pool);
        let request = Request {
            version: self,
            kind: Kind::NodePool,
            body,
            excused: validate::excused_node_pool(target),
        };
        let node_pool = with_wire!(self, NodePool, take(request, target, &view, &mut problems))?;
        validate::node_pool(&node_pool, target, cluster, &mut problems);
        problems.finish(node_pool)
    }

    fn node_pool_view(self, node_pool: &hub::NodePool) -> Value {
        with_wire!(self, NodePool, view(node_pool))
    }

    fn external_auth_take(
        self,
        body: Value,
        target: &Target<'_, hub::ExternalAuth>,
        mut problems: Problems,
    ) -> Result<hub::ExternalAuth, Invalid> {
        let view = |external_auth: &hub::ExternalAuth| self.external_auth_view(external_auth);
        let request = Request { version: self, kind: Kind::ExternalAuth, body, excused: &[] };
        let external_auth = with_wire!(self, ExternalAuth, take(request, target, &view, &mut problems))?;
        validate::external_auth(&external_auth, target.existing.is_none(), &mut problems);
        problems.finish(external_auth)
    }

    fn external_auth_view(self, external_auth: &hub::ExternalAuth) -> Value {
        with_wire!(self, ExternalAuth, view(external_auth))
    }

    /// A view as it is sent.
    fn shown(self, mut view: Value) -> Value {
        if self.omits_zeros() {
            zero::omit(&mut view["properties"]);
        }
        view
    }

    pub(crate) fn omits_zeros(self) -> bool {
        self == Self::V20240610Preview
    }

    /// What a patch makes of what is stored. Tags are replaced as a whole, as ARM wants it; everything else merges.
    fn patched(self, kind: Kind, body: &[u8], stored: Option<Value>) -> Result<(Value, Problems), Invalid> {
        let patch = wire::parse(body)?;
        let mut problems = Problems::default();
        if !patch.is_object() {
            return Ok((patch, problems));
        }
        forms::of(self, kind).check_nulls(&patch, &mut problems);
        let mut merged = stored.unwrap_or_default();
        merge::merge(&mut merged, &patch);
        if let Some(tags) = patch.get("tags") {
            // `null` removes all of them; left out, they would be kept.
            merged["tags"] = if tags.is_null() { Value::Object(Map::new()) } else { tags.clone() };
        }
        Ok((merged, problems))
    }
}

/// A body, and what it is to be.
struct Request<'a> {
    version: Version,
    kind: Kind,
    body: Value,
    excused: &'a [&'a str],
}

/// Checks the form of a body, converts it, and compares it with what is stored.
fn take<W: Wire>(
    request: Request<'_>,
    target: &Target<'_, W::Hub>,
    view: &dyn Fn(&W::Hub) -> Value,
    problems: &mut Problems,
) -> Result<W::Hub, Invalid> {
    let Request { version, kind, mut body, excused } = request;
    let stored = target.existing.map(view);
    if let Value::Object(members) = &mut body {
        // Nothing said about the properties is the same as nothing said in them.
        let properties = members.entry("properties").or_insert(Value::Null);
        if properties.is_null() {
            *properties = Value::Object(Map::new());
        }
        if let Some(stored) = stored.as_ref().filter(|_| version.omits_zeros()) {
            zero::restore(properties, &stored["properties"]);
        }
    }
    let form = forms::of(version, kind);
    form.check(&mut body, excused, problems);
    problems.form_is_checked();
    if !body.is_object() {
        // Nothing in it can be looked at.
        return Err(std::mem::take(problems).finish(()).err().unwrap_or(Invalid(Vec::new())));
    }
    let resource = wire::convert::<W>(body)?.read(target, problems);
    if let Some(stored) = stored {
        form.check_fixed(&view(&resource), &stored, problems);
    }
    Ok(resource)
}

fn view<W: Wire>(resource: &W::Hub) -> Value {
    json(&W::write(resource))
}

// === envelopes ===

macro_rules! in_envelope {
    ($resource:ident, $spec:ident, $status:ident) => {
        impl InEnvelope for hub::$resource {
            type Spec = hub::$spec;
            type Status = hub::$status;

            fn id(&self) -> &ResourceId {
                &self.id
            }

            fn system_data(&self) -> &SystemData {
                &self.system_data
            }

            fn spec(&self) -> &hub::$spec {
                &self.spec
            }

            fn status(&self) -> &hub::$status {
                &self.status
            }
        }
    };
}

macro_rules! tracked {
    ($resource:ident) => {
        impl Tracked for hub::$resource {
            fn location(&self) -> &str {
                &self.location
            }

            fn tags(&self) -> &BTreeMap<String, String> {
                &self.tags
            }

            fn identity(&self) -> Option<&hub::Identity> {
                self.identity.as_ref()
            }

            fn made(
                target: &Target<'_, Self>,
                tags: Option<BTreeMap<String, String>>,
                identity: Option<hub::Identity>,
                spec: Self::Spec,
            ) -> Self {
                let existing = target.existing;
                let known = existing.and_then(|stored| stored.identity.as_ref());
                Self {
                    id: target.id.clone(),
                    location: existing.map_or(&target.location, |stored| &stored.location).clone(),
                    tags: tags.or_else(|| existing.map(|stored| stored.tags.clone())).unwrap_or_default(),
                    system_data: existing.map(|stored| stored.system_data.clone()).unwrap_or_default(),
                    identity: identity.map(|identity| identity.keeping(known)),
                    spec,
                    status: existing.map(|stored| stored.status.clone()).unwrap_or_default(),
                }
            }
        }
    };
}

in_envelope!(Cluster, ClusterSpec, ClusterStatus);
in_envelope!(NodePool, NodePoolSpec, NodePoolStatus);
in_envelope!(ExternalAuth, ExternalAuthSpec, ExternalAuthStatus);
tracked!(Cluster);
tracked!(NodePool);
