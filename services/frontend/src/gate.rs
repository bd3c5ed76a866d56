//! Who may do what in a subscription.

use http::Method;
use pilothouse_access::Principal;
use pilothouse_arm::{CloudError, ErrorCode, SubscriptionId};
use pilothouse_records::{Stored, Subscription, SubscriptionState};

use crate::answer::Refusal;

/// What the state of a subscription allows: looking and cleaning up is possible for longer than making something.
pub(crate) fn admit(
    id: SubscriptionId,
    told: Option<Stored<Subscription>>,
    method: &Method,
) -> Result<Stored<Subscription>, Refusal> {
    let looks = matches!(*method, Method::GET | Method::HEAD | Method::DELETE);
    let refused = |status, state: SubscriptionState| {
        let message = format!("The request is not allowed in the state '{state}' of subscription '{id}'.");
        Err(CloudError::new(ErrorCode::InvalidSubscriptionState, message).with_status(status).into())
    };
    let Some(told) = told else { return refused(400, SubscriptionState::Unregistered) };
    match told.state {
        SubscriptionState::Registered => Ok(told),
        SubscriptionState::Warned | SubscriptionState::Suspended if looks => Ok(told),
        state @ (SubscriptionState::Warned | SubscriptionState::Suspended) => refused(409, state),
        state @ (SubscriptionState::Unregistered | SubscriptionState::Deleted) => refused(400, state),
    }
}

/// The caller has no business in the subscription.
pub(crate) fn not_allowed(principal: &Principal, id: SubscriptionId) -> Refusal {
    let message = format!(
        "'{}' is not allowed to act on subscription '{id}'; use an identity of the subscription's tenant.",
        principal.name()
    );
    CloudError::new(ErrorCode::AuthorizationFailed, message).into()
}
