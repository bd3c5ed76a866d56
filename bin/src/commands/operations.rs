//! `operations`: what is under way, and doing something about it.

use clap::Subcommand;
use comfy_table::Table;
use http::Method;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::runtime;

use super::admin_surface::{AdminArgs, AdminSurface};
use crate::output;
use crate::{Failure, Output, Render};

/// Look at operations of all subscriptions, give one up, or begin it anew.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pilothouse operations list --active
  pilothouse operations show SUBSCRIPTION OPERATION
  pilothouse operations requeue SUBSCRIPTION OPERATION --reason 'the cloud is back'
  pilothouse operations cancel SUBSCRIPTION OPERATION --reason 'asked for by the customer'")]
pub struct Args {
    #[command(flatten)]
    surface: AdminArgs,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    List(List),
    Show(Named),
    Cancel(Cancel),
    Requeue(Requeue),
}

/// List operations.
#[derive(Debug, clap::Args)]
struct List {
    /// Only those that have not ended
    #[arg(long)]
    active: bool,
    /// Only those of this subscription
    #[arg(long, value_name = "ID")]
    subscription: Option<String>,
    /// Only those on this resource
    #[arg(long, value_name = "RESOURCE-ID")]
    resource: Option<String>,
    /// At most so many
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    limit: usize,
}

/// Show one operation, step by step.
#[derive(Debug, clap::Args)]
struct Named {
    /// The subscription that it is in
    subscription: String,
    /// Its id
    operation: String,
}

/// Give an operation up. Its resource is left as it is, and can be changed or deleted again.
#[derive(Debug, clap::Args)]
struct Cancel {
    #[command(flatten)]
    operation: Named,
    /// Why; it is kept with what was done
    #[arg(long)]
    reason: String,
}

/// Begin an operation anew: at once, and with its deadline counted from now.
#[derive(Debug, clap::Args)]
struct Requeue {
    #[command(flatten)]
    operation: Named,
    /// Why; it is kept with what was done
    #[arg(long)]
    reason: String,
}

#[derive(Serialize)]
struct Operations {
    operations: Vec<Value>,
}

#[derive(Serialize)]
#[serde(transparent)]
struct Operation(Value);

impl Args {
    /// Carries it out.
    ///
    /// # Errors
    ///
    /// If the administrators' surface cannot be reached, or refuses.
    pub fn run(self, output: &mut Output) -> Result<(), Failure> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let surface = self.surface.connect()?;
            match self.verb {
                Verb::List(list) => output.show(&list.run(&surface).await?),
                Verb::Show(named) => output.show(&Operation(surface.get(&named.path()).await?)),
                Verb::Cancel(Cancel { operation, reason }) => {
                    output.show(&operation.change(&surface, "cancel", &reason).await?)
                }
                Verb::Requeue(Requeue { operation, reason }) => {
                    output.show(&operation.change(&surface, "requeue", &reason).await?)
                }
            }
        })
    }
}

impl List {
    async fn run(&self, surface: &AdminSurface) -> Result<Operations, Failure> {
        let mut path = url::form_urlencoded::Serializer::new(String::new());
        if self.active {
            path.append_pair("active", "true");
        }
        for (name, value) in [("subscription", &self.subscription), ("resource", &self.resource)] {
            if let Some(value) = value {
                path.append_pair(name, value);
            }
        }
        let path = format!("/admin/v1/operations?{}", path.finish());
        Ok(Operations { operations: surface.list(&path, self.limit).await? })
    }
}

impl Named {
    fn path(&self) -> String {
        format!("/admin/v1/operations/{}/{}", self.subscription, self.operation)
    }

    async fn change(&self, surface: &AdminSurface, verb: &str, reason: &str) -> Result<Operation, Failure> {
        let path = format!("{}/{verb}", self.path());
        Ok(Operation(surface.call(Method::POST, &path, Some(&json!({ "reason": reason }))).await?))
    }
}

impl Render for Operations {
    fn table(&self) -> Table {
        let rows = self.operations.iter().map(|operation| {
            let text = |name: &str| operation[name].as_str().unwrap_or("-");
            let waiting = operation["waiting"]["reason"].as_str().unwrap_or("-");
            [
                text("subscription"),
                text("id"),
                text("request"),
                text("state"),
                text("startedAt"),
                text("resource"),
                waiting,
            ]
        });
        output::table(
            ["SUBSCRIPTION", "OPERATION", "REQUEST", "STATE", "STARTED", "RESOURCE", "WAITING"],
            rows,
        )
    }
}

impl Render for Operation {
    fn table(&self) -> Table {
        let operation = &self.0;
        let text = |value: &Value| match value {
            Value::Null => "-".to_owned(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let mut rows: Vec<(String, String)> = [
            ("operation", "id"),
            ("subscription", "subscription"),
            ("resource", "resource"),
            ("request", "request"),
            ("state", "state"),
            ("started", "startedAt"),
            ("ended", "endedAt"),
            ("requeued", "requeuedAt"),
            ("correlation", "correlationId"),
        ]
        .into_iter()
        .map(|(name, member)| (name.to_owned(), text(&operation[member])))
        .collect();
        rows.push(("waiting".to_owned(), text(&operation["waiting"]["reason"])));
        rows.push(("error".to_owned(), text(&operation["error"]["message"])));
        for step in operation["steps"].as_array().into_iter().flatten() {
            let name = format!("step {} {}", text(&step["number"]), text(&step["component"]));
            let attempt = match step["attempt"].as_u64() {
                Some(attempt) if attempt > 1 => format!(" (attempt {attempt})"),
                _ => String::new(),
            };
            rows.push((name, format!("{}{attempt}: {}", text(&step["state"]), text(&step["message"]))));
        }
        output::table(["WHAT", "FOUND"], rows.iter().map(|(name, value)| [name.as_str(), value.as_str()]))
    }
}
