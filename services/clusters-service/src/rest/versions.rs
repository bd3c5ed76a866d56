use super::{Context, Extension, Path, RawQuery, Response, Shared, State, StatusCode, list_query};

use crate::catalogue;
use crate::refusal::Refusal;

pub(super) async fn list(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    RawQuery(query): RawQuery,
) -> Response {
    let outcome = list_query(query.as_deref()).and_then(|query| rest.clusters.version_list(&query));
    rest.answer(&context, StatusCode::OK, outcome)
}

pub(super) async fn get(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path(id): Path<String>,
) -> Response {
    let found = catalogue::find(&rest.clusters.config, &id);
    rest.answer(&context, StatusCode::OK, found.ok_or(Refusal::NotFound { kind: "Version", id }))
}
