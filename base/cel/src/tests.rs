use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;

const LIMIT: u64 = 1_000_000;

fn field(name: &str, kind: Type) -> (String, Field) {
    (name.to_owned(), Field { name: name.to_owned(), kind })
}

fn object(name: &str, fields: impl IntoIterator<Item = (String, Field)>) -> Type {
    let fields: BTreeMap<_, _> = fields.into_iter().collect();
    Type::Object(Arc::new(ObjectType { name: name.to_owned(), fields }))
}

fn keyed(item: Type) -> Type {
    Type::List(Arc::new(ListType { item, identity: Identity::Keys(vec!["name".to_owned()]) }))
}

fn schema() -> Type {
    let port = object("port", [field("name", Type::String), field("number", Type::Int)]);
    object(
        "root",
        [
            field("name", Type::String),
            field("count", Type::Int),
            field("ratio", Type::Double),
            field("either", Type::Dyn),
            field("since", Type::Timestamp),
            field("wait", Type::Duration),
            field("tags", Type::list(Type::String)),
            field("labels", Type::map(Type::String, Type::String)),
            field("ports", keyed(port)),
            ("__namespace__".to_owned(), Field { name: "namespace".to_owned(), kind: Type::String }),
        ],
    )
}

fn sample() -> Json {
    json!({
        "name": "blue-3", "count": 3, "ratio": 2, "either": "50%", "namespace": "inside",
        "since": "2026-01-02T03:04:05Z", "wait": "1h30m",
        "tags": ["a", "b", "c"], "labels": { "app": "web" },
        "ports": [{ "name": "http", "number": 80 }, { "name": "tls", "number": 443 }],
    })
}

fn run(text: &str) -> Result<Answer, String> {
    let kind = schema();
    let program = Program::compile(text, &[("self", kind.clone()), ("oldSelf", kind.clone())])
        .map_err(|error| error.to_string())?;
    let (new, old) =
        (sample(), json!({ "ports": [{ "name": "tls", "number": 443 }, { "name": "http", "number": 80 }] }));
    let given = [("self", Variable::Value(&new, &kind)), ("oldSelf", Variable::Value(&old, &kind))];
    program.evaluate(&given, LIMIT).answer.map_err(|error| error.to_string())
}

