//! Virtual machines on a cluster whose kubelet is this test.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt as _};
use pilothouse_crds::{VirtualMachine, VirtualMachineInstance, VirtualMachineStatus};
use pilothouse_kubeapi::testing;
use pilothouse_runtime::{Clock, OnExit, Reason, Shutdown, Tasks};
use pilothouse_test_support::eventually;
use pilothouse_virt::{Config, Deps, Service};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const NAMESPACE: &str = "clusters-first";
const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster with the controller.
struct World {
    client: Client,
    controller: Tasks,
    _cluster: testing::Cluster,
}

impl World {
    async fn start() -> Self {
        let cluster = testing::Cluster::start(testing::Options::default()).await.unwrap();
        cluster.keep_accounts().await.unwrap();
        let client = cluster.admin().await.unwrap();
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for definition in pilothouse_crds::all() {
            definitions.create(&PostParams::default(), &definition).await.unwrap();
        }
        let everything = ListParams::default();
        eventually("the definitions are served", PATIENCE, async || -> Result<(), kube::Error> {
            Api::<VirtualMachine>::all(client.clone()).list(&everything).await?;
            Api::<VirtualMachineInstance>::all(client.clone()).list(&everything).await?;
            Ok(())
        })
        .await;
        create::<Namespace>(&Api::all(client.clone()), json!({ "metadata": { "name": NAMESPACE } })).await;
        let service =
            Service::new(Config::default(), Deps { client: client.clone(), clock: Clock::system() });
        let controller = Tasks::new("virt", Shutdown::new());
        let shutdown = controller.shutdown().clone();
        controller.spawn("virt", OnExit::StopProcess, async move { Ok(service.run(shutdown).await?) });
        Self { client, controller, _cluster: cluster }
    }

    /// Stops the controller and fails if anything of it is left or went wrong.
    async fn stop(self) {
        let asked = Reason::Asked("the test is over".to_owned());
        self.controller.shutdown().request(asked.clone());
        self.controller.drain(PATIENCE).await.unwrap();
        assert_eq!(self.controller.shutdown().reason(), Some(asked));
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// A machine of eight cores that should run.
    async fn create_machine(&self) {
        let template = json!({
            "metadata": { "labels": { "pool": "workers" } },
            "spec": {
                "domain": { "cpu": { "cores": 8 }, "memory": { "guest": "10Gi" }, "devices": {} },
                "volumes": [{
                    "name": "cloudinitvolume",
                    "cloudInitConfigDrive": { "secretRef": { "name": "user-data-workers-1" } },
                }],
            },
        });
        let machine = json!({
            "metadata": { "name": "workers-0" }, "spec": { "runStrategy": "Always", "template": template },
        });
        create::<VirtualMachine>(&self.api(), machine).await;
    }

    async fn change_machine(&self, spec: Value) {
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.api::<VirtualMachine>().patch("workers-0", &PatchParams::default(), &patch).await.unwrap();
    }

    /// The one pod of the machine that stays, other than this one.
    async fn eventually_pod(&self, other_than: Option<&Pod>) -> Pod {
        eventually("the machine has a process", PATIENCE, async || {
            let pods = self.api::<Pod>().list(&ListParams::default()).await.unwrap().items;
            match pods.as_slice() {
                [pod]
                    if pod.metadata.deletion_timestamp.is_none()
                        && Some(pod.uid()) != other_than.map(|pod| pod.uid()) =>
                {
                    Ok(pod.clone())
                }
                _ => Err(format!("{pods:?}")),
            }
        })
        .await
    }

    /// What a kubelet would say of a pod that runs.
    async fn run(&self, pod: &Pod) {
        let status = json!({ "status": {
            "phase": "Running", "podIP": "10.200.0.9", "podIPs": [{ "ip": "10.200.0.9" }],
            "conditions": [{ "type": "Ready", "status": "True" }],
        } });
        self.api::<Pod>()
            .patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Merge(status))
            .await
            .unwrap();
    }

