//! Where a store is, told without its password.

use anyhow::{Context as _, anyhow};
use pilothouse_runtime::config::SecretFile;
use secrecy::ExposeSecret as _;
use url::Url;

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
