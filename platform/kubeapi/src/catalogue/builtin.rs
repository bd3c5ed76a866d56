//! The kinds that are served without a definition.

use super::{Resource, Scale, Subresource, Text};

/// What every stored kind can do.
const ALL: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// The same without the deletion of all at once.
const ONE_BY_ONE: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
/// Reviews: a question is posted and answered, nothing is stored.
pub(super) const CREATE_ONLY: &[&str] = &["create"];
/// A view of the parent that can be read and written.
pub(super) const READ_WRITE: &[&str] = &["get", "patch", "update"];
const UPDATE_ONLY: &[&str] = &["update"];
const GET_ONLY: &[&str] = &["get"];
/// What is computed for whoever asks.
pub(super) const GET_AND_LIST: &[&str] = &["get", "list"];
/// A connection, as old clients and as new ones ask for it.
const CONNECT: &[&str] = &["create", "get"];
/// A connection that carries any request.
const PROXY: &[&str] = &["create", "delete", "get", "patch", "update"];

/// One line of the table.
struct Row {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
    categories: &'static [&'static str],
    namespaced: bool,
    verbs: &'static [&'static str],
    subresources: &'static [Part],
}

/// A subresource, by name.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Status,
    Scale,
    Finalize,
    Binding,
    Eviction,
    Log,
    Token,
    Approval,
    Attach,
    Exec,
    PortForward,
    Proxy,
    EphemeralContainers,
    Resize,
}

use Part::{
    Approval, Attach, Binding, EphemeralContainers, Eviction, Exec, Finalize, Log, PortForward, Proxy,
    Resize, Status, Token,
};

