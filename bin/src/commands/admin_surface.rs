//! The way to the administrators' surface.

use std::env;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use http::{HeaderName, Method};
use pilothouse_access::{LocalIssuer, LocalRole, TokenRequest};
use pilothouse_http::{Client, ClientBuilder};
use pilothouse_pki::Bundle;
use pilothouse_region::{Endpoints, TENANT};
use pilothouse_runtime::Clock;
use pilothouse_runtime::config::SecretFile;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use url::Url;

use super::region_data::RegionArgs;
use crate::{Failure, Hint};

/// One call.
const CALL: Duration = Duration::from_secs(30);
/// A token for as long as a command runs.
const TOKEN: Duration = Duration::from_secs(300);
/// Whom a region that asks nobody is told.
const PRINCIPAL: HeaderName = HeaderName::from_static("x-ms-client-principal-name");

/// Which surface is meant.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AdminArgs {
    #[command(flatten)]
    region: RegionArgs,
    /// The administrators' surface [default: that of the region]
    #[arg(long, value_name = "URL", global = true)]
    endpoint: Option<Url>,
    /// A file with a token for it [default: one of the region's own issuer, if it has one]
    #[arg(long, value_name = "FILE", global = true)]
    token_file: Option<std::path::PathBuf>,
    /// Authorities that certify it, PEM
    #[arg(long, value_name = "FILE", global = true)]
    authorities: Option<std::path::PathBuf>,
}

/// The administrators' surface of a frontend.
pub(crate) struct AdminSurface {
    client: Client,
    base: Url,
    token: Option<SecretString>,
}

impl AdminArgs {
    pub(crate) fn connect(&self) -> Result<AdminSurface, Failure> {
        let mut builder = ClientBuilder::new(CALL);
        if let Some(file) = &self.authorities {
            builder = builder.with_authorities(Bundle::load(file)?);
        }
        Ok(AdminSurface { client: builder.build()?, base: self.address()?, token: self.token()? })
    }

    fn address(&self) -> Result<Url, Failure> {
        const HINT: &str =
            "`pilothouse up` starts a region; `--data-dir DIR` or `--endpoint URL` names another one";
        if let Some(endpoint) = &self.endpoint {
            return Ok(endpoint.clone());
        }
        let file = self.region.data_dir()?.endpoints_file();
        let text = std::fs::read(&file)
            .with_context(|| format!("no region runs here: `{}` cannot be read", file.display()))
            .hint(HINT)?;
        let endpoints: Endpoints = serde_json::from_slice(&text)?;
        Url::parse(&endpoints.admin).context("the region has no administrators' surface").hint(HINT)
    }

    fn token(&self) -> Result<Option<SecretString>, Failure> {
        if let Some(file) = &self.token_file {
            return Ok(Some(SecretFile::new(file.clone()).read()?));
        }
        // Somebody else's surface does not believe our issuer, and need not see its tokens.
        let issuer = self.region.data_dir()?.issuer();
        if self.endpoint.is_some() || !issuer.exists() {
            return Ok(None);
        }
        let request = TokenRequest {
            name: user(),
            tenant: Some(TENANT),
            app_id: None,
            role: Some(LocalRole::Administrator),
            lifetime: TOKEN,
        };
        Ok(Some(LocalIssuer::open(&issuer)?.issue(&request, Clock::system().now())?))
    }
}

impl AdminSurface {
    /// What is at a path.
    pub(crate) async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.call(Method::GET, path, None).await
    }

    /// Every entry of a list, page by page, until there are `limit`.
    pub(crate) async fn list(&self, path: &str, limit: usize) -> Result<Vec<Value>, Failure> {
        let (mut found, mut next) = (Vec::new(), Some(path.to_owned()));
        while let Some(path) = next.take().filter(|_| found.len() < limit) {
            let mut page = self.get(&path).await?;
            if let Value::Array(values) = page["value"].take() {
                found.extend(values);
            }
            next = page["nextLink"].as_str().map(str::to_owned);
        }
        found.truncate(limit);
        Ok(found)
    }

    /// Asks for something to be done.
    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Failure> {
        let mut call = self.client.call(method, self.base.join(path)?);
        if let Some(user) = user() {
            call = call.header(PRINCIPAL, &user);
        }
        if let Some(token) = &self.token {
            call = call.bearer(token.expose_secret());
        }
        if let Some(body) = body {
            call = call.json(body);
        }
        let response = call.send().await.hint("does the region run? `pilothouse up` starts one")?;
        let status = response.status();
        let answer: Value = serde_json::from_slice(&response.bytes().await?).unwrap_or_default();
        if status.is_success() {
            return Ok(answer);
        }
        let message = answer["error"]["message"].as_str().unwrap_or("it gave no reason").to_owned();
        let hint = match status.as_u16() {
            401 | 403 => "`--token-file FILE` names a file with an administrator's token",
            404 => "`pilothouse operations list` shows what there is",
            _ => "`--help` after the command explains what it expects",
        };
        Err(anyhow!("{message}").context(format!("the administrators' surface answered {}", status.as_u16())))
            .hint(hint)
    }
}

/// Who sits here.
fn user() -> Option<String> {
    env::var("USER").ok().filter(|name| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic()))
}
