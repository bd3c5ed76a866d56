//! What a request passes before any handler sees it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use pilothouse_arm::{CloudError, SubscriptionId, header};
use pilothouse_http::{Context, Peer};

use crate::access::Access;
use crate::audit::{Audit, Record};
use crate::denial::Denial;
use crate::headers;
use crate::principal::Principal;

/// Tells which tenant a subscription belongs to.
pub trait Tenants: fmt::Debug + Send + Sync {
    /// The tenant; none if the subscription is not known, or nobody told its tenant.
    fn tenant_of<'a>(&'a self, subscription: SubscriptionId) -> TenantFuture<'a>;
}

/// What [`Tenants`] answers with. The error is what the caller is told when it cannot be found out now.
pub type TenantFuture<'a> = Pin<Box<dyn Future<Output = Result<Option<String>, CloudError>> + Send + 'a>>;

/// Who is let through.
#[derive(Clone, Debug)]
pub enum Through {
    /// Whoever is known, into the subscriptions that are theirs.
    Callers(Arc<dyn Tenants>),
    /// Administrators.
    Administrators,
}

/// Around a router: asks who calls, whether they may, drops what they must not say of themselves, and records it. A
/// cheap handle.
#[derive(Clone, Debug)]
pub struct Gate(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    access: Access,
    audit: Audit,
    through: Through,
    open: &'static [&'static str],
}

/// Why a request does not pass.
#[derive(Debug)]
pub(crate) enum Refused {
    Denied(Denial),
    /// Whether they may could not be found out.
    Unknown(Box<CloudError>),
}

impl Gate {
    /// A gate that lets these through.
    pub fn new(access: Access, audit: Audit, through: Through) -> Self {
        Self(Arc::new(Inner { access, audit, through, open: &[] }))
    }

    /// The same with paths that are open to everybody, and not recorded: probes.
    #[must_use]
    pub fn with_open_paths(self, open: &'static [&'static str]) -> Self {
        let Inner { access, audit, through, .. } = &*self.0;
        Self(Arc::new(Inner { access: access.clone(), audit: audit.clone(), through: through.clone(), open }))
    }

    /// The router behind the gate: every route, also one that does not exist. It belongs inside of
    /// [`Stack::around`](pilothouse_http::Stack::around), which gives requests their ids.
    pub fn around(&self, router: Router) -> Router {
        router.layer(from_fn_with_state(self.clone(), pass))
    }

    /// Who makes a request, if they may.
    pub(crate) async fn decide(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
        peer: Option<&Peer>,
    ) -> (Option<Principal>, Result<(), Refused>) {
        let Inner { access, through, .. } = &*self.0;
        let principal = match access.identify(headers, peer).await {
            Ok(principal) => principal,
            Err(denial) => return (None, Err(Refused::Denied(denial))),
        };
        let allowed = match through {
            Through::Administrators if principal.is_administrator() => Ok(()),
            Through::Administrators => {
                Err(Refused::Denied(Denial::NotAdministrator(principal.name().to_owned())))
            }
            Through::Callers(tenants) => may(&principal, method, path, tenants.as_ref()).await,
        };
        (Some(principal), allowed)
    }

    pub(crate) fn access(&self) -> &Access {
        &self.0.access
    }

    pub(crate) fn audit(&self) -> &Audit {
        &self.0.audit
    }
}

/// ARM may everywhere; others where their tenant or the role list lets them.
async fn may(
    principal: &Principal,
    method: &Method,
    path: &str,
    tenants: &dyn Tenants,
) -> Result<(), Refused> {
    if principal.believes_headers() {
        return Ok(());
    }
    let Some((text, is_itself)) = subscription_of(path) else { return Ok(()) };
    let denied = || {
        Refused::Denied(Denial::Subscription {
            name: principal.name().to_owned(),
            subscription: text.clone(),
        })
    };
    // What cannot be understood here might be understood further in.
    let subscription = text.parse().map_err(|_| denied())?;
    let told = is_itself && !matches!(*method, Method::GET | Method::HEAD);
    let may = if told || principal.may_manage(subscription) {
        principal.may_manage(subscription)
    } else {
        let tenant =
            tenants.tenant_of(subscription).await.map_err(|error| Refused::Unknown(Box::new(error)))?;
        principal.may_act_on(subscription, tenant.as_deref())
    };
    if may { Ok(()) } else { Err(denied()) }
}

