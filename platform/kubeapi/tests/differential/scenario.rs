//! Running the steps of one scenario against one server.

use std::collections::HashMap;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::time::{self, Instant};

use crate::client::{Answer, Client, Credential, Question};
use crate::normal::Normal;
use crate::table::{Scenario, Step};

/// How long a step may be asked again. A server that never gets there shows its last answer.
const LIMIT: Duration = Duration::from_secs(10);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(25);

/// One scenario on its way through one server.
pub(crate) struct Run<'a> {
    client: &'a Client<'a>,
    scenario: &'a Scenario,
    saved: HashMap<String, String>,
    normal: Normal,
}

impl<'a> Run<'a> {
    /// Makes the scenario's namespace, with the service account that pods need: a bare server has no controller to make it.
    pub(crate) async fn new(client: &'a Client<'a>, scenario: &'a Scenario) -> Self {
        let namespace = scenario.namespace();
        let run = Self {
            client,
            scenario,
            saved: HashMap::from([("ns".to_owned(), namespace.clone())]),
            normal: Normal::default(),
        };
        let made = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
        run.make("/api/v1/namespaces".to_owned(), &made).await;
        let made = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "default" } });
        run.make(format!("/api/v1/namespaces/{namespace}/serviceaccounts"), &made).await;
        run
    }

    /// Asks everything, in order. The answers are comparable with those of another server.
    pub(crate) async fn all(mut self) -> Vec<Value> {
        let mut answers = Vec::new();
        for step in &self.scenario.steps {
            let answer = self.step(step).await;
            for (name, pointer) in &step.save {
                let value = answer.body.pointer(pointer);
                let text = value.and_then(Value::as_str).map(str::to_owned);
                let text = text.or_else(|| value.map(Value::to_string));
                self.saved.insert(name.clone(), text.unwrap_or_else(|| "absent".to_owned()));
            }
            answers.push(self.normal.answer(answer, &step.only));
        }
        answers
    }

    async fn step(&self, step: &Step) -> Answer {
        let who = match (&step.token, &step.user) {
            (Some(token), _) => Credential::Token(self.fill(token)),
            (None, Some(user)) => Credential::user(&self.fill(user)),
            (None, None) => Credential::administrator(),
        };
        let question = self.question(step);
        let deadline = Instant::now() + LIMIT;
        loop {
            let answer = self.client.ask(&who, &question).await;
            let has = |(pointer, value): (&String, &Value)| answer.body.pointer(pointer) == Some(value);
            let reached = step.until.is_none_or(|code| answer.code == code) && step.until_has.iter().all(has);
            // The real server asks for a moment's patience after a definition has changed.
            let not_yet = answer.code == 429
                && answer.body["message"].as_str().is_some_and(|text| text.contains("(re)initializing"));
            if reached && !not_yet || Instant::now() >= deadline {
                return answer;
            }
            time::sleep(PAUSE).await;
        }
    }

    fn question(&self, step: &Step) -> Question {
        let (method, path) = step.request.split_once(' ').expect("a request is a method and a path");
        let body = match (&step.body, &step.text) {
            (Some(body), _) => self.fill(&body.to_string()).into_bytes(),
            (None, Some(text)) => self.fill(text).into_bytes(),
            (None, None) => Vec::new(),
        };
        Question {
            method: Method::from_bytes(method.as_bytes()).unwrap(),
            path: self.fill(path),
            content: media_type(step.content.as_deref()),
            accept: accepted(step.accept.as_deref()),
            body,
            events: step.events,
        }
    }

    fn fill(&self, text: &str) -> String {
        self.saved
            .iter()
            .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("${{{name}}}"), value))
    }

    async fn make(&self, path: String, object: &Value) {
        let question = Question {
            method: Method::POST,
            path,
            content: "application/json",
            accept: "application/json".to_owned(),
            body: object.to_string().into_bytes(),
            events: None,
        };
        let answer = self.client.ask(&Credential::administrator(), &question).await;
        assert!(matches!(answer.code, 201 | 409), "{}: {answer:?}", self.scenario.namespace());
    }
}

fn media_type(content: Option<&str>) -> &'static str {
    match content {
        None => "application/json",
        Some("json") => "application/json-patch+json",
        Some("merge") => "application/merge-patch+json",
        Some("strategic") => "application/strategic-merge-patch+json",
        Some("apply") => "application/apply-patch+yaml",
        Some("yaml") => "application/yaml",
        Some("text") => "text/plain",
        Some(other) => panic!("`{other}` is no content type of the table"),
    }
}

fn accepted(accept: Option<&str>) -> String {
    match accept {
        None => "application/json".to_owned(),
        Some("table") => "application/json;as=Table;v=v1;g=meta.k8s.io".to_owned(),
        Some("partial") => "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io".to_owned(),
        Some("partial list") => "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io".to_owned(),
        Some("discovery") => {
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList".to_owned()
        }
        Some(other) => other.to_owned(),
    }
}
