//! `token`: lets a developer in.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use pilothouse_access::{LocalIssuer, LocalRole, TokenRequest};
use pilothouse_region::TENANT;
use pilothouse_runtime::{Clock, config};
use secrecy::ExposeSecret as _;
use uuid::Uuid;

use super::region_data::RegionArgs;
use crate::{Failure, Hint, Output};

/// Print a token for development, signed by a region's own issuer.
///
/// It is good where that issuer is believed: a region that was started with `--authentication jwt`, or a frontend whose
/// `access.jwt.keys_file` is the issuer's `keys.json`. Whoever can read the issuer's folder can be anybody.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  curl -H \"Authorization: Bearer $(pilothouse token --name ada)\" http://127.0.0.1:8443/...
  pilothouse token --role administrator                 For the administrators' surface
  pilothouse token --issuer-dir ./issuer --tenant 11111111-1111-1111-1111-111111111111")]
pub struct Args {
    /// The user's name; without it the token is that of an application
    #[arg(long)]
    name: Option<String>,
    /// The tenant that the caller is at home in
    #[arg(long, value_name = "ID", default_value_t = TENANT)]
    tenant: Uuid,
    /// The application that the caller uses [default: one of the role's own]
    #[arg(long, value_name = "ID")]
    app_id: Option<String>,
    /// How long it is good for, such as `30m`
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    lifetime: config::Duration,
    /// What the caller is to a region that believes its own issuer
    #[arg(long, value_enum)]
    role: Option<Role>,
    #[command(flatten)]
    region: RegionArgs,
    /// The issuer's folder, made if there is none [default: that of the region]
    #[arg(long, value_name = "DIR", conflicts_with = "data_dir")]
    issuer_dir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Role {
    /// Azure Resource Manager: believed about its callers, and let into every subscription
    Arm,
    /// May use the administrators' surface
    Administrator,
}

/// The longest life of a token that is only for trying things out.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 60 * 60);

impl Args {
    /// Prints it.
    ///
    /// # Errors
    ///
    /// If the issuer's folder cannot be used.
    pub fn run(self, output: &mut Output) -> Result<(), Failure> {
        let folder = match &self.issuer_dir {
            Some(folder) => folder.clone(),
            None => self.region.data_dir()?.issuer(),
        };
        let lifetime = self.lifetime.0;
        if lifetime.is_zero() || lifetime > LONGEST {
            return Err(anyhow!("a token cannot be good for {}", self.lifetime)).hint("at most 30 days");
        }
        let request = TokenRequest {
            name: self.name,
            tenant: Some(self.tenant),
            app_id: self.app_id,
            role: self.role.map(|role| match role {
                Role::Arm => LocalRole::Arm,
                Role::Administrator => LocalRole::Administrator,
            }),
            lifetime,
        };
        let issuer = LocalIssuer::open(&folder)
            .hint("name the region with `--data-dir DIR`, or the issuer with `--issuer-dir DIR`")?;
        let token = issuer.issue(&request, Clock::system().now())?;
        output.raw(format!("{}\n", token.expose_secret()).as_bytes())
    }
}