/// The subscription that a path is in, as the path spells it without escapes, and whether the path ends there.
fn subscription_of(path: &str) -> Option<(String, bool)> {
    let mut segments = path.trim_matches('/').split('/');
    if !unescaped(segments.next()?).eq_ignore_ascii_case("subscriptions") {
        return None;
    }
    let subscription = unescaped(segments.next()?);
    Some((subscription, segments.next().is_none()))
}

/// A segment of a path without its escapes: handlers read it so.
fn unescaped(segment: &str) -> String {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let [first, tail @ ..] = rest {
        let escape = match rest {
            [b'%', high, low, ..] => std::str::from_utf8(&[*high, *low])
                .ok()
                .and_then(|digits| u8::from_str_radix(digits, 16).ok()),
            _ => None,
        };
        bytes.push(escape.unwrap_or(*first));
        rest = if escape.is_some() { &rest[3..] } else { tail };
    }
    String::from_utf8(bytes).unwrap_or_else(|_| segment.to_owned())
}

async fn pass(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    let path = request.uri().path();
    if gate.0.open.contains(&path) {
        return next.run(request).await;
    }
    let context = request.extensions().get::<Context>().cloned();
    let peer = request.extensions().get::<Peer>().cloned();
    let (principal, allowed) = gate.decide(request.method(), path, request.headers(), peer.as_ref()).await;
    let mut record = Record::new(request.method(), path, request.headers(), gate.access().clock().now())
        .by(principal.as_ref(), peer.as_ref())
        .within(context.as_ref());
    let response = match (principal, allowed) {
        (Some(principal), Ok(())) => {
            admit(request.headers_mut(), &principal, &gate);
            request.extensions_mut().insert(principal);
            next.run(request).await
        }
        (_, Err(refused)) => {
            record = record.refused(&refused);
            let mut response = refused.into_response();
            if let Some(id) =
                context.as_ref().and_then(|context| HeaderValue::from_str(context.request_id()).ok())
            {
                response.headers_mut().insert(HeaderName::from_static(header::REQUEST_ID), id);
            }
            response
        }
        // Cannot happen: whoever is allowed is known.
        (None, Ok(())) => Denial::KeysUnavailable.into_response(),
    };
    gate.audit().record(record.answered(&response));
    response
}

/// The token ends here, and with it what its bearer says of itself.
fn admit(headers: &mut HeaderMap, principal: &Principal, gate: &Gate) {
    headers.remove(AUTHORIZATION);
    if !principal.believes_headers() {
        headers::replace(headers, principal, gate.access().clock().now());
    }
}

impl Refused {
    pub(crate) fn into_response(self) -> Response {
        match self {
            Self::Denied(denial) => denial.into_response(),
            Self::Unknown(error) => crate::denial::respond(&error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subscription_is_found_in_any_spelling() {
        let id = "0b1f6471-1bf0-4dda-aec3-cb9272f09590";
        for (path, expected) in [
            (format!("/subscriptions/{id}"), Some((id, true))),
            (format!("/SUBSCRIPTIONS/{}/", id.to_uppercase()), Some((id, true))),
            (format!("/subscriptions/{id}/resourceGroups/g"), Some((id, false))),
            (format!("/subscriptions/%30{}/resourceGroups/g", &id[1..]), Some((id, false))),
            (format!("/%73ubscriptions/{id}/x"), Some((id, false))),
            (format!("//subscriptions/{id}/x"), Some((id, false))),
            ("/subscriptions".to_owned(), None),
            ("/subscriptions/mine/x".to_owned(), Some(("mine", false))),
            ("/subscriptions//x".to_owned(), Some(("", false))),
            (format!("/providers/x/subscriptions/{id}"), None),
        ] {
            let found = subscription_of(&path).map(|(text, itself)| (text.to_lowercase(), itself));
            assert_eq!(found, expected.map(|(text, itself)| (text.to_owned(), itself)), "{path}");
        }
    }
}
