use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures::stream;
use pilothouse_runtime::Shutdown;
use pilothouse_store::{Location, Options, Store};

use super::*;
use crate::ports::Ports;

const RESOURCE: &str =
    "/subscriptions/s/resourceGroups/g/providers/Microsoft.RedHatOpenShift/hcpOpenShiftClusters/first";
const OPERATIONS: &str = "/admin/v1/operations";

/// Status and body.
type Answer = (u16, Value);

/// A resource provider that says what it was told to say, each time the next, and the last of it from then on.
struct Provider {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Provider {
    /// What is said is known by method and path.
    fn start(script: impl IntoIterator<Item = (String, Vec<Answer>)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = asked.clone();
        let mut script: HashMap<_, _> = script.into_iter().collect();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let request = read(&stream);
                let answers = script.get_mut(&request).unwrap_or_else(|| panic!("nobody told of {request}"));
                let answer = if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() };
                noted.lock().unwrap().push(request);
                write(stream, &answer);
            }
        });
        Self { address, asked }
    }

    async fn first_cluster(&self) -> FirstCluster {
        let here = format!("http://{}", self.address);
        let endpoints = Endpoints::new(&Ports::default(), PathBuf::new());
        let endpoints = Endpoints { frontend: here.clone(), admin: here, ..endpoints };
        let catalog = pilothouse_records::catalog().unwrap();
        let store = Store::open(Options::new(Location::memory(), catalog, Shutdown::new())).await.unwrap();
        let data_dir = DataDir::new(PathBuf::new());
        let first = FirstCluster::new("first", &endpoints, &data_dir, Records::new(store));
        FirstCluster { repair: Duration::from_millis(10), ..first }
    }

    /// What comes of it, and what was said meanwhile.
    async fn bring_about(&self) -> (Result<(), FirstClusterError>, Vec<String>) {
        self.bring_about_with(stream::repeat(())).await
    }

    /// The same where there is news of it just then.
    async fn bring_about_with(
        &self,
        news: impl Stream<Item = ()>,
    ) -> (Result<(), FirstClusterError>, Vec<String>) {
        let (first, said) = (self.first_cluster().await, Mutex::new(Vec::new()));
        let wanted = Wanted { what: "cluster `first`".to_owned(), resource: RESOURCE, body: json!({}) };
        let say = |line: &str| said.lock().unwrap().push(line.to_owned());
        let outcome = first.bring_about(&first.frontend(None).unwrap(), wanted, news, &say).await;
        (outcome, said.into_inner().unwrap())
    }

    fn asked(&self, request: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|asked| *asked == request).count()
    }
}

/// Method and path of a request, whose body is read as well: who closes before that breaks the connection.
fn read(stream: &TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first).unwrap();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim_end().to_ascii_lowercase().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(_) => {}
            None => break,
        }
    }
    reader.read_exact(&mut vec![0; length]).unwrap();
    let target = first.rsplit_once(' ').unwrap().0;
    target.split('?').next().unwrap().to_owned()
}

fn write(mut stream: TcpStream, (status, body): &Answer) {
    let body = body.to_string();
    let head = format!("HTTP/1.1 {status} \r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
}

fn is(state: &str) -> Answer {
    (200, json!({ "properties": { "provisioningState": state } }))
}

fn missing() -> Answer {
    (404, json!({ "error": { "message": "it was not found" } }))
}

fn get(path: &str, answers: impl Into<Vec<Answer>>) -> (String, Vec<Answer>) {
    (format!("GET {path}"), answers.into())
}

#[tokio::test]
async fn what_is_on_its_way_out_is_waited_for_and_made_anew() {
    let looks = [is("Deleting"), is("Deleting"), missing(), is("Provisioning"), is("Succeeded")];
    let made = (format!("PUT {RESOURCE}"), vec![(201, is("Accepted").1)]);
    let provider = Provider::start([get(RESOURCE, looks), made]);
    let (outcome, said) = provider.bring_about().await;
    outcome.unwrap();
    assert_eq!(
        said,
        ["Deleting", "Accepted", "Provisioning", "Succeeded"]
            .map(|state| format!("cluster `first`: {state}"))
    );
    assert_eq!(provider.asked(&format!("PUT {RESOURCE}")), 1);
}

#[tokio::test]
async fn it_is_looked_at_when_there_is_news_of_it_and_not_before() {
    let looks = [is("Accepted"), is("Provisioning"), is("Provisioning"), is("Succeeded")];
    let provider = Provider::start([get(RESOURCE, looks)]);
    let news = AtomicUsize::new(0);
    let (outcome, _) = provider
        .bring_about_with(stream::repeat_with(|| {
            // Nobody has asked since the last news but for what came of those.
            assert_eq!(provider.asked(&format!("GET {RESOURCE}")), news.fetch_add(1, Ordering::Relaxed) + 1);
        }))
        .await;
    outcome.unwrap();
    assert_eq!(news.into_inner(), 3, "each look but the first was because of news");
}

#[tokio::test]
async fn what_nobody_tells_of_is_found_by_looking() {
    let provider = Provider::start([get(RESOURCE, [is("Provisioning"), is("Succeeded")])]);
    let (outcome, _) = provider.bring_about_with(stream::pending()).await;
    outcome.unwrap();
}

#[tokio::test]
async fn what_failed_before_says_why() {
    let operation = |id: &str, state: &str, begun: &str| json!({ "id": id, "subscription": "s", "state": state, "startedAt": begun });
    let page = json!({
        "value": [
            operation("older", "Failed", "2026-01-01T00:00:00.5Z"),
            operation("well", "Succeeded", "2026-01-03T00:00:00Z"),
        ],
        "nextLink": "/admin/v1/operations/more?token=t",
    });
    let more = json!({ "value": [operation("newer", "Failed", "2026-01-02T00:00:00Z")] });
    let newer = json!({ "error": { "message": "Step 9 (services/hypershift) failed on cluster 2a" } });
    let provider = Provider::start([
        get(RESOURCE, [is("Failed")]),
        get(OPERATIONS, [(200, page)]),
        get("/admin/v1/operations/more", [(200, more)]),
        get("/admin/v1/operations/s/newer", [(200, newer)]),
    ]);
    let (outcome, _) = provider.bring_about().await;
    assert_eq!(
        outcome.unwrap_err().to_string(),
        "cluster `first` ended as Failed: Step 9 (services/hypershift) failed on cluster 2a"
    );
}

#[tokio::test]
async fn failure_is_told_even_if_nobody_says_why() {
    let none = (200, json!({ "value": [] }));
    let refused = (403, json!({ "error": { "message": "administrators only" } }));
    for (answer, told) in [(none, "no operation"), (refused, "administrators only")] {
        let provider = Provider::start([get(RESOURCE, [is("Canceled")]), get(OPERATIONS, [answer])]);
        let (outcome, _) = provider.bring_about().await;
        let told_now = outcome.unwrap_err().to_string();
        assert!(told_now.contains("ended as Canceled") && told_now.contains(told), "{told_now}");
    }
}
