//! Definitions of others: each is written to both servers, which must say the same of it and do the same with its objects.
//!
//! The definitions come from the sources of those projects, unchanged but for labels (one project keeps templates there). An object
//! of each kind is made up from its schema; whether it is accepted is not the point, but that both servers say the same.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use futures::StreamExt;
use http::Method;
use pilothouse_kubeapi::Config;
use pilothouse_kubeapi::testing::{Cluster, Options};
use pilothouse_test_support::modules::Module;
use pilothouse_test_support::upstream::{self as programs, Upstream};
use serde_json::{Value, json};
use tokio::time::{self, Instant};

use crate::client::{Answer, Client, Credential, Question};
use crate::difference;
use crate::normal::Normal;
use crate::sample;
use crate::upstream::Real;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// How long a server may take until a kind is served.
const LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);
const AT_ONCE: usize = 6;

/// Where definitions are kept in the sources of others.
const SOURCES: [(Module, &[&str]); 4] = [
    (
        Module {
            path: "sigs.k8s.io/cluster-api",
            version: "v1.10.5",
            sum: "h1:yCTEWpbw5SaXMupG0U9GTOs13/q36dGcc9+cFdPuMdE=",
        },
        &["config/crd/bases", "bootstrap/kubeadm/config/crd/bases", "controlplane/kubeadm/config/crd/bases"],
    ),
    (
        Module {
            path: "open-cluster-management.io/api",
            version: "v1.0.0",
            sum: "h1:54QllH9DTudCk6VrGt0q8CDsE3MghqJeTaTN4RHZpE0=",
        },
        &[
            "cluster/v1",
            "cluster/v1beta2",
            "cluster/v1beta1",
            "work/v1",
            "work/v1alpha1",
            "addon/v1alpha1",
            "operator/v1",
        ],
    ),
    (
        Module {
            path: "sigs.k8s.io/gateway-api",
            version: "v1.3.0",
            sum: "h1:q6okN+/UKDATola4JY7zXzx40WO4VISk7i9DIfOvr9M=",
        },
        &["config/crd/experimental"],
    ),
    (
        Module {
            path: "github.com/cert-manager/cert-manager",
            version: "v1.18.2",
            sum: "h1:H2P75ycGcTMauV3gvpkDqLdS3RSXonWF2S49QGA1PZE=",
        },
        &["deploy/crds"],
    ),
];

/// Its definitions are made by its operator, from schemas that are text in the sources.
const KUBEVIRT: Module = Module {
    path: "kubevirt.io/kubevirt",
    version: "v1.6.0",
    sum: "h1:xk7NgCHB3PVedEbuR7J+ehfR6ihmoDrjpl8tG3on3VE=",
};
const KUBEVIRT_SCHEMAS: &str = "pkg/virt-operator/resource/generate/components/validations_generated.go";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn definitions_of_others_do_what_they_do_on_the_real_server() {
    let Some(programs) = Upstream::find() else { return };
    let definitions = definitions();
    if definitions.is_empty() {
        return;
    }
    let _alone = crate::ALONE.lock().await;
    let options = Options {
        config: Config { version: programs::version().to_owned(), ..Config::default() },
        ..Options::default()
    };
    let ours = Cluster::start(options).await.unwrap();
    let real = Real::start(&programs, &ours).await;
    let outcomes: Vec<_> = futures::stream::iter(&definitions)
        .map(|definition| compare(definition, &ours, &real))
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let mut wrong: Vec<String> = outcomes.into_iter().flatten().collect();
    wrong.extend(explanations(&definitions, &programs, &ours, &real).await);
    ours.stop().await.unwrap();
    drop(real);
    assert!(wrong.is_empty(), "of {} definitions:\n{}", definitions.len(), wrong.join("\n"));
}

