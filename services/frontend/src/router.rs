//! Which path is answered by whom.

use axum::Router;
use axum::extract::Request;
use axum::middleware::from_fn;
use axum::routing::{get, put};
use pilothouse_arm::CloudError;
use pilothouse_http::Stack;
use tower::util::MapRequest;

use crate::answer::{self, Refusal};
use crate::service::App;
use crate::{cluster, node_pool, operation, path, subscription};

/// Everything that is answered in public.
pub(crate) fn public(app: App, stack: Stack) -> Router {
    let lower: fn(Request) -> Request = path::lower;
    // Around the routes, since it decides which one is taken.
    Router::new().fallback_service(MapRequest::new(stack.around(routes(app)), lower))
}

fn routes(app: App) -> Router {
    const PROVIDER: &str = "providers/microsoft.redhatopenshift";
    let subscription = "/subscriptions/{subscription}";
    let all_clusters = format!("{subscription}/{PROVIDER}/hcpopenshiftclusters");
    let clusters = format!("{subscription}/resourcegroups/{{group}}/{PROVIDER}/hcpopenshiftclusters");
    let cluster = format!("{clusters}/{{cluster}}");
    let node_pools = format!("{cluster}/nodepools");
    let node_pool = format!("{node_pools}/{{nodepool}}");
    let location = format!("{subscription}/{PROVIDER}/locations/{{location}}");
    Router::new()
        .route(subscription, put(subscription::put).get(subscription::get))
        .route(&all_clusters, get(cluster::list))
        .route(&clusters, get(cluster::list))
        .route(&cluster, put(cluster::put).patch(cluster::patch).get(cluster::get).delete(cluster::delete))
        .route(&node_pools, get(node_pool::list))
        .route(
            &node_pool,
            put(node_pool::put).patch(node_pool::patch).get(node_pool::get).delete(node_pool::delete),
        )
        .route(&format!("{location}/hcpoperationstatuses/{{operation}}"), get(operation::status))
        .route(&format!("{location}/hcpoperationresults/{{operation}}"), get(operation::result))
        .fallback(nothing)
        .method_not_allowed_fallback(nothing)
        .layer(from_fn(answer::identify))
        .with_state(app)
}

async fn nothing() -> Refusal {
    CloudError::path_not_found().into()
}
