use serde_json::{Value, json};

use super::*;

fn cluster() -> Value {
    json!({
        "id": "0123456789abcdefghijklmnopqrstuv",
        "name": "first",
        "state": "ready",
        "hypershift": {"enabled": true},
        "version": {"id": "openshift-v4.20.3"},
        "properties": {"owner": "ada's"},
        "azure": {
            "subscription_id": "1111-2222",
            "resource_group_name": "my-group",
            "resource_name": "first",
        },
    })
}

#[test]
fn searches_are_understood_as_in_sql() {
    let cluster = cluster();
    for (search, expected) in [
        ("azure.subscription_id='1111-2222' and azure.resource_group_name='my-group'", true),
        ("azure.subscription_id = '1111-2222' AND azure.resource_group_name = 'My-Group'", true),
        ("azure.subscription_id='1111-2222' and azure.resource_group_name='other'", false),
        ("name='first'", true),
        ("name = 'First'", false),
        ("name <> 'first' or state = 'ready'", true),
        ("name != 'first'", false),
        ("name <= 'first' and name >= 'first' and name < 'g' and name > 'f'", true),
        ("name='x' or name='y' and state='ready'", false),
        ("(name='x' or name='first') and state='ready'", true),
        ("not name='x'", true),
        ("not (name='first' and state='ready')", false),
        ("name like 'f%t'", true),
        ("name like 'f_rst'", true),
        ("name like 'F%'", false),
        ("name ilike 'F%'", true),
        ("name not like '%z%'", true),
        ("name not ilike 'F%'", false),
        ("name like 'f%' and not name like 'f'", true),
        // What means something in other languages is a letter here.
        ("name like 'f.*'", false),
        ("state in ('error', 'ready')", true),
        ("state not in ('error', 'ready')", false),
        ("version.id between 'openshift-v4.20.0' and 'openshift-v4.20.9'", true),
        ("version.id not between 'openshift-v4.20.4' and 'openshift-v4.20.9'", true),
        ("version.id >= 'openshift-v4.21'", false),
        ("hypershift.enabled = true and hypershift.enabled='true'", true),
        ("properties.owner='ada''s'", true),
        // What is asked of a field that is not there is not true, and neither is the opposite.
        ("api.url = 'x'", false),
        ("not api.url = 'x'", false),
        ("api.url is null and name is not null", true),
        ("api.url is not null", false),
        ("api.url in ('x') or api.url not in ('x') or api.url like '%'", false),
        ("properties.absent <> 'x'", false),
    ] {
        let expression =
            Expression::parse(search, Subject::Clusters).unwrap_or_else(|error| panic!("{search}: {error}"));
        assert_eq!(expression.matches(&cluster), expected, "{search}");
    }
}

#[test]
fn what_is_no_search_is_refused_where_it_goes_wrong() {
    for (search, at, problem) in [
        ("", 1, "expected a field"),
        ("name", 5, "expected an operator"),
        ("name = first", 8, "expected a value"),
        ("name = 'first", 8, "the quote is never closed"),
        ("nome = 'first'", 1, "there is no field `nome`"),
        ("name = 'a' name = 'b'", 12, "expected `and`, `or` or the end"),
        ("(name = 'a'", 12, "expected `)`"),
        ("name in 'a'", 9, "expected `(`"),
        ("name ~= 'a'", 6, "`~` has no meaning here"),
        ("name is 'a'", 9, "expected `null`"),
        ("name like 5", 11, "expected a pattern in single quotes"),
        ("name between 'a' or 'b'", 18, "expected `and`"),
        ("name in ()", 10, "expected a value"),
        ("name not = 'a'", 10, "expected an operator"),
        ("id = 5.5.5", 6, "`5.5.5` is not a number"),
    ] {
        let error = Expression::parse(search, Subject::Clusters).unwrap_err();
        assert_eq!(error.at, at, "{search}: {error}");
        assert!(error.problem.starts_with(problem), "{search}: {error}");
    }
    let long = format!("name = '{}'", "a".repeat(8192));
    assert!(
        Expression::parse(&long, Subject::Clusters).unwrap_err().problem.contains("longer than 8192 bytes")
    );
    let nested = format!("{}name='a'{}", "(".repeat(60), ")".repeat(60));
    assert!(Expression::parse(&nested, Subject::Clusters).unwrap_err().problem.contains("less nesting"));
    let nested = format!("{}name='a'", "not ".repeat(1000));
    assert!(Expression::parse(&nested, Subject::Clusters).unwrap_err().problem.contains("less nesting"));
}