const ROWS: &[Row] = &[
    review("", "Binding", "bindings").within_namespace(),
    core("ComponentStatus", "componentstatuses", &["cs"], false, &[]).computed(),
    core("ConfigMap", "configmaps", &["cm"], true, &[]),
    core("Endpoints", "endpoints", &["ep"], true, &[]),
    core("Event", "events", &["ev"], true, &[]),
    core("LimitRange", "limitranges", &["limits"], true, &[]),
    core("Namespace", "namespaces", &["ns"], false, &[Finalize, Status]).one_by_one(),
    core("Node", "nodes", &["no"], false, &[Proxy, Status]),
    core("PersistentVolume", "persistentvolumes", &["pv"], false, &[Status]),
    core("PersistentVolumeClaim", "persistentvolumeclaims", &["pvc"], true, &[Status]),
    core(
        "Pod",
        "pods",
        &["po"],
        true,
        &[Attach, Binding, EphemeralContainers, Eviction, Exec, Log, PortForward, Proxy, Resize, Status],
    )
    .everywhere(),
    core("PodTemplate", "podtemplates", &[], true, &[]),
    core("ReplicationController", "replicationcontrollers", &["rc"], true, &[Part::Scale, Status])
        .everywhere(),
    core("ResourceQuota", "resourcequotas", &["quota"], true, &[Status]),
    core("Secret", "secrets", &[], true, &[]),
    core("Service", "services", &["svc"], true, &[Proxy, Status]).everywhere(),
    core("ServiceAccount", "serviceaccounts", &["sa"], true, &[Token]),
    apps("ControllerRevision", "controllerrevisions", &[], &[]),
    apps("DaemonSet", "daemonsets", &["ds"], &[Status]).everywhere(),
    apps("Deployment", "deployments", &["deploy"], &[Part::Scale, Status]).everywhere(),
    apps("ReplicaSet", "replicasets", &["rs"], &[Part::Scale, Status]).everywhere(),
    apps("StatefulSet", "statefulsets", &["sts"], &[Part::Scale, Status]).everywhere(),
    row("events.k8s.io", "Event", "events", &["ev"], true, &[]),
    review("authentication.k8s.io", "SelfSubjectReview", "selfsubjectreviews"),
    review("authentication.k8s.io", "TokenReview", "tokenreviews"),
    review("authorization.k8s.io", "LocalSubjectAccessReview", "localsubjectaccessreviews")
        .within_namespace(),
    review("authorization.k8s.io", "SelfSubjectAccessReview", "selfsubjectaccessreviews"),
    review("authorization.k8s.io", "SelfSubjectRulesReview", "selfsubjectrulesreviews"),
    review("authorization.k8s.io", "SubjectAccessReview", "subjectaccessreviews"),
    row("autoscaling", "HorizontalPodAutoscaler", "horizontalpodautoscalers", &["hpa"], true, &[Status])
        .in_version("v2")
        .everywhere(),
    row("batch", "CronJob", "cronjobs", &["cj"], true, &[Status]).everywhere(),
    row("batch", "Job", "jobs", &[], true, &[Status]).everywhere(),
    row(
        "certificates.k8s.io",
        "CertificateSigningRequest",
        "certificatesigningrequests",
        &["csr"],
        false,
        &[Approval, Status],
    ),
    row("networking.k8s.io", "Ingress", "ingresses", &["ing"], true, &[Status]),
    row("networking.k8s.io", "IngressClass", "ingressclasses", &[], false, &[]),
    row("networking.k8s.io", "IPAddress", "ipaddresses", &["ip"], false, &[]),
    row("networking.k8s.io", "NetworkPolicy", "networkpolicies", &["netpol"], true, &[]),
    row("networking.k8s.io", "ServiceCIDR", "servicecidrs", &[], false, &[Status]),
    row("policy", "PodDisruptionBudget", "poddisruptionbudgets", &["pdb"], true, &[Status]),
    rbac("ClusterRole", "clusterroles", false),
    rbac("ClusterRoleBinding", "clusterrolebindings", false),
    rbac("Role", "roles", true),
    rbac("RoleBinding", "rolebindings", true),
    row("storage.k8s.io", "CSIDriver", "csidrivers", &[], false, &[]),
    row("storage.k8s.io", "CSINode", "csinodes", &[], false, &[]),
    row("storage.k8s.io", "CSIStorageCapacity", "csistoragecapacities", &[], true, &[]),
    row("storage.k8s.io", "StorageClass", "storageclasses", &["sc"], false, &[]),
    row("storage.k8s.io", "VolumeAttachment", "volumeattachments", &[], false, &[Status]),
    row("storage.k8s.io", "VolumeAttributesClass", "volumeattributesclasses", &["vac"], false, &[]),
    admission("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", &[]),
    admission("ValidatingAdmissionPolicy", "validatingadmissionpolicies", &[Status]),
    admission("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", &[]),
    admission("ValidatingWebhookConfiguration", "validatingwebhookconfigurations", &[]),
    row(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        &["crd", "crds"],
        false,
        &[Status],
    )
    .in_category(&["api-extensions"]),
    row("scheduling.k8s.io", "PriorityClass", "priorityclasses", &["pc"], false, &[]),
    row("coordination.k8s.io", "Lease", "leases", &[], true, &[]),
    row("node.k8s.io", "RuntimeClass", "runtimeclasses", &[], false, &[]),
    row("discovery.k8s.io", "EndpointSlice", "endpointslices", &[], true, &[]),
    row("flowcontrol.apiserver.k8s.io", "FlowSchema", "flowschemas", &[], false, &[Status]),
    row(
        "flowcontrol.apiserver.k8s.io",
        "PriorityLevelConfiguration",
        "prioritylevelconfigurations",
        &[],
        false,
        &[Status],
    ),
    row("resource.k8s.io", "DeviceClass", "deviceclasses", &[], false, &[]),
    row("resource.k8s.io", "ResourceClaim", "resourceclaims", &[], true, &[Status]),
    row("resource.k8s.io", "ResourceClaimTemplate", "resourceclaimtemplates", &[], true, &[]),
    row("resource.k8s.io", "ResourceSlice", "resourceslices", &[], false, &[]),
    row("apiregistration.k8s.io", "APIService", "apiservices", &[], false, &[Status])
        .in_category(&["api-extensions"]),
    row("metrics.k8s.io", "NodeMetrics", "nodes", &[], false, &[]).in_version("v1beta1").computed(),
    row("metrics.k8s.io", "PodMetrics", "pods", &[], true, &[]).in_version("v1beta1").computed(),
];

const fn row(
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
    namespaced: bool,
    subresources: &'static [Part],
) -> Row {
    Row {
        group,
        version: "v1",
        kind,
        plural,
        short_names,
        categories: &[],
        namespaced,
        verbs: ALL,
        subresources,
    }
}

const fn core(
    kind: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
    namespaced: bool,
    subresources: &'static [Part],
) -> Row {
    row("", kind, plural, short_names, namespaced, subresources)
}

const fn apps(
    kind: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
    subresources: &'static [Part],
) -> Row {
    row("apps", kind, plural, short_names, true, subresources)
}

const fn rbac(kind: &'static str, plural: &'static str, namespaced: bool) -> Row {
    row("rbac.authorization.k8s.io", kind, plural, &[], namespaced, &[])
}

const fn admission(kind: &'static str, plural: &'static str, subresources: &'static [Part]) -> Row {
    row("admissionregistration.k8s.io", kind, plural, &[], false, subresources)
        .in_category(&["api-extensions"])
}

const fn review(group: &'static str, kind: &'static str, plural: &'static str) -> Row {
    let mut review = row(group, kind, plural, &[], false, &[]);
    review.verbs = CREATE_ONLY;
    review
}

