//! Where a PostgreSQL store is, and how its connections are set up.

use std::fmt;
use std::net::IpAddr;

use sqlx::ConnectOptions as _;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use url::Url;

use crate::Error;

/// A database and the schema in it. Shown without the password.
#[derive(Clone)]
pub(crate) struct Address {
    options: PgConnectOptions,
    schema: String,
    shown: String,
}

const DEFAULT_SCHEMA: &str = "pilothouse";

impl Address {
    /// From `postgres://user@host/database?schema=name&…`; everything else as PostgreSQL's own clients take it.
    pub(crate) fn try_new(text: &str) -> Result<Self, Error> {
        let invalid = |problem: String| Error::Invalid { what: "PostgreSQL address".to_owned(), problem };
        let mut url = Url::parse(text).map_err(|error| invalid(error.to_string()))?;
        let mut schema = DEFAULT_SCHEMA.to_owned();
        let others: Vec<(String, String)> = url
            .query_pairs()
            .filter_map(|(name, value)| {
                if name == "schema" {
                    schema = value.into_owned();
                    return None;
                }
                Some((name.into_owned(), value.into_owned()))
            })
            .collect();
        if !is_schema_name(&schema) {
            return Err(invalid(format!(
                "`{schema}` is no schema name: lower-case letters, digits, `_`, at most 50"
            )));
        }
        url.set_query(None);
        if !others.is_empty() {
            url.query_pairs_mut().extend_pairs(&others);
        }
        let mut options: PgConnectOptions =
            url.as_str().parse().map_err(|error: sqlx::Error| invalid(error.to_string()))?;
        let chosen = others.iter().any(|(name, _)| name == "sslmode" || name == "ssl-mode");
        if !chosen && !is_local(&options) {
            // Off this machine nothing goes in clear, or to somebody who merely claims the name.
            options = options.ssl_mode(PgSslMode::VerifyFull);
        }
        let database = options.get_database().unwrap_or_else(|| options.get_username()).to_owned();
        let shown =
            format!("postgres://{}:{}/{database}?schema={schema}", options.get_host(), options.get_port(),);
        let options = options
            .application_name("pilothouse")
            .disable_statement_logging()
            .statement_cache_capacity(256)
            .options([
                ("search_path", schema.as_str()),
                // What was acknowledged is on disk, whatever the server's default.
                ("synchronous_commit", "on"),
                ("default_transaction_isolation", "read committed"),
                // A process that stops in the middle of a batch must not keep the others out for long.
                ("idle_in_transaction_session_timeout", "10000"),
                ("lock_timeout", "20000"),
                ("statement_timeout", "60000"),
                // Every statement of ours goes by an index. Left to itself the planner, which first sees the tables
                // empty, remembers to read them whole.
                ("enable_seqscan", "off"),
                ("enable_hashjoin", "off"),
                ("enable_mergejoin", "off"),
                ("jit", "off"),
            ]);
        Ok(Self { options, schema, shown })
    }

    pub(crate) fn options(&self) -> &PgConnectOptions {
        &self.options
    }

    pub(crate) fn schema(&self) -> &str {
        &self.schema
    }

    /// The channel that this store's commits are announced on. Channels belong to a database, not a schema.
    pub(crate) fn channel(&self) -> String {
        format!("pilothouse_{}", self.schema)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// It is put into statements as it is, so it is checked narrowly.
fn is_schema_name(text: &str) -> bool {
    (1..=50).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

fn is_local(options: &PgConnectOptions) -> bool {
    let host = options.get_host();
    options.get_socket().is_some()
        || host.starts_with('/')
        || host == "localhost"
        || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_never_shown() {
        let address =
            Address::try_new("postgres://ada:hunter2@127.0.0.1:5433/region?schema=maestro").unwrap();
        assert_eq!(address.to_string(), "postgres://127.0.0.1:5433/region?schema=maestro");
        assert!(!format!("{address:?}").contains("hunter2"));
    }

    #[test]
    fn certificates_are_checked_off_this_machine_unless_told_otherwise() {
        let mode = |text: &str| format!("{:?}", Address::try_new(text).unwrap().options().get_ssl_mode());
        assert_eq!(mode("postgres://ada@db.example.test/region"), "VerifyFull");
        assert_eq!(mode("postgres://ada@db.example.test/region?sslmode=disable"), "Disable");
        assert_eq!(mode("postgres://ada@[::1]/region"), "Prefer");
    }

    #[test]
    fn a_schema_that_would_need_quoting_is_refused() {
        for schema in ["", "A", "1a", "a-b", "a;drop", "a\"b"] {
            assert!(
                Address::try_new(&format!("postgres://ada@127.0.0.1/x?schema={schema}")).is_err(),
                "{schema}"
            );
        }
    }
}
