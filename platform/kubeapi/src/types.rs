//! The built-in types: what every field is called, what it holds, which number it has in protobuf and how it merges.
//!
//! `cargo xtask types` writes the table from the published sources; see there. One text file is one package. A line that
//! begins with a letter names a type, one that begins with a number a field: number, name in JSON (`-` if its fields are
//! its parent's), type, and more words:
//!
//! | word | meaning |
//! |---|---|
//! | `*T`, `[]T`, `{}T` | may be absent (so that zero is a value), a list, a map |
//! | `required` | always written, and has to be given |
//! | `kept` | always written |
//! | `map:a+b`, `set`, `atomic` | how server-side apply sees it |
//! | `merge:a`, `merge`, `retain-keys` | how a strategic merge sees it |
//! | `default:V` | the value when it is not given |
//!
//! The texts lie in the program and are read a package and a type at a time, when somebody asks for one: a server that
//! is asked for little remembers little.

use std::sync::OnceLock;

use aws_lc_rs::digest;

pub(crate) mod canonical;
pub(crate) mod openapi;
#[cfg(test)]
mod tests;

/// One type with fields.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) package: &'static str,
    pub(crate) name: &'static str,
    /// One value as a whole, to server-side apply.
    pub(crate) atomic: bool,
    /// By number.
    pub(crate) fields: Vec<Field>,
    by_name: OnceLock<Vec<&'static Field>>,
}

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) number: u32,
    /// Empty if the fields of this are fields of its parent.
    pub(crate) name: &'static str,
    pub(crate) holds: Holds,
    pub(crate) of: Type,
    /// Absent is not zero.
    pub(crate) pointer: bool,
    /// Written even if zero.
    pub(crate) kept: bool,
    pub(crate) required: bool,
    pub(crate) list: List,
    pub(crate) merge: Merge,
    pub(crate) retain_keys: bool,
    pub(crate) default: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    One,
    List,
    Map,
}

/// What a value is.
#[derive(Debug)]
pub(crate) enum Type {
    Text,
    Integer32,
    Integer64,
    Flag,
    Double,
    /// Base64 in JSON.
    Bytes,
    Time,
    MicroTime,
    Quantity,
    IntegerOrText,
    /// Any object, as it is.
    Raw,
    /// Any value, as it is.
    Json,
    /// The tree of managed fields.
    Fields,
    /// A list of texts that protobuf wraps in a message.
    Texts,
    SchemaOrList,
    SchemaOrFlag,
    SchemaOrTexts,
    Message(Reference),
}

/// A type that is looked up when it is needed.
#[derive(Debug)]
pub(crate) struct Reference {
    package: &'static str,
    name: &'static str,
    found: OnceLock<Option<&'static Message>>,
}

/// How server-side apply sees a list or a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum List {
    /// Nothing is said: a list is one value, a map is not.
    Unsaid,
    Atomic,
    Set,
    Map(Vec<&'static str>),
}

/// How a strategic merge sees a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Merge {
    Replace,
    Union,
    By(&'static str),
}

struct Package {
    name: &'static str,
    text: &'static str,
    entries: OnceLock<Vec<Entry>>,
}

/// A type that nobody may have asked for yet.
struct Entry {
    name: &'static str,
    text: &'static str,
    message: OnceLock<Message>,
}

macro_rules! packages {
    ($($name:literal),* $(,)?) => {
        [$(Package { name: $name, text: include_str!(concat!("types/table/", $name, ".txt")), entries: OnceLock::new() }),*]
    };
}

static PACKAGES: [Package; 23] = packages![
    "admissionregistration",
    "apiextensions",
    "apiregistration",
    "apps",
    "authentication",
    "authorization",
    "autoscaling",
    "autoscaling-v2",
    "batch",
    "certificates",
    "coordination",
    "core",
    "discovery",
    "events",
    "flowcontrol",
    "meta",
    "networking",
    "node",
    "policy",
    "rbac",
    "resource",
    "scheduling",
    "storage",
];

/// The type of a built-in kind.
pub(crate) fn of_kind(group: &str, version: &str, kind: &str) -> Option<&'static Message> {
    let package = match (group, version) {
        ("autoscaling", "v2") => return find("autoscaling-v2", kind),
        (_, "v1") => group,
        _ => return None,
    };
    let package = match package {
        "" => "core",
        "apps" | "autoscaling" | "batch" | "policy" => group,
        other => match other.strip_suffix(".k8s.io")? {
            "rbac.authorization" => "rbac",
            "flowcontrol.apiserver" => "flowcontrol",
            // Custom resource definitions may be of any other group.
            name if !name.contains('.') => name,
            _ => return None,
        },
    };
    find(package, kind)
}

/// A type by the name of its package, such as `meta`, and its own.
pub(crate) fn find(package: &str, name: &str) -> Option<&'static Message> {
    let package = PACKAGES.iter().find(|one| one.name == package)?;
    let entries = package.entries.get_or_init(|| entries(package.text));
    let entry = &entries[entries.binary_search_by(|entry| entry.name.cmp(name)).ok()?];
    Some(entry.message.get_or_init(|| message(package.name, entry)))
}