/// Every built-in kind of Kubernetes 1.`minor`.
pub(super) fn resources(minor: u16) -> Vec<Resource> {
    ROWS.iter().filter(|row| row.since() <= minor).map(Row::resource).collect()
}

/// One built-in kind, for tests that need no whole catalogue.
#[cfg(test)]
pub(crate) fn resource(group: &str, plural: &str) -> Resource {
    ROWS.iter().find(|row| row.group == group && row.plural == plural).map(Row::resource).unwrap()
}

// === impl Row ===

impl Row {
    /// `kubectl get all` shows it.
    const fn everywhere(self) -> Self {
        self.in_category(&["all"])
    }

    /// One request must not empty the whole cluster.
    const fn one_by_one(mut self) -> Self {
        self.verbs = ONE_BY_ONE;
        self
    }

    const fn in_category(mut self, categories: &'static [&'static str]) -> Self {
        self.categories = categories;
        self
    }

    const fn in_version(mut self, version: &'static str) -> Self {
        self.version = version;
        self
    }

    /// Nothing of it is stored.
    const fn computed(mut self) -> Self {
        self.verbs = GET_AND_LIST;
        self
    }

    const fn within_namespace(mut self) -> Self {
        self.namespaced = true;
        self
    }

    /// The minor version that brought the kind. Most are older than the oldest version served.
    fn since(&self) -> u16 {
        match (self.group, self.kind) {
            (_, "SelfSubjectReview") => 28,
            ("flowcontrol.apiserver.k8s.io", _) => 29,
            (_, "ValidatingAdmissionPolicy" | "ValidatingAdmissionPolicyBinding") => 30,
            (_, "IPAddress" | "ServiceCIDR") => 33,
            ("resource.k8s.io", _) | (_, "VolumeAttributesClass") => 34,
            _ => 0,
        }
    }

    fn resource(&self) -> Resource {
        let scales = self.subresources.contains(&Part::Scale);
        Resource {
            group: self.group.into(),
            version: self.version.into(),
            kind: self.kind.into(),
            plural: self.plural.into(),
            singular: self.kind.to_ascii_lowercase().into(),
            list_kind: format!("{}List", self.kind).into(),
            short_names: self.short_names.iter().map(|&name| name.into()).collect(),
            categories: self.categories.iter().map(|&name| name.into()).collect(),
            namespaced: self.namespaced,
            verbs: self.verbs,
            subresources: self.subresources.iter().map(|part| part.subresource(self)).collect(),
            schema: None,
            published_schema: None,
            printer_columns: Vec::new(),
            selectable_fields: Vec::new(),
            custom: false,
            status_subresource: self.subresources.contains(&Status),
            scale: scales.then(|| Scale {
                spec_replicas: ".spec.replicas".into(),
                status_replicas: ".status.replicas".into(),
                label_selector: None,
            }),
            storage_version: self.version.into(),
            storage_schema: None,
            evolved: false,
            deprecation: match self.kind {
                "Endpoints" => Some(
                    "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned(),
                ),
                "ComponentStatus" => Some("v1 ComponentStatus is deprecated in v1.19+".to_owned()),
                _ => None,
            },
        }
    }
}

// === impl Part ===

impl Part {
    fn subresource(self, parent: &Row) -> Subresource {
        let own = |name, verbs| part(name, parent.group, parent.version, parent.kind, verbs);
        match self {
            Status => own("status", READ_WRITE),
            Part::Scale => part("scale", "autoscaling", "v1", "Scale", READ_WRITE),
            Approval => own("approval", READ_WRITE),
            Finalize => own("finalize", UPDATE_ONLY),
            Binding => part("binding", "", "v1", "Binding", CREATE_ONLY),
            Eviction => part("eviction", "policy", "v1", "Eviction", CREATE_ONLY),
            Log => own("log", GET_ONLY),
            EphemeralContainers => own("ephemeralcontainers", READ_WRITE),
            Resize => own("resize", READ_WRITE),
            Attach => part("attach", "", "v1", "PodAttachOptions", CONNECT),
            Exec => part("exec", "", "v1", "PodExecOptions", CONNECT),
            PortForward => part("portforward", "", "v1", "PodPortForwardOptions", CONNECT),
            Proxy => match parent.kind {
                "Node" => part("proxy", "", "v1", "NodeProxyOptions", PROXY),
                "Service" => part("proxy", "", "v1", "ServiceProxyOptions", PROXY),
                _ => part("proxy", "", "v1", "PodProxyOptions", PROXY),
            },
            Token => part("token", "authentication.k8s.io", "v1", "TokenRequest", CREATE_ONLY),
        }
    }
}

fn part(
    name: &'static str,
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    verbs: &'static [&'static str],
) -> Subresource {
    Subresource { name, kind: Text::Borrowed(kind), group: group.into(), version: version.into(), verbs }
}
