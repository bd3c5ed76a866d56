//! One description of every wire type.
//!
//! The types say what a request may look like (`schemars` attributes beside those of serde): what is required, which
//! ranges, lengths, patterns and choices there are, what may be said only once. From that description come
//!
//! * the check of a body before it is converted ([`Form::check`]), which reports everything at once,
//! * what a patch may not remove ([`Form::check_nulls`]) and what may not change ([`Form::check_fixed`]),
//! * and the published documents ([`request`], [`response`]).
//!
//! Words beyond JSON Schema: `x-ms-mutability` without `update` is what may be said only once, and holds for everything
//! below it; `x-never-null` is what a patch may not remove though it need not be said; the format `arm-id` is a resource
//! id, `x-ms-arm-id-details` of which type.

mod check;
mod fixed;
mod form;
mod ids;

use schemars::JsonSchema;
use schemars::generate::{Contract, SchemaSettings};
use serde_json::{Map, Value};

pub(crate) use self::form::Form;
pub(crate) use self::ids::{DiskEncryptionSetId, IdentityId, SecurityGroupId, SubnetId};

/// For `x-ms-mutability`: said when the resource is made, and never again.
pub(crate) const CREATED: [&str; 2] = ["create", "read"];

/// What a request of this type may look like, in the words of OpenAPI 3.0.
pub(crate) fn request<T: JsonSchema>() -> Value {
    described::<T>(Contract::Deserialize)
}

/// What an answer of this type looks like. Nothing in an answer is `null`, and what a request may not say is marked.
pub(crate) fn response<T: JsonSchema>() -> Value {
    let mut answer = described::<T>(Contract::Serialize);
    never_null(&mut answer);
    mark_read_only(&mut answer, &described::<T>(Contract::Deserialize));
    answer
}

/// The same for what only ever leaves: nothing in it can be asked for, so that need not be said of each member.
pub(crate) fn output<T: JsonSchema>() -> Value {
    let mut answer = described::<T>(Contract::Serialize);
    never_null(&mut answer);
    answer
}

fn described<T: JsonSchema>(contract: Contract) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
        settings.contract = contract;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    normalise(&mut schema);
    schema
}

/// From JSON Schema of 2020 to OpenAPI 3.0: `null` becomes `nullable`, single constants become a list.
fn normalise(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    object.remove("title");
    unwrap_optional(object);
    list_constants(object);
    if let Some(Value::Array(types)) = object.get("type") {
        let others: Vec<_> = types.iter().filter(|name| *name != "null").cloned().collect();
        if others.len() < types.len() {
            object.insert("nullable".to_owned(), true.into());
        }
        if let [only] = others.as_slice() {
            let only = only.clone();
            object.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(choices)) = object.get_mut("enum") {
        choices.retain(|choice| !choice.is_null());
    }
    for_each_below(object, normalise);
}

/// `anyOf: [X, null]` is X that may be null.
fn unwrap_optional(object: &mut Map<String, Value>) {
    let Some(Value::Array(options)) = object.get("anyOf") else { return };
    let is_null = |option: &Value| option.get("type").is_some_and(|name| name == "null");
    if let [option, null] = options.as_slice()
        && is_null(null)
        && let Value::Object(option) = option.clone()
    {
        object.remove("anyOf");
        for (key, value) in option {
            // What is said of the field goes before what is said of its type.
            object.entry(key).or_insert(value);
        }
        object.insert("nullable".to_owned(), true.into());
    }
}

/// `oneOf` of constants, each with its description, is a list of choices.
fn list_constants(object: &mut Map<String, Value>) {
    if let Some(constant) = object.remove("const") {
        object.insert("enum".to_owned(), Value::Array(vec![constant]));
    }
    let Some(Value::Array(options)) = object.get("oneOf") else { return };
    let mut choices = Vec::new();
    for option in options {
        match (option.get("const"), option.get("enum").and_then(Value::as_array)) {
            (Some(constant), _) => choices.push(constant.clone()),
            (None, Some(listed)) => choices.extend(listed.iter().cloned()),
            (None, None) => return,
        }
    }
    object.remove("oneOf");
    object.insert("type".to_owned(), "string".into());
    object.insert("enum".to_owned(), Value::Array(choices));
}

fn never_null(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    object.remove("nullable");
    for_each_below(object, never_null);
}

/// Marks what is in an answer and in no request.
fn mark_read_only(answer: &mut Value, request: &Value) {
    if let (Some(Value::Object(members)), asked) = (answer.get_mut("properties"), request.get("properties")) {
        for (name, member) in members {
            match asked.and_then(|asked| asked.get(name)) {
                Some(asked) => mark_read_only(member, asked),
                None => {
                    if let Some(member) = member.as_object_mut() {
                        member.insert("readOnly".to_owned(), true.into());
                    }
                }
            }
        }
    }
    for below in ["items", "additionalProperties"] {
        if let (Some(answer), Some(request)) = (answer.get_mut(below), request.get(below)) {
            mark_read_only(answer, request);
        }
    }
}

fn for_each_below(object: &mut Map<String, Value>, change: fn(&mut Value)) {
    for members in ["properties", "$defs"] {
        if let Some(Value::Object(members)) = object.get_mut(members) {
            members.values_mut().for_each(change);
        }
    }
    for below in ["items", "additionalProperties"] {
        if let Some(below) = object.get_mut(below) {
            change(below);
        }
    }
    for several in ["anyOf", "oneOf", "allOf"] {
        if let Some(Value::Array(several)) = object.get_mut(several) {
            several.iter_mut().for_each(change);
        }
    }
}
