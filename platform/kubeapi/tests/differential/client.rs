//! Asking a server, without understanding its answers.

use std::collections::HashMap;
use std::time::Duration;

use futures::TryStreamExt;
use http::{HeaderMap, Method, Request};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use pilothouse_kubeapi::testing::Cluster;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time;

/// Far beyond what any answer takes.
const PATIENCE: Duration = Duration::from_secs(15);

/// After so long nothing more comes.
const QUIET: Duration = Duration::from_secs(10);

/// Also the field manager of whoever names none.
const AGENT: &str = "differential/1.0";

/// Clients of one server, one for each user. The authority of our cluster signs for both servers.
pub(crate) struct Client<'a> {
    cluster: &'a Cluster,
    url: String,
    users: Mutex<HashMap<Credential, kube::Client>>,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Credential {
    User { name: String, groups: Vec<String> },
    Token(String),
}

/// What is asked.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) content: &'static str,
    pub(crate) accept: String,
    pub(crate) body: Vec<u8>,
    /// How many events to read, if the answer is a stream.
    pub(crate) events: Option<usize>,
}

/// What came back.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) content: String,
    pub(crate) warnings: Vec<String>,
    /// JSON if it is that, else text; a list of events if a stream was asked for.
    pub(crate) body: Value,
}

impl Credential {
    /// Who may do everything.
    pub(crate) fn administrator() -> Self {
        Self::user("admin/system:masters")
    }

    /// A user as the table writes one: `name/group,group`.
    pub(crate) fn user(text: &str) -> Self {
        let (name, groups) = text.split_once('/').unwrap_or((text, ""));
        let groups = groups.split(',').filter(|group| !group.is_empty()).map(str::to_owned).collect();
        Self::User { name: name.to_owned(), groups }
    }
}

impl<'a> Client<'a> {
    pub(crate) fn new(cluster: &'a Cluster, url: String) -> Self {
        Self { cluster, url, users: Mutex::default() }
    }

    /// Asks once.
    pub(crate) async fn ask(&self, who: &Credential, question: &Question) -> Answer {
        let client = self.of(who).await;
        let request = Request::builder()
            .method(question.method.clone())
            .uri(&question.path)
            .header("accept", &question.accept)
            .header("user-agent", AGENT)
            .header("content-type", question.content)
            .body(Body::from(question.body.clone()))
            .unwrap_or_else(|error| panic!("{}: {error}", question.path));
        let asked = async {
            let (parts, body) = client.send(request).await?.into_parts();
            let body = match question.events {
                Some(count) if parts.status.is_success() => events(body, count).await?,
                _ => understood(&body.collect().await?.to_bytes()),
            };
            let warnings = values(&parts.headers, "warning");
            let content = values(&parts.headers, "content-type").concat();
            Ok::<_, kube::Error>(Answer { code: parts.status.as_u16(), content, warnings, body })
        };
        match time::timeout(PATIENCE, asked).await {
            Ok(Ok(answer)) => answer,
            // No answer is one too; it differs from every other.
            Ok(Err(error)) => Answer::none(&format!("{error:?}")),
            Err(_) => Answer::none("no answer in time"),
        }
    }

    async fn of(&self, who: &Credential) -> kube::Client {
        let mut users = self.users.lock().await;
        if let Some(client) = users.get(who) {
            return client.clone();
        }
        let (name, groups) = match who {
            Credential::User { name, groups } => (name.as_str(), groups.clone()),
            Credential::Token(_) => ("nobody", Vec::new()),
        };
        let groups: Vec<_> = groups.iter().map(String::as_str).collect();
        let text = self.cluster.kubeconfig(name, &groups).unwrap();
        let text = text.replace(&format!("https://{}", self.cluster.address()), &self.url);
        let config = Kubeconfig::from_yaml(&text).unwrap();
        let options = KubeConfigOptions::default();
        let mut config = kube::Config::from_custom_kubeconfig(config, &options).await.unwrap();
        // A refusal is an answer too.
        config.default_retry = false;
        if let Credential::Token(token) = who {
            config.auth_info = AuthInfo { token: Some(token.clone().into()), ..AuthInfo::default() };
        }
        let client = kube::Client::try_from(config).unwrap();
        users.insert(who.clone(), client.clone());
        client
    }
}

impl Answer {
    fn none(why: &str) -> Self {
        Self { code: 0, content: String::new(), warnings: Vec::new(), body: json!(why) }
    }
}

fn values(headers: &HeaderMap, name: &str) -> Vec<String> {
    headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
}

fn understood(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(bytes)))
}

/// Reads lines of JSON until there are so many, or the stream ends.
async fn events(body: Body, count: usize) -> Result<Value, kube::Error> {
    let mut stream = std::pin::pin!(body.into_data_stream());
    let (mut rest, mut events) = (Vec::new(), Vec::new());
    while events.len() < count {
        // Where fewer come than were expected, those that came are compared.
        let Ok(chunk) = time::timeout(QUIET, stream.try_next()).await else { break };
        let Some(chunk) = chunk? else { break };
        rest.extend_from_slice(&chunk);
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            events.push(understood(&line));
        }
    }
    events.truncate(count);
    Ok(Value::Array(events))
}
