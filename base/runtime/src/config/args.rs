//! The arguments that every service shares.

use std::path::PathBuf;

use clap::Args;

use super::CONFIG_VARIABLE;
use crate::telemetry::{self, LOG_FORMAT_VARIABLE, LOG_VARIABLE};

/// How a service is configured, and how it talks about itself. Flatten it into the service's own arguments.
#[derive(Args, Clone, Debug, Default)]
pub struct ConfigArgs {
    /// Read the configuration from this file
    #[arg(long, value_name = "FILE", env = CONFIG_VARIABLE, hide_env_values = true)]
    pub config: Option<PathBuf>,

    /// Print the configuration in effect and exit
    #[arg(long)]
    pub dump_config: bool,

    /// Which events to log: a level, or a list such as `info,pilothouse_store=debug`
    #[arg(long, value_name = "FILTER", env = LOG_VARIABLE, hide_env_values = true)]
    pub log: Option<String>,

    /// How to write the log
    #[arg(long, value_name = "FORMAT", env = LOG_FORMAT_VARIABLE, hide_env_values = true)]
    pub log_format: Option<telemetry::Format>,
}

impl ConfigArgs {
    /// What the arguments change about `config`.
    pub fn telemetry(&self, mut config: telemetry::Config) -> telemetry::Config {
        if let Some(filter) = &self.log {
            config.filter = Some(filter.clone());
        }
        if let Some(format) = self.log_format {
            config.format = format;
        }
        config
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    /// Serves
    #[derive(Parser)]
    #[command(name = "service", disable_help_flag = true)]
    struct Service {
        #[command(flatten)]
        config: ConfigArgs,
    }

    #[test]
    fn help_names_every_shared_argument() {
        let help = Service::command().term_width(100).render_help().to_string();
        insta::assert_snapshot!(help, @r"
        Serves

        Usage: service [OPTIONS]

        Options:
              --config <FILE>        Read the configuration from this file [env: PILOTHOUSE_CONFIG]
              --dump-config          Print the configuration in effect and exit
              --log <FILTER>         Which events to log: a level, or a list such as
                                     `info,pilothouse_store=debug` [env: PILOTHOUSE_LOG]
              --log-format <FORMAT>  How to write the log [env: PILOTHOUSE_LOG_FORMAT] [possible values:
                                     auto, text, json]
        ");
    }

    #[test]
    fn arguments_override_the_configured_telemetry() {
        let arguments = ["service", "--log", "debug", "--log-format", "json"];
        let arguments = Service::try_parse_from(arguments).unwrap().config;
        let config = arguments.telemetry(telemetry::Config::default());
        assert_eq!(config.filter.as_deref(), Some("debug"));
        assert_eq!(config.format, telemetry::Format::Json);
    }
}