#[test]
fn rules_as_people_write_them_hold() {
    for text in [
        "self.name.startsWith('blue') && self.count <= 5",
        "self.count == 3 ? true : false",
        "self.count > 2.5 && self.ratio == 2.0 && 1u < 2 && -3 < 2u",
        "has(self.name) && !has(self.labels.missing) && has(self.labels.app)",
        "self.tags.all(t, t.matches('^[a-z]$')) && self.tags.exists(t, t == 'b')",
        "self.tags.exists_one(t, t == 'c') && self.tags.map(t, t + t) == ['aa', 'bb', 'cc']",
        "self.tags.filter(t, t != 'a').size() == 2 && 'a' in self.tags && !('z' in self.tags)",
        "'app' in self.labels && self.labels['app'] == 'web' && self.labels.all(k, k == 'app')",
        "self.labels.all(k, v, k == 'app' && v == 'web') && self.tags.exists(i, t, i == 1 && t == 'b')",
        "self.tags.transformList(i, t, i > 0, t) == ['b', 'c']",
        "self.labels.transformMap(k, v, v + '!') == {'app': 'web!'}",
        "self.__namespace__ == 'inside'",
        // Keyed lists are equal in any order.
        "self.ports == oldSelf.ports && (self.ports + oldSelf.ports).size() == 2",
        "type(self.either) == string && self.either.replace('%', '') == '50'",
        "type(self.either) == int ? self.either < 100 : self.either.contains('%')",
        "self.labels[?'app'].orValue('none') == 'web' && self.labels[?'no'].orValue('none') == 'none'",
        "self.?name.optMap(n, n.size()).orValue(0) == 6",
        "[?self.labels[?'app'], 'x'] == ['web', 'x'] && {?'k': optional.none()} == {}",
        "optional.of(1).or(optional.of(2)).value() == 1 && optional.ofNonZeroValue('').hasValue() == false",
        "duration('90m') == self.wait && self.wait.getMinutes() == 90 && self.wait > duration('1h')",
        "self.since + duration('1s') == timestamp('2026-01-02T03:04:06Z') && self.since.getDayOfWeek() == 5",
        "self.since.getHours('+02:00') == 5 && self.since.getMonth() == 0 && self.since.getDate() == 2",
        "string(duration('1.5s')) == '1.5s' && string(1.0) == '1' && int('7') == 7 && double('1.5') == 1.5",
        "'a,b,c'.split(',') == ['a', 'b', 'c'] && 'abc'.split('') == ['a', 'b', 'c'] && 'a-b-c'.split('-', 2) == ['a', 'b-c']",
        "['a', 'b'].join('/') == 'a/b' && ' x '.trim() == 'x' && 'ABC'.lowerAscii() == 'abc'",
        "'hello'.substring(1, 3) == 'el' && 'hello'.indexOf('l') == 2 && 'hello'.lastIndexOf('l') == 3 && 'tacocat'.charAt(3) == 'o'",
        "'%s has %d of %.2f'.format(['x', 3, 1.5]) == 'x has 3 of 1.50' && '%x'.format([255]) == 'ff'",
        "'%s'.format([[1, 2]]) == '[1, 2]' && '%s'.format([{'a': true}]) == '{\"a\":true}'",
        "strings.quote('a\"b') == '\"a\\\\\"b\"'",
        "[1, 2, 3].isSorted() && [1, 2, 3].sum() == 6 && [3, 1].min() == 1 && [3, 1].max() == 3 && [1, 2].indexOf(2) == 1",
        "semver('1.2.3-rc.1').isLessThan(semver('v1.2', true)) || isSemver('1.2', true) && !isSemver('1.2')",
        "semver('1.10.0').compareTo(semver('1.9.0')) == 1 && semver('1.2.3').minor() == 2 && sign(quantity('-1')) == -1",
        "optional.unwrap([optional.of(1), optional.none()]) == [1] && [optional.of(2)].unwrapOpt() == [2]",
        r"[1].first().value() == 1 && [1, 2].last().value() == 2 && 'Ωmega'.matches(r'^\p{Greek}\w+$')",
        "'abc 123'.find('[0-9]+') == '123' && '1a2'.findAll('[0-9]') == ['1', '2'] && '1a2'.findAll('[0-9]', 1) == ['1']",
        "sets.contains([1, 2], [1]) && !sets.contains([1], [1, 2]) && sets.equivalent([1, 2], [2, 1]) && sets.intersects([1], [1, 2])",
        "isURL('https://a.example:8080/p?q=1') && url('https://a.example:8080/p?q=1').getHostname() == 'a.example'",
        "url('https://[::1]:80/').getPort() == '80' && url('https://[::1]:80/').getHostname() == '::1' && !isURL('nope')",
        "url('http://x/?a=1&a=2').getQuery()['a'] == ['1', '2']",
        "isIP('10.0.0.1') && ip('::1').isLoopback() && ip('10.0.0.1').family() == 4 && ip.isCanonical('::1') && !ip.isCanonical('0::1')",
        "cidr('10.0.0.0/8').containsIP('10.2.3.4') && cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !isCIDR('10.0.0.0/33')",
        "string(cidr('10.1.2.3/8').masked()) == '10.0.0.0/8' && cidr('10.0.0.0/8').prefixLength() == 8",
        "quantity('1.5Gi').isGreaterThan(quantity('1G')) && quantity('100m').add(quantity('900m')).asInteger() == 1",
        "quantity('1Ki') == quantity('1024') && !isQuantity('abc') && quantity('200m').compareTo(quantity('0.2')) == 0",
        "!format.dns1123Label().validate('good-name').hasValue() && format.named('uuid').value().validate('x').hasValue()",
        "format.dns1123Label().validate('Bad').value().size() == 1",
        "bytes('é').size() == 2 && 'é'.size() == 1 && b'\\x00\\xff'.size() == 2",
        r"r'\d' == '\\d' && '\u00e9' == 'é' && '''a'b''' == 'a\'b'",
        "1 + 2 * 3 == 7 && 7 / 2 == 3 && -7 % 3 == -1 && 7 % 3 == 1 && !(1 > 2)",
        "dyn(1) == dyn(1.0) && dyn(1) != dyn('1') && {'a': 1}.a == 1",
        "false && self.labels.missing == 'x' || true",
        "self.labels.missing == 'x' || true",
        "[1, 2].exists(x, x / (x - 1) > 1) || true",
        "// why\nself.count == 3",
        "self == self && type(self.tags) == list && type(null) == null_type",
        "self.since.getFullYear() in [2025, 2026] && google.protobuf.Duration == type(self.wait)",
    ] {
        assert_eq!(run(text), Ok(Answer::Bool(true)), "{text}");
    }
}