#[test]
fn only_what_every_match_must_equal_narrows_the_list() {
    let required = |search: &str| {
        let expression = Expression::parse(search, Subject::Clusters).unwrap();
        expression.required(&["azure", "subscription_id"]).map(str::to_owned)
    };
    assert_eq!(required("azure.subscription_id='a'"), Some("a".to_owned()));
    assert_eq!(required("name='x' and (state='ready' and azure.subscription_id='a')"), Some("a".to_owned()));
    assert_eq!(required("name='x' or azure.subscription_id='a'"), None);
    assert_eq!(required("not azure.subscription_id='a'"), None);
    assert_eq!(required("azure.subscription_id<>'a'"), None);
}

#[test]
fn orders_are_by_field_and_direction() {
    let (first, second) = (json!({"name": "a", "state": "ready"}), json!({"name": "b", "state": "ready"}));
    let compare = |order: &str| Order::parse(order, Subject::Clusters).unwrap().compare(&first, &second);
    assert!(compare("name").is_lt());
    assert!(compare("state, name desc").is_gt());
    assert!(compare("state").is_eq());
    assert!(Order::parse("nome", Subject::Clusters).is_err());
    assert!(Order::parse("name down", Subject::Clusters).is_err());
    assert!(Order::parse("name,", Subject::Clusters).is_err());
}

#[test]
fn numbers_versions_and_moments_are_compared_as_what_they_are() {
    let in_order = |subject: Subject, order: &str, field: &str, expected: &[&str]| {
        let order = Order::parse(order, subject).unwrap();
        let mut found: Vec<_> = expected.iter().map(|text| json!({field: text})).collect();
        found.sort_by(|left, right| left[field].as_str().cmp(&right[field].as_str()));
        found.sort_by(|left, right| order.compare(left, right));
        let found: Vec<_> = found.iter().map(|item| item[field].as_str().unwrap()).collect();
        assert_eq!(found, expected);
    };
    in_order(Subject::UpgradePolicies, "id", "id", &["1", "2", "9", "10"]);
    in_order(Subject::UpgradePolicies, "version", "version", &["4.9.0", "4.20.3", "4.20.10"]);
    in_order(Subject::Versions, "raw_id", "raw_id", &["4.20.3", "4.20.10", "4.21.0"]);
    let ids =
        ["openshift-v4.20.3", "openshift-v4.20.3-fast", "openshift-v4.20.10", "openshift-v4.20.10-fast"];
    in_order(Subject::Versions, "id", "id", &ids);
    let moments = ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5Z", "2026-01-01T00:00:01Z"];
    in_order(Subject::Clusters, "creation_timestamp", "creation_timestamp", &moments);
    in_order(Subject::UpgradePolicies, "next_run", "next_run", &moments);
    // Names stay texts, also those that look otherwise.
    in_order(Subject::Clusters, "name", "name", &["1", "10", "2"]);

    let cluster =
        json!({"creation_timestamp": "2026-01-01T00:00:00.5Z", "version": {"id": "openshift-v4.20.10"}});
    for (search, expected) in [
        ("creation_timestamp > '2026-01-01T00:00:00Z'", true),
        ("creation_timestamp < '2026-01-01T00:00:01Z'", true),
        ("creation_timestamp = '2026-01-01T01:00:00.500+01:00'", true),
        ("creation_timestamp between '2026-01-01T00:00:00Z' and '2026-01-01T00:00:00.4Z'", false),
        ("version.id > 'openshift-v4.20.9'", true),
        ("version.id >= 'openshift-v4.21'", false),
        ("version.id = 'openshift-v4.20.010'", false),
    ] {
        let expression = Expression::parse(search, Subject::Clusters).unwrap();
        assert_eq!(expression.matches(&cluster), expected, "{search}");
    }
}

#[test]
fn versions_have_fields_of_their_own() {
    let version = serde_json::json!({"raw_id": "4.20.8", "channel_group": "fast", "enabled": true});
    let search =
        |text: &str| Expression::parse(text, Subject::Versions).map(|search| search.matches(&version));
    assert_eq!(search("channel_group = 'fast' and enabled = true"), Ok(true));
    assert_eq!(search("channel_group = 'stable'"), Ok(false));
    assert!(search("azure.subscription_id = 's'").unwrap_err().problem.contains("the fields are id, raw_id"));
    assert!(Expression::parse("channel_group = 'fast'", Subject::Clusters).is_err());
}
