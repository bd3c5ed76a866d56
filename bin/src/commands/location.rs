//! Where a store is, told without its password.

use anyhow::{Context as _, anyhow};
use pilothouse_runtime::Shutdown;
use pilothouse_runtime::config::SecretFile;
use pilothouse_store::{Catalog, Keyring, Location, Options, Store};
use secrecy::ExposeSecret as _;
use url::Url;

use crate::{Failure, Hint};

/// Where a store is, as it is configured.
pub(crate) struct Place<'a> {
    pub(crate) location: &'a str,
    pub(crate) password_file: Option<&'a SecretFile>,
    /// By default the database's path with `.key`.
    pub(crate) key_file: Option<&'a str>,
}

impl Place<'_> {
    /// Opens the store with what is in it.
    pub(crate) async fn open(&self, catalog: Catalog, shutdown: Shutdown) -> Result<Store, Failure> {
        const HINT: &str = "for example `store = \"postgres://user@host/database?schema=name\"`";
        let text = with_password(self.location, self.password_file)
            .hint("put the password into a file and name that as `store_password_file`")?;
        let location = text.parse::<Location>().hint(HINT)?;
        let key_file = self.key_file.map(str::to_owned);
        let key_file = key_file.or_else(|| location.path().map(|path| format!("{path}.key")));
        let keyring = match key_file {
            Some(path) => Some(Keyring::open_or_create(path).context("the store's keys cannot be used")?),
            None if catalog.has_secrets() => {
                let refused = anyhow!("the store keeps secrets, and there is no key to seal them with");
                return Err(refused).hint("name the file of its keys as `store_key_file`");
            }
            None => None,
        };
        let options = Options { keyring, ..Options::new(location, catalog, shutdown) };
        Store::open(options)
            .await
            .hint("a SQLite store is for one process; processes of their own share a PostgreSQL store")
    }
}

/// The text of a location, with the password of its file. One that has a password in it is refused: other users of the
/// machine can read command lines, and configurations are copied around.
pub(crate) fn with_password(location: &str, password_file: Option<&SecretFile>) -> anyhow::Result<String> {
    let Ok(mut url) = Url::parse(location) else { return Ok(location.to_owned()) };
    if url.cannot_be_a_base() {
        return Ok(location.to_owned());
    }
    if url.password().is_some() {
        return Err(anyhow!("the store's location has a password in it"));
    }
    let Some(file) = password_file else { return Ok(location.to_owned()) };
    let password = file.read().context("the password of the store cannot be read")?;
    // Fails only for addresses that have no user in the first place.
    let _ = url.set_password(Some(password.expose_secret()));
    Ok(url.into())
}