#[test]
fn what_has_no_value_says_why() {
    for (text, expected) in [
        ("self.labels.missing == 'x'", "no such key: missing"),
        ("self.labels['no'] == 'x'", "no such key: no"),
        ("self.tags[7] == 'x'", "index out of bounds: 7"),
        ("9223372036854775807 + self.count > 0", "integer overflow"),
        ("0u - 1u > 0u", "unsigned integer overflow"),
        ("-9223372036854775808 - self.count > 0", "integer overflow"),
        ("self.count / 0 == 1", "division by zero"),
        ("self.count % 0 == 1", "modulus by zero"),
        ("int('x') == 1", "type conversion error from 'string' to 'int'"),
        ("optional.none().value() == 1", "optional.none() dereference"),
        ("[].min() == 1", "min called on empty list"),
        ("self.either < 5", "no such overload: _<_"),
        ("'abc'.substring(5) == ''", "index out of range: 5"),
        ("[1, 2].all(x, x / (x - 1) > 1)", "division by zero"),
    ] {
        assert_eq!(run(text), Err(expected.to_owned()), "{text}");
    }
}

#[test]
fn mistakes_are_found_before_there_are_values() {
    for (text, expected) in [
        ("self.nope", "ERROR: <input>:1:5: undefined field 'nope'\n | self.nope\n | ....^"),
        (
            "foo == 1",
            "ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')\n | foo == 1\n | ^",
        ),
        (
            "self.name > 1",
            "ERROR: <input>:1:11: found no matching overload for '_>_' applied to '(string, int)'\n | self.name > 1\n | ..........^",
        ),
        (
            "self.name.contains(1)",
            "ERROR: <input>:1:19: found no matching overload for 'contains' applied to 'string.(int)'\n | self.name.contains(1)\n | ..................^",
        ),
        (
            "self.name == 1",
            "ERROR: <input>:1:11: found no matching overload for '_==_' applied to '(string, int)'\n | self.name == 1\n | ..........^",
        ),
        (
            "self.count.all(x, true)",
            "ERROR: <input>:1:5: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)\n | self.count.all(x, true)\n | ....^",
        ),
        (
            "self.name.first == 'x'",
            "ERROR: <input>:1:10: type 'string' does not support field selection\n | self.name.first == 'x'\n | .........^",
        ),
        (
            "nope()",
            "ERROR: <input>:1:5: undeclared reference to 'nope' (in container '')\n | nope()\n | ....^",
        ),
        (
            "true ?\n  1 : 'x'",
            "ERROR: <input>:1:6: found no matching overload for '_?_:_' applied to '(bool, int, string)'\n | true ?\n | .....^",
        ),
        (
            "[1, 'a'] == []",
            "ERROR: <input>:1:5: expected type 'int' but found 'string'\n | [1, 'a'] == []\n | ....^",
        ),
        (
            "duration('x') == self.wait",
            "ERROR: <input>:1:10: invalid duration argument\n | duration('x') == self.wait\n | .........^",
        ),
        (
            "self.name.matches('(')",
            "ERROR: <input>:1:19: invalid matches argument\n | self.name.matches('(')\n | ..................^",
        ),
    ] {
        assert_eq!(run(text), Err(expected.to_owned()), "{text}");
    }
}

#[test]
fn variables_that_are_used_are_known() {
    let kinds = [("self", Type::Int), ("oldSelf", Type::Int)];
    let program = Program::compile("self >= oldSelf", &kinds).unwrap();
    assert!(program.uses("oldSelf"));
    assert_eq!(program.kind(), &Type::Bool);
    // A name of a fold hides the one that was given.
    let program = Program::compile("[1].all(oldSelf, oldSelf > self)", &kinds).unwrap();
    assert!(!program.uses("oldSelf") && program.uses("self"));
}

#[test]
fn an_optional_old_value_may_be_missing() {
    let kinds = [("self", Type::Int), ("oldSelf", Type::optional(Type::Int))];
    let program = Program::compile("self >= oldSelf.orValue(0)", &kinds).unwrap();
    let new = json!(3);
    let first =
        [("self", Variable::Value(&new, &Type::Int)), ("oldSelf", Variable::Optional(None, &Type::Int))];
    assert_eq!(program.evaluate(&first, LIMIT).answer, Ok(Answer::Bool(true)));
    let old = json!(4);
    let later = [
        ("self", Variable::Value(&new, &Type::Int)),
        ("oldSelf", Variable::Optional(Some(&old), &Type::Int)),
    ];
    assert_eq!(program.evaluate(&later, LIMIT).answer, Ok(Answer::Bool(false)));
}

