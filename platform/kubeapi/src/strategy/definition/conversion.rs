//! How objects get from one version to another. Nobody is asked here: the fields that two versions have in common are kept.

use serde_json::Value;

use crate::status::Cause;
use crate::strategy::{items, text};

const REVIEWS: [&str; 2] = ["v1", "v1beta1"];

pub(super) fn check(conversion: &Value, causes: &mut Vec<Cause>) {
    let webhook = &conversion["webhook"];
    let client = &webhook["clientConfig"];
    let reviews = items(webhook, "/conversionReviewVersions");
    match text(conversion, "/strategy") {
        "" => causes.push(Cause::required("spec.conversion.strategy", "")),
        "None" => {
            let why = "should not be set when strategy is not set to Webhook";
            if !client.is_null() {
                causes.push(Cause::forbidden("spec.conversion.webhookClientConfig", why));
            }
            if !reviews.is_empty() {
                causes.push(Cause::forbidden("spec.conversion.conversionReviewVersions", why));
            }
        }
        "Webhook" => {
            let before = causes.len();
            self::client(client, causes);
            self::reviews(reviews, causes);
            if causes.len() == before {
                // Nobody would be asked, so nobody may promise it.
                let why = "conversion webhooks are not called by this server; set spec.conversion.strategy to None, with which the fields that versions have in common are kept";
                causes.push(Cause::forbidden("spec.conversion.strategy", why));
            }
        }
        _ => {
            let at = "spec.conversion.strategy";
            causes.push(Cause::not_supported(at, &conversion["strategy"], ["None", "Webhook"]));
        }
    }
}

fn client(client: &Value, causes: &mut Vec<Cause>) {
    const AT: &str = "spec.conversion.webhookClientConfig";
    let service = &client["service"];
    match (client.is_null(), client["url"].as_str(), service.is_object()) {
        (true, ..) => causes.push(Cause::required(AT, "required when strategy is set to Webhook")),
        (false, Some(link), false) => match url::Url::parse(link) {
            Ok(link) if link.scheme() != "https" => {
                let why = "'https' is the only allowed URL scheme; desired format: https://host[/path]";
                causes.push(Cause::invalid(format!("{AT}.url"), &Value::from(link.scheme()), why));
            }
            Ok(_) => {}
            Err(error) => {
                let why = format!("url must be a valid URL: {error}; desired format: https://host[/path]");
                causes.push(Cause::required(format!("{AT}.url"), &why));
            }
        },
        (false, None, true) => {
            // The one is asked for where the other is missing; that is how it is everywhere.
            for (missing, told) in [("namespace", "name"), ("name", "namespace")] {
                if text(service, &format!("/{missing}")).is_empty() {
                    causes.push(Cause::required(format!("{AT}.service.{told}"), ""));
                }
            }
            let port = service["port"].as_i64().unwrap_or(443);
            if !(1..=65535).contains(&port) {
                let why = "port is not valid: must be between 1 and 65535, inclusive";
                causes.push(Cause::invalid(format!("{AT}.service.port"), &service["port"], why));
            }
        }
        _ => causes.push(Cause::required(AT, "exactly one of url or service is required")),
    }
}

fn reviews(reviews: &[Value], causes: &mut Vec<Cause>) {
    const AT: &str = "spec.conversion.conversionReviewVersions";
    if reviews.is_empty() {
        causes.push(Cause::required(AT, ""));
    } else if !reviews.iter().any(|one| REVIEWS.contains(&one.as_str().unwrap_or_default())) {
        let why = format!("must include at least one of {}", REVIEWS.join(", "));
        causes.push(Cause::invalid(AT, &Value::from(reviews.to_vec()), why));
    }
}
