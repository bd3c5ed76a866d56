//! Names inside a cluster.

use k8s_openapi::api::core::v1::Service;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::network::{create_service, write_slice};
use crate::support::{Cluster, address_of, program, run, until};

pub(crate) fn names_of_services_and_pods_are_found() {
    run(async {
        let cluster = Cluster::start().await;
        let mut container = program(&["serve", "8080", "ada"]);
        container["readinessProbe"] = json!({"tcpSocket": {"port": 8080}});
        let spec = json!({"hostname": "ada", "subdomain": "people", "containers": [container]});
        cluster.create("ada", spec).await;
        let ada = cluster.until_ready("ada").await;

        let web = create_service(&cluster, "web", json!({"ports": [{"port": 80, "targetPort": 8080}]})).await;
        let headless = json!({"metadata": {"name": "people"},
            "spec": {"clusterIP": "None", "ports": [{"name": "http", "port": 8080}]}});
        let services: Api<Service> = Api::namespaced(cluster.client.clone(), "default");
        let headless = serde_json::from_value(headless).unwrap();
        services.create(&PostParams::default(), &headless).await.unwrap();
        for (name, port) in [("web", ""), ("people", "http")] {
            let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
                "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
                "ports": [{"name": port, "port": 8080}],
                "endpoints": [{"addresses": [address_of(&ada)], "hostname": "ada"}]});
            write_slice(&cluster, name, slice).await;
        }

        // Over a connection, as it is sent.
        let std::net::IpAddr::V4(web) = web else { panic!("{web} is not of version 4") };
        let people: std::net::Ipv4Addr = address_of(&ada).parse().unwrap();
        for (name, address) in [("\x03WEB", web), ("\x03Ada\x06people", people)] {
            let question = [
                b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00".as_slice(),
                name.as_bytes(),
                b"\x07default\x03svc\x07cluster\x05local\x00\x00\x01\x00\x01",
            ]
            .concat();
            let expected = [&[0, 4], address.octets().as_slice()].concat();
            until(|| async {
                let answer = ask(&cluster, &question).await;
                answer.ends_with(&expected) && answer[3] & 0x0f == 0
            })
            .await;
        }
        until(|| async { cluster.dialer().connect((web, 80).into()).await.is_ok() }).await;

        // As programs do it: by what the pod's resolver is told.
        let names = [
            "web:80",
            "web.default:80",
            "web.default.svc.cluster.local:80",
            "people:8080",
            "ada.people:8080",
        ];
        let found = names.map(|name| format!("pilothouse fetch {name}")).join(" && ");
        let line = format!(
            "{found}; pilothouse fetch bob.people:8080 || echo nobody; pilothouse fetch example.org:80 || echo nowhere"
        );
        let client = json!({"image": "pilothouse", "command": ["sh", "-c", line]});
        let output = cluster.output_of("client", client).await;
        let lines: Vec<_> = output.lines().collect();
        assert_eq!(lines[..5], ["ada"; 5], "{output}");
        assert!(output.contains("\nnobody\n") && output.ends_with("\nnowhere\n"), "{output}");
    });
}

/// What cluster DNS answers over a connection.
async fn ask(cluster: &Cluster, question: &[u8]) -> Vec<u8> {
    let mut stream = cluster.dialer().connect("10.96.0.10:53".parse().unwrap()).await.unwrap();
    stream.write_u16(question.len().try_into().unwrap()).await.unwrap();
    stream.write_all(question).await.unwrap();
    let length = stream.read_u16().await.unwrap();
    let mut answer = vec![0; length.into()];
    stream.read_exact(&mut answer).await.unwrap();
    answer
}
