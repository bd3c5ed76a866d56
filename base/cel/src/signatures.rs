//! Which functions there are, and what they take. One line is one overload; `A` and `B` stand for any type.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::types::Type;

/// One way to call a function.
#[derive(Debug)]
pub(crate) struct Signature {
    /// Called on something, which then is the first parameter.
    pub(crate) member: bool,
    pub(crate) parameters: Vec<Type>,
    pub(crate) result: Type,
}

/// By their names.
type Signatures = HashMap<&'static str, Vec<Signature>>;

/// What rules of works have beyond the others.
pub(crate) static OF_WORKS: LazyLock<Signatures> = LazyLock::new(|| read_all("hasConditions(dyn) bool"));

pub(crate) static SIGNATURES: LazyLock<Signatures> = LazyLock::new(|| {
    let mut all = read_all(TABLE);
    for name in crate::library::formats::NAMES {
        let result = Type::Opaque(crate::library::formats::TYPE);
        all.insert(name, vec![Signature { member: false, parameters: Vec::new(), result }]);
    }
    all
});

/// Types of the libraries, by the word the table uses.
const OPAQUE: [(&str, &str); 6] = [
    ("IP", "net.IP"),
    ("CIDR", "net.CIDR"),
    ("URL", "kubernetes.URL"),
    ("Quantity", "kubernetes.Quantity"),
    ("Semver", "kubernetes.Semver"),
    ("Format", crate::library::formats::TYPE),
];

fn read_all(table: &'static str) -> Signatures {
    let mut all = Signatures::new();
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (name, signature) = read(line);
        all.entry(name).or_default().push(signature);
    }
    all
}

/// `[type ->] name(types) type`.
fn read(line: &'static str) -> (&'static str, Signature) {
    let (target, rest) = match line.split_once(" -> ") {
        Some((target, rest)) => (Some(target), rest),
        None => (None, line),
    };
    let (name, rest) = rest.split_once('(').unwrap_or((rest, ")"));
    let (parameters, result) = rest.rsplit_once(") ").unwrap_or((rest, "dyn"));
    // A result such as `list(string)` has brackets of its own.
    let (parameters, result) =
        match result.ends_with(')') || parameters.matches('(').count() != parameters.matches(')').count() {
            true => rest.split_once(") ").unwrap_or((parameters, result)),
            false => (parameters, result),
        };
    let mut all: Vec<Type> = target.into_iter().map(|text| kind(text.trim())).collect();
    all.extend(split(parameters).into_iter().map(kind));
    (name, Signature { member: target.is_some(), parameters: all, result: kind(result.trim()) })
}

/// At commas that stand in no brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0_usize, 0, Vec::new());
    for (place, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(text[start..place].trim());
                start = place + 1;
            }
            _ => {}
        }
    }
    if !text[start..].trim().is_empty() {
        parts.push(text[start..].trim());
    }
    parts
}

fn kind(text: &str) -> Type {
    if let Some((word, inner)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        let mut inner = split(inner).into_iter().map(kind);
        let first = inner.next().unwrap_or(Type::Dyn);
        return match word {
            "list" => Type::list(first),
            "map" => Type::map(first, inner.next().unwrap_or(Type::Dyn)),
            _ => Type::optional(first),
        };
    }
    match text {
        "null" => Type::Null,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "duration" => Type::Duration,
        "timestamp" => Type::Timestamp,
        "type" => Type::Type,
        "A" => Type::Parameter('A'),
        "B" => Type::Parameter('B'),
        other => {
            OPAQUE.iter().find(|(word, _)| *word == other).map_or(Type::Dyn, |(_, name)| Type::Opaque(name))
        }
    }
}