#[test]
fn nested_walks_over_a_long_list_are_given_up() {
    let kind = Type::list(Type::Int);
    let items: Json = (0..5_000).collect();
    let text = "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))";
    let program = Program::compile(text, &[("self", kind.clone())]).unwrap();
    let evaluation = program.evaluate(&[("self", Variable::Value(&items, &kind))], LIMIT);
    assert_eq!(evaluation.answer, Err(EvaluationError::CostLimit));
    assert_eq!(EvaluationError::CostLimit.to_string(), "operation cancelled: actual cost limit exceeded");
    assert!(evaluation.cost <= LIMIT + 10);
}

#[test]
fn cheap_looking_comparisons_and_replacements_are_bounded_too() {
    let kind = Type::list(Type::list(Type::list(Type::Int)));
    let row: Json = (0..100_000).collect();
    let rows: Json = (0..50).map(|_| json!([row])).collect();
    let program = Program::compile("self.all(a, self.all(b, a == b))", &[("self", kind.clone())]).unwrap();
    let answer = program.evaluate(&[("self", Variable::Value(&rows, &kind))], LIMIT).answer;
    assert_eq!(answer, Err(EvaluationError::CostLimit));
    let long = json!("x".repeat(100_000));
    let program = Program::compile("self.replace('x', self).size() > 0", &[("self", Type::String)]).unwrap();
    let answer = program.evaluate(&[("self", Variable::Value(&long, &Type::String))], LIMIT).answer;
    assert_eq!(answer, Err(EvaluationError::CostLimit));
}

#[test]
fn depth_and_length_have_an_end() {
    for text in [
        "(".repeat(5_000) + "1" + &")".repeat(5_000),
        "!".repeat(5_000) + "true",
        vec!["1"; 5_000].join(" + "),
        "self".to_owned() + &".a".repeat(5_000),
        "[".repeat(5_000),
        "x".repeat(200_000),
    ] {
        assert!(Program::compile(&text, &[("self", Type::Dyn)]).is_err());
    }
    let long = vec!["true"; 5_000].join(" && ");
    assert!(Program::compile(&long, &[]).is_ok());
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_or_the_evaluation_fall_over(text in "[a-c0-9.()\\[\\]{}?:!=<>&|+*/%'\" ,-]{0,40}") {
        let kind = schema();
        let given = sample();
        if let Ok(program) = Program::compile(&text, &[("self", kind.clone()), ("a", Type::Dyn), ("b", Type::Int)]) {
            let two = json!(2);
            let variables = [
                ("self", Variable::Value(&given, &kind)),
                ("a", Variable::Value(&given, &Type::Dyn)),
                ("b", Variable::Value(&two, &Type::Int)),
            ];
            let _ = program.evaluate(&variables, 10_000);
        }
    }

    #[test]
    fn whole_numbers_are_calculated_exactly_or_not_at_all(one in any::<i64>(), other in any::<i64>()) {
        let program = Program::compile("self[0] + self[1] == self[2]", &[("self", Type::list(Type::Int))]).unwrap();
        let kind = Type::list(Type::Int);
        let values = json!([one, other, one.wrapping_add(other)]);
        let answer = program.evaluate(&[("self", Variable::Value(&values, &kind))], LIMIT).answer;
        match one.checked_add(other) {
            Some(_) => prop_assert_eq!(answer, Ok(Answer::Bool(true))),
            None => prop_assert_eq!(answer, Err(EvaluationError::Failed("integer overflow".to_owned()))),
        }
    }
}

#[test]
fn what_rules_of_works_have_is_not_offered_to_others() {
    let variables = [("self", Type::Dyn)];
    let refused = Program::compile("hasConditions(self)", &variables).unwrap_err().to_string();
    assert!(refused.contains("undeclared reference to 'hasConditions'"), "{refused}");
    assert_eq!(Program::compile_for_works("hasConditions(self)", &variables).unwrap().kind(), &Type::Bool);
    let program = Program::compile_for_works("hasConditions(self)", &variables).unwrap();
    for (status, has) in [
        (json!({"conditions": [{"type": "Ready"}]}), true),
        (json!({"conditions": []}), false),
        (json!({"conditions": {"type": "Ready"}}), false),
        (json!({}), false),
        (json!([1]), false),
    ] {
        let answer = program.evaluate(&[("self", Variable::Value(&status, &Type::Dyn))], LIMIT).answer;
        assert_eq!(answer.unwrap(), Answer::Bool(has), "{status}");
    }
    assert!(Program::compile_for_works("hasConditions()", &variables).is_err());
    assert!(Program::compile_for_works("self.hasConditions()", &variables).is_err());
}
