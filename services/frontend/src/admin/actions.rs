//! What administrators did.

use axum::Json;
use axum::extract::State;
use http::request::Parts;
use serde_json::Value;

use super::{Paging, page, parameters, value};
use crate::answer::Refusal;
use crate::service::App;

pub(super) async fn list(State(app): State<App>, parts: Parts) -> Result<Json<Value>, Refusal> {
    let paging: Paging = parameters(&parts)?;
    let listed = app.records.action_list(paging.limit()?, paging.token.as_deref()).await?;
    Ok(page(&listed, &parts, |action| value(&action.record)))
}
