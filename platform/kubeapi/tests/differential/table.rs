//! The requests, as they are written down.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

/// Steps that build on one another, in a namespace of their own.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    /// The file's name.
    #[serde(skip)]
    pub(crate) subject: String,
    /// Unique in the file; the namespace is called `SUBJECT-NAME`.
    pub(crate) name: String,
    pub(crate) steps: Vec<Step>,
}

/// One request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    /// Unique in the scenario.
    pub(crate) name: String,
    /// Method and path with query. `${ns}` is the scenario's namespace, `${x}` what an earlier step saved as `x`; both may also
    /// stand in the body.
    pub(crate) request: String,
    #[serde(default)]
    pub(crate) body: Option<Value>,
    /// The body as text, for what is not to be understood.
    #[serde(default)]
    pub(crate) text: Option<String>,
    /// `json`, `merge`, `strategic`, `apply`, or a media type; JSON if nothing is said.
    #[serde(default)]
    pub(crate) content: Option<String>,
    /// `table`, `partial`, `discovery`, or a media type; JSON if nothing is said.
    #[serde(default)]
    pub(crate) accept: Option<String>,
    /// Who asks, with groups after a slash: `ada/team-a,team-b`. Somebody who may do everything, if nothing is said.
    #[serde(default)]
    pub(crate) user: Option<String>,
    /// A bearer token instead of a certificate.
    #[serde(default)]
    pub(crate) token: Option<String>,
    /// Names, and where in the answer the values are (JSON pointers).
    #[serde(default)]
    pub(crate) save: BTreeMap<String, String>,
    /// The answer is a stream: so many events are read, then it is closed.
    #[serde(default)]
    pub(crate) events: Option<usize>,
    /// Asked again and again until the answer has this code: what a server does a moment later.
    #[serde(default)]
    pub(crate) until: Option<u16>,
    /// Asked again and again until the answer has these values at these places (JSON pointers).
    #[serde(default)]
    pub(crate) until_has: BTreeMap<String, Value>,
    /// The only places of the answer's body that are compared (JSON pointers), where the rest is the server's own affair.
    #[serde(default)]
    pub(crate) only: Vec<String>,
}

impl Scenario {
    /// Names a step in all failures and in the list of what may differ.
    pub(crate) fn id(&self, step: &Step) -> String {
        format!("{}/{}/{}", self.subject, self.name, step.name)
    }

    /// Its namespace.
    pub(crate) fn namespace(&self) -> String {
        format!("{}-{}", self.subject, self.name)
    }
}

/// All scenarios of all files of a folder.
pub(crate) fn load(folder: &Path) -> Vec<Scenario> {
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().flat_map(|file| load_file(file)).collect()
}

fn load_file(file: &Path) -> Vec<Scenario> {
    let subject = file.file_stem().unwrap().to_str().unwrap();
    let text = fs::read_to_string(file).unwrap();
    let mut scenarios: Vec<Scenario> =
        serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    for scenario in &mut scenarios {
        scenario.subject = subject.to_owned();
    }
    scenarios
}