    /// What the machine says, once it is this.
    async fn eventually_is(&self, printable: &str) -> VirtualMachineStatus {
        eventually(&format!("the machine is {printable}"), PATIENCE, async || {
            let machine = self.api::<VirtualMachine>().get("workers-0").await.unwrap();
            let status = machine.status.unwrap_or_default();
            if status.printable_status == printable { Ok(status) } else { Err(format!("{status:?}")) }
        })
        .await
    }

    async fn eventually_gone<K>(&self, name: &str)
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        eventually(&format!("{} {name} is gone", K::kind(&())), PATIENCE, async || {
            match self.api::<K>().get_opt(name).await {
                Ok(None) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }
}

async fn create<K>(api: &Api<K>, object: Value) -> K
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + serde::Serialize,
{
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
}

#[tokio::test]
async fn a_machine_runs_as_a_node_of_its_size_and_says_so() {
    let world = World::start().await;
    world.create_machine().await;
    let pod = world.eventually_pod(None).await;
    assert_eq!(pod.labels()["kubevirt.io"], "virt-launcher");
    assert_eq!(pod.labels()["pool"], "workers", "labels of the template reach the pod");
    let container = &pod.spec.as_ref().unwrap().containers[0];
    let command = container.command.clone().unwrap().join(" ");
    assert!(command.contains("--node-name workers-0"), "{command}");
    let told = serde_json::to_value(&container.env).unwrap().to_string();
    assert!(told.contains(r#""name":"PILOTHOUSE_CAPACITY__CPU","value":"8""#), "{told}");
    world.run(&pod).await;
    assert!(world.eventually_is("Running").await.ready);
    eventually("the instance says where it is", PATIENCE, async || {
        let instance = world.api::<VirtualMachineInstance>().get("workers-0").await.unwrap();
        let status = instance.status.unwrap_or_default();
        match (status.phase.as_str(), status.interfaces.as_slice()) {
            ("Running", [interface]) if interface.ip_address == "10.200.0.9" => Ok(()),
            _ => Err(format!("{status:?}")),
        }
    })
    .await;

    let _ = world.api::<VirtualMachine>().delete("workers-0", &DeleteParams::default()).await.unwrap();
    world.eventually_gone::<VirtualMachine>("workers-0").await;
    assert!(world.api::<Pod>().get_opt(&pod.name_any()).await.unwrap().is_none(), "its process went first");
    world.stop().await;
}

#[tokio::test]
async fn a_machine_stops_and_starts_as_it_is_told() {
    let world = World::start().await;
    world.create_machine().await;
    let pod = world.eventually_pod(None).await;
    world.run(&pod).await;
    world.eventually_is("Running").await;
    world.change_machine(json!({ "runStrategy": "Halted" })).await;
    world.eventually_gone::<Pod>(&pod.name_any()).await;
    assert!(!world.eventually_is("Stopped").await.created);
    world.change_machine(json!({ "runStrategy": null, "running": true })).await;
    let pod = world.eventually_pod(Some(&pod)).await;
    world.run(&pod).await;
    world.eventually_is("Running").await;
    world.stop().await;
}

#[tokio::test]
async fn a_machine_whose_process_is_lost_gets_another() {
    let world = World::start().await;
    world.create_machine().await;
    let first = world.eventually_pod(None).await;
    world.run(&first).await;
    world.eventually_is("Running").await;
    let gone = DeleteParams::default().grace_period(0);
    let _ = world.api::<Pod>().delete(&first.name_any(), &gone).await.unwrap();
    let second = world.eventually_pod(Some(&first)).await;
    // And one that somebody stops by its instance.
    world.run(&second).await;
    world.eventually_is("Running").await;
    let _ =
        world.api::<VirtualMachineInstance>().delete("workers-0", &DeleteParams::default()).await.unwrap();
    world.eventually_pod(Some(&second)).await;
    world.stop().await;
}
