//! Who makes a request, whether they may, and the record of it.
//!
//! A service that answers people puts a [`Gate`] around its router. For each request it
//!
//! 1. **asks who it is** ([`Access::identify`]): a token ([`Jwt`]) or a client certificate ([`Mtls`]), as the
//!    configuration says; without either, everybody on this machine, and [`Access::bind`] keeps the service to the loopback;
//! 2. **asks whether they may**: callers configured as ARM may everywhere; others in subscriptions of their own tenant and in
//!    those that the role list gives them; on the administrators' surface, administrators alone;
//! 3. **drops what they say of themselves**: `X-Ms-*` headers are believed from ARM, for others they are replaced by what
//!    the credentials say;
//! 4. **records it** ([`Audit`]), refusals included.
//!
//! What comes through carries a [`Principal`]. Whoever believes tokens in a way of its own finds the keys of their issuers in [`Keys`]. The same check can be asked over HTTP by a proxy in front ([`authorize`]),
//! and [`LocalIssuer`] makes tokens for development. Why it is so: `docs/decisions/0009-access.md`.
//!
//! # Tasks
//!
//! [`Access::watch`] reads the issuer's keys by age, [`Audit::run`] writes the audit file. Both may be stopped anywhere.

mod access;
mod audit;
mod authorize;
mod config;
mod denial;
mod gate;
mod headers;
mod issuer;
mod keys;
mod metrics;
mod principal;
mod token;

pub use self::access::{Access, Error};
pub use self::audit::{Audit, AuditError, Record};
pub use self::authorize::authorize;
pub use self::config::{AuditConfig, Callers, Config, ConfigError, Jwt, Mtls, Role};
pub use self::denial::{Denial, Fault, Scheme};
pub use self::gate::{Gate, TenantFuture, Tenants, Through};
pub use self::issuer::{IssuerError, LocalIssuer, LocalRole, TokenRequest};
pub use self::keys::{Keys, KeysError};
pub use self::principal::Principal;