/// Differs when the table differs.
pub(crate) fn fingerprint() -> &'static str {
    static HASH: OnceLock<String> = OnceLock::new();
    HASH.get_or_init(|| {
        let mut context = digest::Context::new(&digest::SHA256);
        PACKAGES.iter().for_each(|package| context.update(package.text.as_bytes()));
        context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    })
}

fn entries(text: &'static str) -> Vec<Entry> {
    let is_header = |line: &str| line.starts_with(|first: char| first.is_ascii_alphabetic());
    let mut entries = Vec::new();
    let mut rest = text;
    while let Some((header, after)) = rest.split_once('\n') {
        let mut length = 0;
        for line in after.split_inclusive('\n').take_while(|line| !is_header(line)) {
            length += line.len();
        }
        let name = header.split(' ').next().unwrap_or(header);
        entries.push(Entry { name, text: &rest[..header.len() + 1 + length], message: OnceLock::new() });
        rest = &after[length..];
    }
    entries.sort_by_key(|entry| entry.name);
    entries
}

fn message(package: &'static str, entry: &Entry) -> Message {
    let mut lines = entry.text.lines();
    let atomic = lines.next().is_some_and(|header| header.ends_with(" atomic"));
    let fields = lines.filter_map(|line| field(package, line)).collect();
    Message { package, name: entry.name, atomic, fields, by_name: OnceLock::new() }
}

fn field(package: &'static str, line: &'static str) -> Option<Field> {
    let mut words = line.split(' ');
    let number = words.next()?.parse().ok()?;
    let name = words.next().filter(|name| *name != "-").unwrap_or_default();
    let of = words.next()?;
    let (holds, pointer, of) = match of.as_bytes() {
        [b'[', ..] => (Holds::List, false, &of[2..]),
        [b'{', ..] => (Holds::Map, false, &of[2..]),
        [b'*', ..] => (Holds::One, true, &of[1..]),
        _ => (Holds::One, false, of),
    };
    let mut field = Field {
        number,
        name,
        holds,
        of: Type::parse(package, of),
        pointer,
        kept: false,
        required: false,
        list: List::Unsaid,
        merge: Merge::Replace,
        retain_keys: false,
        default: None,
    };
    for word in words {
        match word.split_once(':').unwrap_or((word, "")) {
            ("required", _) => (field.required, field.kept) = (true, true),
            ("kept", _) => field.kept = true,
            ("atomic", _) => field.list = List::Atomic,
            ("set", _) => field.list = List::Set,
            ("map", keys) => field.list = List::Map(keys.split('+').collect()),
            ("merge", "") => field.merge = Merge::Union,
            ("merge", key) => field.merge = Merge::By(key),
            ("retain-keys", _) => field.retain_keys = true,
            ("default", value) => field.default = Some(value),
            _ => {}
        }
    }
    Some(field)
}

// === impl Message ===

impl Message {
    /// The fields as they are in JSON, by name: those of inlined types are among them.
    pub(crate) fn by_name(&'static self) -> &'static [&'static Field] {
        self.by_name.get_or_init(|| {
            let mut all: Vec<&'static Field> = Vec::with_capacity(self.fields.len());
            for field in &self.fields {
                match (field.name, field.of.message()) {
                    ("", Some(inlined)) => all.extend(inlined.by_name()),
                    _ => all.push(field),
                }
            }
            all.sort_by_key(|field| field.name);
            all
        })
    }

    /// A field by its name in JSON.
    pub(crate) fn field(&'static self, name: &str) -> Option<&'static Field> {
        let fields = self.by_name();
        fields.binary_search_by(|field| field.name.cmp(name)).ok().map(|place| fields[place])
    }
}

// === impl Type ===

impl Type {
    fn parse(package: &'static str, word: &'static str) -> Self {
        match word {
            "string" => Self::Text,
            "int32" => Self::Integer32,
            "int64" => Self::Integer64,
            "bool" => Self::Flag,
            "double" => Self::Double,
            "bytes" => Self::Bytes,
            "time" => Self::Time,
            "micro-time" => Self::MicroTime,
            "quantity" => Self::Quantity,
            "int-or-string" => Self::IntegerOrText,
            "raw" => Self::Raw,
            "json" => Self::Json,
            "fields" => Self::Fields,
            "texts" => Self::Texts,
            "schema-or-list" => Self::SchemaOrList,
            "schema-or-flag" => Self::SchemaOrFlag,
            "schema-or-texts" => Self::SchemaOrTexts,
            name => {
                let (package, name) = name.split_once('.').unwrap_or((package, name));
                Self::Message(Reference { package, name, found: OnceLock::new() })
            }
        }
    }

    pub(crate) fn message(&self) -> Option<&'static Message> {
        match self {
            Self::Message(reference) => {
                *reference.found.get_or_init(|| find(reference.package, reference.name))
            }
            _ => None,
        }
    }
}

/// The type that describes a schema of a custom resource definition; it refers to itself in three special ways.
pub(crate) fn schema_type() -> Option<&'static Message> {
    find("apiextensions", "JSONSchemaProps")
}
