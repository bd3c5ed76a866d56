//! `hold`: keeps everybody's hands off a cluster.

use comfy_table::Table;
use http::Method;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::runtime;

use super::admin_surface::AdminArgs;
use crate::output;
use crate::{Failure, Output, Render};

/// Hold work on a cluster for maintenance, or release it.
///
/// While a cluster is held, operations on it and on what is below it are accepted and wait. What is running already in the
/// cluster goes on.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The cluster: its resource id
    #[arg(value_name = "CLUSTER-ID")]
    cluster: String,
    /// Let work on it go on
    #[arg(long)]
    release: bool,
    /// Why; it is kept with what was done
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    surface: AdminArgs,
}

#[derive(Serialize)]
#[serde(transparent)]
struct Held(Value);

impl Args {
    /// Sets the hold, or takes it away.
    ///
    /// # Errors
    ///
    /// If the administrators' surface cannot be reached, or refuses.
    pub fn run(self, output: &mut Output) -> Result<(), Failure> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let method = if self.release { Method::DELETE } else { Method::PUT };
        let path = format!("/admin/v1/hcp/{}/hold", self.cluster.trim_matches('/'));
        let body = json!({ "reason": self.reason });
        let cluster = runtime.block_on(async {
            let surface = self.surface.connect()?;
            surface.call(method, &path, Some(&body)).await
        })?;
        output.show(&Held(cluster))
    }
}

impl Render for Held {
    fn table(&self) -> Table {
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let hold = &self.0["hold"];
        let row = [
            text(&self.0["id"]),
            if hold.is_null() { "no".to_owned() } else { "yes".to_owned() },
            text(&hold["by"]),
            text(&hold["since"]),
            text(&hold["reason"]),
        ];
        let row = row.each_ref().map(String::as_str);
        output::table(["CLUSTER", "HELD", "BY", "SINCE", "REASON"], [row])
    }
}
