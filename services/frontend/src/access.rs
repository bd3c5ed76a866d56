//! The gate around the routes, and who is asked for a subscription's tenant.

use pilothouse_access::{TenantFuture, Tenants};
use pilothouse_arm::{CloudError, SubscriptionId};
use pilothouse_records::Records;
use pilothouse_runtime::Chain;
use tracing::error;

/// What is answered without asking who wants to know: probes.
pub(crate) const OPEN: &[&str] = &["/healthz", "/location"];

/// The tenants of subscriptions, as ARM told them.
#[derive(Debug)]
pub(crate) struct SubscriptionTenants(pub(crate) Records);

impl Tenants for SubscriptionTenants {
    fn tenant_of<'a>(&'a self, subscription: SubscriptionId) -> TenantFuture<'a> {
        Box::pin(async move {
            match self.0.subscription_get(subscription).await {
                Ok(stored) => Ok(stored.and_then(|stored| stored.tenant_id().map(str::to_owned))),
                Err(error) => {
                    error!(error = %Chain(&error), "the tenant of a subscription could not be read");
                    Err(CloudError::unavailable(
                        "Whether you may do this could not be found out at the moment; try again later.",
                    ))
                }
            }
        })
    }
}
