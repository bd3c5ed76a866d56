//! Who asked for what.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::request::Parts;
use http::{HeaderMap, Method};
use serde_json::Value;

use super::service;
use crate::{Azure, BASES, properties};

/// How many calls are remembered.
const REMEMBERED: usize = 100_000;

/// One call of the service.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The method.
    pub method: Method,
    /// The path below its base, such as `/clusters/…/node_pools`.
    pub path: String,
    /// Whether it only asks what would be.
    pub dry_run: bool,
    /// The operation that asks, if it says so.
    pub operation: Option<String>,
    /// The id that follows the work.
    pub correlation_id: Option<String>,
    /// What was sent.
    pub body: Value,
}

#[derive(Default)]
pub(super) struct Calls(Mutex<Book>);

#[derive(Default)]
struct Book {
    calls: VecDeque<Call>,
    asked: BTreeMap<String, usize>,
    /// By ARM resource: how many are under way, and how many were at most.
    at_once: HashMap<String, (usize, usize)>,
}

/// A call that is under way.
pub(super) struct UnderWay<'a> {
    calls: &'a Calls,
    /// The ARM resource whose cluster it changes.
    resource: Option<String>,
}

impl Call {
    pub(super) fn of(parts: &Parts, body: &[u8]) -> Self {
        let path = parts.uri.path();
        let path = BASES.iter().find_map(|base| path.strip_prefix(base)).unwrap_or(path);
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let property = |name: &str| body["properties"][name].as_str().map(str::to_owned);
        Self {
            method: parts.method.clone(),
            path: path.to_owned(),
            dry_run: service::is_dry_run(parts.uri.query()),
            operation: property(properties::OPERATION_ID),
            correlation_id: property(properties::CORRELATION_ID).or_else(|| correlation(&parts.headers)),
            body,
        }
    }

    /// Whether it only asks what would be.
    pub fn is_preflight(&self) -> bool {
        self.dry_run
    }

    /// Whether it asks for something to be made, changed or deleted, in earnest.
    pub fn is_mutation(&self) -> bool {
        self.method != Method::GET && !self.dry_run
    }

    /// Whether it asks for something to be made, in earnest.
    pub fn is_creation(&self) -> bool {
        self.method == Method::POST && !self.dry_run
    }

    /// Whether it asks for something to be changed, in earnest.
    pub fn is_update(&self) -> bool {
        self.method == Method::PATCH && !self.dry_run
    }

    /// Whether it asks for something to be deleted.
    pub fn is_deletion(&self) -> bool {
        self.method == Method::DELETE
    }

    /// Whether it reads something other than the watch.
    pub fn is_read(&self) -> bool {
        self.method == Method::GET && !self.is_watch()
    }

    /// Whether it is a watch.
    pub fn is_watch(&self) -> bool {
        self.path == "/events"
    }

    /// The cluster in its path.
    pub(super) fn cluster(&self) -> Option<&str> {
        self.path.strip_prefix("/clusters/")?.split('/').next()
    }

    /// The ARM resource in its body.
    pub(super) fn resource(&self) -> Option<String> {
        let azure: Azure = serde_json::from_value(self.body.get("azure")?.clone()).ok()?;
        (self.path == "/clusters").then(|| azure.resource_id())
    }
}

impl Calls {
    /// Notes a call; `resource` is the ARM resource whose cluster it would change.
    pub(super) fn begin(&self, call: &Call, resource: Option<String>) -> UnderWay<'_> {
        let mut book = self.book();
        if !call.is_watch() {
            book.calls.push_back(call.clone());
        }
        if book.calls.len() > REMEMBERED {
            book.calls.pop_front();
        }
        if call.is_mutation()
            && let Some(operation) = &call.operation
        {
            *book.asked.entry(operation.clone()).or_default() += 1;
        }
        let resource = resource.filter(|_| call.is_mutation());
        if let Some(resource) = &resource {
            let (now, most) = book.at_once.entry(resource.clone()).or_default();
            *now += 1;
            *most = (*most).max(*now);
        }
        UnderWay { calls: self, resource }
    }

    pub(super) fn all(&self) -> Vec<Call> {
        self.book().calls.iter().cloned().collect()
    }

    pub(super) fn asked(&self) -> BTreeMap<String, usize> {
        self.book().asked.clone()
    }

    pub(super) fn most_at_once(&self, resource: &str) -> usize {
        self.book().at_once.get(resource).map_or(0, |(_, most)| *most)
    }

    pub(super) fn most_at_once_of_any(&self) -> usize {
        self.book().at_once.values().map(|(_, most)| *most).max().unwrap_or_default()
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(resource) = &self.resource
            && let Some((now, _)) = self.calls.book().at_once.get_mut(resource)
        {
            *now -= 1;
        }
    }
}

fn correlation(headers: &HeaderMap) -> Option<String> {
    Some(headers.get("x-ms-correlation-request-id")?.to_str().ok()?.to_owned())
}