/// Everything that could be fetched.
fn definitions() -> Vec<Value> {
    let mut found = Vec::new();
    for (module, folders) in SOURCES {
        let Some(root) = module.fetch() else { continue };
        for folder in folders {
            found.extend(files(&root.join(folder)).iter().flat_map(|file| read(file)));
        }
    }
    if let Some(root) = KUBEVIRT.fetch() {
        found.extend(made(&fs::read_to_string(root.join(KUBEVIRT_SCHEMAS)).unwrap()));
    }
    for definition in &mut found {
        definition["metadata"].as_object_mut().unwrap().remove("labels");
    }
    // Two folders may hold one definition: the first one counts.
    let mut names: Vec<Value> = Vec::new();
    found.retain(|definition| {
        let name = &definition["metadata"]["name"];
        let new = !names.contains(name);
        names.push(name.clone());
        new
    });
    found
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    files
}

fn read(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap();
    let documents = text.split("\n---").filter(|text| text.contains("kind: CustomResourceDefinition"));
    documents
        .map(|text| {
            serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
        })
        .collect()
}

/// Definitions around the schemas of KubeVirt: `"name": ` and the schema between backticks.
fn made(source: &str) -> Vec<Value> {
    let mut found = Vec::new();
    for part in source.split("\n\t\"").skip(1) {
        let Some((name, rest)) = part.split_once("\": `") else { continue };
        let schema: Value = serde_saphyr::from_str(rest.split('`').next().unwrap()).unwrap();
        // A template that is only part of others.
        if name == "datavolumetemplatespec" {
            continue;
        }
        found.push(json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{name}s.kubevirt.example.com") },
            "spec": {
                "group": "kubevirt.example.com", "scope": "Namespaced",
                "names": { "plural": format!("{name}s"), "singular": name, "kind": name },
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "schema": schema, "subresources": { "status": {} },
                }],
            },
        }));
    }
    found
}

async fn compare(definition: &Value, ours: &Cluster, real: &Real) -> Vec<String> {
    let name = definition["metadata"]["name"].as_str().unwrap();
    let (real, own) = futures::join!(
        walk(definition, ours, real.url()),
        walk(definition, ours, format!("https://{}", ours.address()))
    );
    let mut wrong = Vec::new();
    for (real, own) in real.iter().zip(&own) {
        for one in difference::between(&format!("{name}: {}", real.0), &real.1, &own.1) {
            let shown = |value: Option<&Value>| {
                value.map_or_else(
                    || "nothing".to_owned(),
                    |value| value.to_string().chars().take(400).collect(),
                )
            };
            wrong.push(format!(
                "{} {}\n  real: {}\n  ours: {}",
                one.step,
                one.path,
                shown(one.real.as_ref()),
                shown(one.ours.as_ref())
            ));
        }
    }
    wrong
}

/// Everything that is asked about one definition, with the answers.
async fn walk(definition: &Value, cluster: &Cluster, url: String) -> Vec<(&'static str, Value)> {
    let client = Client::new(cluster, url);
    let mut normal = Normal::default();
    let name = definition["metadata"]["name"].as_str().unwrap();
    let spec = &definition["spec"];
    let mut answers = Vec::new();
    let created = ask(&client, Method::POST, DEFINITIONS.to_owned(), Some(definition)).await;
    let accepted = created.code < 300;
    answers.push(("created", normal.answer(created, &[])));
    if !accepted {
        return answers;
    }
    let established = |answer: &Answer| {
        let conditions = answer.body["status"]["conditions"].as_array().into_iter().flatten();
        conditions.filter(|one| one["status"] == "True").count() >= 2
    };
    let path = format!("{DEFINITIONS}/{name}");
    let kept = ["/spec", "/status/acceptedNames", "/status/storedVersions"].map(str::to_owned);
    answers.push(("established", normal.answer(until(&client, &path, established).await, &kept)));
    for version in spec["versions"].as_array().unwrap().iter().filter(|version| version["served"] == true) {
        let group_version =
            format!("{}/{}", spec["group"].as_str().unwrap(), version["name"].as_str().unwrap());
        let plural = spec["names"]["plural"].as_str().unwrap();
        let place = if spec["scope"] == "Namespaced" { "namespaces/default/" } else { "" };
        let path = format!("/apis/{group_version}/{place}{plural}");
        until(&client, &path, |answer| answer.code == 200).await;
        let schema = &version["schema"]["openAPIV3Schema"];
        let mut object = sample::of(schema);
        object["apiVersion"] = json!(group_version);
        object["kind"] = spec["names"]["kind"].clone();
        object["metadata"] = json!({ "name": format!("sample-{}", version["name"].as_str().unwrap()) });
        let answer = ask(&client, Method::POST, path, Some(&object)).await;
        answers.push(("an object", normal.answer(answer, &[])));
    }
    answers
}

