use pilothouse_crds::{KubeVirtCompute, NodePool, NodePoolPlatform, PlatformType};
use pilothouse_informer::ObjectKey;
use pilothouse_pki::Bundle;

use super::super::node_config::NodeConfig;
use super::super::server::Server;
use super::*;
use crate::versions::Release;

/// The specification of a pool's first machine.
fn specification(change: impl FnOnce(&mut KubeVirtNodePoolPlatform), patches: Vec<&str>) -> Value {
    let mut platform = KubeVirtNodePoolPlatform::default();
    change(&mut platform);
    let mut pool = NodePool::new("workers", Default::default());
    pool.spec.platform = NodePoolPlatform {
        type_: PlatformType::KubeVirt,
        kubevirt: Some(platform),
        ..NodePoolPlatform::default()
    };
    let release = Release::of_image("pilothouse/release:4.20.0").unwrap();
    let config = NodeConfig::default();
    let server =
        Server { url: String::new(), tls_name: None, authorities: Bundle::new(), clients: String::new() };
    let template = Template {
        key: &ObjectKey::namespaced("clusters", "workers"),
        cluster: &ObjectKey::namespaced("clusters", "first"),
        infra_id: "first-x7k2p",
        namespace: "clusters-first",
        release: &release,
        image: "pilothouse",
        service_range: "172.31.0.0/16",
        server,
        config: &config,
        made_of: Template::fingerprint(&pool, &release, &config, &patches),
        patches,
        restricted: false,
        pool: &pool,
    };
    template.virtual_machine_spec("workers-0").unwrap()
}

#[test]
fn a_machine_is_as_its_pool_says() {
    let spec = specification(
        |platform| {
            platform.compute =
                KubeVirtCompute { cores: 8, memory: "10Gi".into(), qos_class: Some(QosClass::Guaranteed) };
            platform.additional_networks =
                vec![pilothouse_crds::AdditionalNetwork { name: "nets/fast".into() }];
            platform.node_selector = [("disk".to_owned(), "fast".to_owned())].into();
        },
        Vec::new(),
    );
    insta::assert_json_snapshot!("virtual_machine", spec);
}

#[test]
fn patches_are_of_the_whole_object_and_the_pools_comes_last() {
    let spec = specification(
        |_| {},
        vec![
            r#"[{"op": "add", "path": "/spec/template/spec/domain/cpu/cores", "value": 3}]"#,
            r#"[{"op": "replace", "path": "/spec/template/spec/domain/cpu/cores", "value": 4}]"#,
        ],
    );
    assert_eq!(spec["template"]["spec"]["domain"]["cpu"]["cores"], 4);
}