const TABLE: &str = "
    !_(bool) bool
    -_(int) int
    -_(double) double
    _==_(A, A) bool
    _!=_(A, A) bool
    _<_(bool, bool) bool
    _<_(int, int) bool
    _<_(int, double) bool
    _<_(int, uint) bool
    _<_(uint, uint) bool
    _<_(uint, double) bool
    _<_(uint, int) bool
    _<_(double, double) bool
    _<_(double, int) bool
    _<_(double, uint) bool
    _<_(string, string) bool
    _<_(bytes, bytes) bool
    _<_(timestamp, timestamp) bool
    _<_(duration, duration) bool
    _+_(int, int) int
    _+_(uint, uint) uint
    _+_(double, double) double
    _+_(string, string) string
    _+_(bytes, bytes) bytes
    _+_(list(A), list(A)) list(A)
    _+_(duration, duration) duration
    _+_(timestamp, duration) timestamp
    _+_(duration, timestamp) timestamp
    _-_(int, int) int
    _-_(uint, uint) uint
    _-_(double, double) double
    _-_(duration, duration) duration
    _-_(timestamp, duration) timestamp
    _-_(timestamp, timestamp) duration
    _*_(int, int) int
    _*_(uint, uint) uint
    _*_(double, double) double
    _/_(int, int) int
    _/_(uint, uint) uint
    _/_(double, double) double
    _%_(int, int) int
    _%_(uint, uint) uint
    @in(A, list(A)) bool
    @in(A, map(A, B)) bool
    type(A) type
    dyn(A) dyn
    size(string) int
    size(bytes) int
    size(list(A)) int
    size(map(A, B)) int
    string -> size() int
    bytes -> size() int
    list(A) -> size() int
    map(A, B) -> size() int
    bool(bool) bool
    bool(string) bool
    bytes(bytes) bytes
    bytes(string) bytes
    double(double) double
    double(int) double
    double(uint) double
    double(string) double
    duration(duration) duration
    duration(int) duration
    duration(string) duration
    int(int) int
    int(uint) int
    int(double) int
    int(string) int
    int(timestamp) int
    int(duration) int
    string(string) string
    string(bool) string
    string(bytes) string
    string(double) string
    string(duration) string
    string(int) string
    string(timestamp) string
    string(uint) string
    string(IP) string
    string(CIDR) string
    timestamp(timestamp) timestamp
    timestamp(int) timestamp
    timestamp(string) timestamp
    uint(uint) uint
    uint(int) uint
    uint(double) uint
    uint(string) uint
    matches(string, string) bool
    string -> matches(string) bool
    string -> contains(string) bool
    string -> startsWith(string) bool
    string -> endsWith(string) bool
    timestamp -> getFullYear() int
    timestamp -> getFullYear(string) int
    timestamp -> getMonth() int
    timestamp -> getMonth(string) int
    timestamp -> getDate() int
    timestamp -> getDate(string) int
    timestamp -> getDayOfMonth() int
    timestamp -> getDayOfMonth(string) int
    timestamp -> getDayOfWeek() int
    timestamp -> getDayOfWeek(string) int
    timestamp -> getDayOfYear() int
    timestamp -> getDayOfYear(string) int
    timestamp -> getHours() int
    timestamp -> getHours(string) int
    duration -> getHours() int
    timestamp -> getMinutes() int
    timestamp -> getMinutes(string) int
    duration -> getMinutes() int
    timestamp -> getSeconds() int
    timestamp -> getSeconds(string) int
    duration -> getSeconds() int
    timestamp -> getMilliseconds() int
    timestamp -> getMilliseconds(string) int
    duration -> getMilliseconds() int
    string -> charAt(int) string
    string -> indexOf(string) int
    string -> indexOf(string, int) int
    string -> lastIndexOf(string) int
    string -> lastIndexOf(string, int) int
    string -> lowerAscii() string
    string -> upperAscii() string
    string -> replace(string, string) string
    string -> replace(string, string, int) string
    string -> split(string) list(string)
    string -> split(string, int) list(string)
    string -> substring(int) string
    string -> substring(int, int) string
    string -> trim() string
    string -> format(list(dyn)) string
    strings.quote(string) string
    list(string) -> join() string
    list(string) -> join(string) string
    list(int) -> isSorted() bool
    list(uint) -> isSorted() bool
    list(double) -> isSorted() bool
    list(bool) -> isSorted() bool
    list(duration) -> isSorted() bool
    list(timestamp) -> isSorted() bool
    list(string) -> isSorted() bool
    list(bytes) -> isSorted() bool
    list(int) -> sum() int
    list(uint) -> sum() uint
    list(double) -> sum() double
    list(duration) -> sum() duration
    list(int) -> min() int
    list(uint) -> min() uint
    list(double) -> min() double
    list(bool) -> min() bool
    list(duration) -> min() duration
    list(timestamp) -> min() timestamp
    list(string) -> min() string
    list(bytes) -> min() bytes
    list(int) -> max() int
    list(uint) -> max() uint
    list(double) -> max() double
    list(bool) -> max() bool
    list(duration) -> max() duration
    list(timestamp) -> max() timestamp
    list(string) -> max() string
    list(bytes) -> max() bytes
    list(A) -> indexOf(A) int
    list(A) -> lastIndexOf(A) int
    list(A) -> first() optional(A)
    list(A) -> last() optional(A)
    string -> find(string) string
    string -> findAll(string) list(string)
    string -> findAll(string, int) list(string)
    sets.contains(list(A), list(A)) bool
    sets.equivalent(list(A), list(A)) bool
    sets.intersects(list(A), list(A)) bool
    url(string) URL
    isURL(string) bool
    URL -> getScheme() string
    URL -> getHost() string
    URL -> getHostname() string
    URL -> getPort() string
    URL -> getEscapedPath() string
    URL -> getQuery() map(string, list(string))
    ip(string) IP
    isIP(string) bool
    ip.isCanonical(string) bool
    IP -> family() int
    IP -> isUnspecified() bool
    IP -> isLoopback() bool
    IP -> isLinkLocalMulticast() bool
    IP -> isLinkLocalUnicast() bool
    IP -> isGlobalUnicast() bool
    cidr(string) CIDR
    isCIDR(string) bool
    CIDR -> containsIP(string) bool
    CIDR -> containsIP(IP) bool
    CIDR -> containsCIDR(string) bool
    CIDR -> containsCIDR(CIDR) bool
    CIDR -> ip() IP
    CIDR -> prefixLength() int
    CIDR -> masked() CIDR
    quantity(string) Quantity
    isQuantity(string) bool
    sign(Quantity) int
    Quantity -> isGreaterThan(Quantity) bool
    Quantity -> isLessThan(Quantity) bool
    Quantity -> compareTo(Quantity) int
    Quantity -> asApproximateFloat() double
    Quantity -> asInteger() int
    Quantity -> isInteger() bool
    Quantity -> add(Quantity) Quantity
    Quantity -> add(int) Quantity
    Quantity -> sub(Quantity) Quantity
    Quantity -> sub(int) Quantity
    semver(string) Semver
    semver(string, bool) Semver
    isSemver(string) bool
    isSemver(string, bool) bool
    Semver -> major() int
    Semver -> minor() int
    Semver -> patch() int
    Semver -> isGreaterThan(Semver) bool
    Semver -> isLessThan(Semver) bool
    Semver -> compareTo(Semver) int
    format.named(string) optional(Format)
    Format -> validate(string) optional(list(string))
    optional.of(A) optional(A)
    optional.ofNonZeroValue(A) optional(A)
    optional.none() optional(A)
    optional(A) -> value() A
    optional.unwrap(list(optional(A))) list(A)
    list(optional(A)) -> unwrapOpt() list(A)
    optional(A) -> hasValue() bool
    optional(A) -> or(optional(A)) optional(A)
    optional(A) -> orValue(A) A
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_as_it_is_written() {
        let shown = |name: &str| -> Vec<String> {
            SIGNATURES[name]
                .iter()
                .map(|one| {
                    let parameters: Vec<_> = one.parameters.iter().map(Type::to_string).collect();
                    format!("{} {} {}", one.member, parameters.join(";"), one.result)
                })
                .collect()
        };
        assert_eq!(shown("getQuery"), ["true kubernetes.URL map(string, list(string))"]);
        assert_eq!(shown("validate"), ["true kubernetes.NamedFormat;string optional_type(list(string))"]);
        assert_eq!(shown("orValue"), ["true optional_type(A);A A"]);
        assert_eq!(shown("format.named"), ["false string optional_type(kubernetes.NamedFormat)"]);
        assert_eq!(shown("@in"), ["false A;list(A) bool", "false A;map(A, B) bool"]);
        assert_eq!(shown("optional.none"), ["false  optional_type(A)"]);
    }
}