/// `kubectl explain` of one kind of every group, by both servers. Every run reads the documents of its group anew.
async fn explanations(
    definitions: &[Value],
    programs: &Upstream,
    ours: &Cluster,
    real: &Real,
) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let text = ours.kubeconfig("admin", &["system:masters"]).unwrap();
    let own = format!("https://{}", ours.address());
    let configs = [("real", real.url()), ("ours", own.clone())].map(|(name, url)| {
        let file = folder.path().join(name);
        fs::write(&file, text.replace(&own, &url)).unwrap();
        file
    });
    let mut groups: Vec<&Value> = Vec::new();
    let mut wrong = Vec::new();
    for definition in definitions {
        let spec = &definition["spec"];
        if groups.contains(&&spec["group"]) {
            continue;
        }
        groups.push(&spec["group"]);
        let kind =
            format!("{}.{}", spec["names"]["plural"].as_str().unwrap(), spec["group"].as_str().unwrap());
        let explain = |config: &Path| {
            let mut command = Command::new(programs.program("kubectl"));
            command.arg("--kubeconfig").arg(config).args(["explain", "--recursive", &kind]);
            command.env_clear().env("HOME", folder.path());
            command
        };
        let (real, own) = futures::join!(printed(|| explain(&configs[0])), printed(|| explain(&configs[1])));
        if real != own {
            let line = |text: &str, other: &str| {
                let lines = text.lines().zip(other.lines()).find(|(one, other)| one != other);
                lines.map_or_else(
                    || text.lines().last().unwrap_or_default().to_owned(),
                    |(one, _)| one.to_owned(),
                )
            };
            wrong.push(format!(
                "explain {kind}\n  real: {}\n  ours: {}",
                line(&real, &own),
                line(&own, &real)
            ));
        }
    }
    wrong
}

/// What a program printed, once it was content: the documents of a new kind take a moment.
async fn printed(command: impl Fn() -> Command) -> String {
    let deadline = Instant::now() + LIMIT;
    loop {
        let mut command = command();
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        if output.status.success() {
            return String::from_utf8_lossy(&output.stdout).into_owned();
        }
        if Instant::now() >= deadline {
            return String::from_utf8_lossy(&output.stderr).into_owned();
        }
        time::sleep(PAUSE).await;
    }
}

async fn until(client: &Client<'_>, path: &str, reached: impl Fn(&Answer) -> bool) -> Answer {
    let deadline = Instant::now() + LIMIT;
    loop {
        let answer = ask(client, Method::GET, path.to_owned(), None).await;
        if reached(&answer) || Instant::now() >= deadline {
            return answer;
        }
        time::sleep(PAUSE).await;
    }
}

async fn ask(client: &Client<'_>, method: Method, path: String, body: Option<&Value>) -> Answer {
    let question = Question {
        method,
        path,
        content: "application/json",
        accept: "application/json".to_owned(),
        body: body.map(|body| body.to_string().into_bytes()).unwrap_or_default(),
        events: None,
    };
    client.ask(&Credential::administrator(), &question).await
}
