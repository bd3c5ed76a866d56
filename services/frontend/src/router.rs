//! Which path is answered by whom.

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::from_fn;
use axum::routing::{MethodRouter, get, post, put};
use http::StatusCode;
use pilothouse_arm::CloudError;
use pilothouse_http::Stack;
use tower::util::MapRequest;

use crate::answer::{self, Refusal};
use crate::cluster::Clusters;
use crate::external_auth::ExternalAuths;
use crate::kind::Kind;
use crate::node_pool::NodePools;
use crate::service::App;
use crate::{credential, deployment, operation, path, provider, release, resource, subscription};

/// Everything that is answered in public.
pub(crate) fn public(app: App, stack: Stack) -> Router {
    let lower: fn(Request) -> Request = path::lower;
    // Around the routes, since it decides which one is taken.
    let gated = app.gate.clone().around(routes(app));
    // Bodies have a limit where they are read, with ARM's words for it.
    let stack = stack.with_body_limit(u64::MAX);
    Router::new().fallback_service(MapRequest::new(stack.around(gated), lower))
}

/// Every path, and what answers it.
fn table() -> Vec<(String, MethodRouter<App>)> {
    const PROVIDER: &str = "providers/microsoft.redhatopenshift";
    let subscription = "/subscriptions/{subscription}";
    let group = format!("{subscription}/resourcegroups/{{group}}");
    let all_clusters = format!("{subscription}/{PROVIDER}/hcpopenshiftclusters");
    let clusters = format!("{group}/{PROVIDER}/hcpopenshiftclusters");
    let cluster = format!("{clusters}/{{cluster}}");
    let location = format!("{subscription}/{PROVIDER}/locations/{{location}}");
    vec![
        ("/healthz".to_owned(), get(async || StatusCode::OK)),
        ("/location".to_owned(), get(async |State(app): State<App>| app.config.location.clone())),
        (format!("/{PROVIDER}/operations"), get(provider::operations)),
        (subscription.to_owned(), put(subscription::put).get(subscription::get)),
        (all_clusters, get(resource::list::<Clusters>)),
        (clusters, get(resource::list::<Clusters>)),
        (cluster.clone(), one::<Clusters>()),
        (format!("{cluster}/requestadmincredential"), post(credential::request)),
        (format!("{cluster}/revokecredentials"), post(credential::revoke)),
        (format!("{cluster}/nodepools"), get(resource::list::<NodePools>)),
        (format!("{cluster}/nodepools/{{nodepool}}"), one::<NodePools>()),
        (format!("{cluster}/externalauths"), get(resource::list::<ExternalAuths>)),
        (format!("{cluster}/externalauths/{{externalauth}}"), one::<ExternalAuths>()),
        (format!("{location}/hcpopenshiftversions"), get(release::version_list)),
        (format!("{location}/hcpopenshiftversions/{{version}}"), get(release::version_get)),
        (format!("{location}/hcpoperatoridentityrolesets"), get(release::role_set_list)),
        (format!("{location}/hcpoperatoridentityrolesets/{{roleset}}"), get(release::role_set_get)),
        (format!("{location}/hcpoperationstatuses/{{operation}}"), get(operation::status)),
        (format!("{location}/hcpoperationresults/{{operation}}"), get(operation::result)),
        (format!("{group}/{PROVIDER}/deployments/{{deployment}}/preflight"), post(deployment::preflight)),
    ]
}

/// Every path, for whoever has to visit all of them.
pub(crate) fn paths() -> Vec<String> {
    table().into_iter().map(|(path, _)| path).collect()
}

fn routes(app: App) -> Router {
    table()
        .into_iter()
        .fold(Router::new(), |router, (path, methods)| router.route(&path, methods))
        .fallback(nothing)
        .method_not_allowed_fallback(nothing)
        .layer(from_fn(answer::identify))
        .with_state(app)
}

/// What can be done with one resource of a kind.
fn one<K: Kind>() -> MethodRouter<App> {
    get(resource::get::<K>).put(resource::put::<K>).patch(resource::patch::<K>).delete(resource::delete::<K>)
}

async fn nothing() -> Refusal {
    CloudError::path_not_found().into()
}
