//! What the tags and markers of Go structs say about their fields.

use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Struct {
    /// By the field's name in protobuf.
    pub(super) fields: BTreeMap<String, Tags>,
    /// One value as a whole, to server-side apply.
    pub(super) atomic: bool,
}

#[derive(Debug, Default)]
pub(super) struct Tags {
    pub(super) json: String,
    pub(super) inline: bool,
    pub(super) pointer: bool,
    /// A zero is left out.
    omit_empty: bool,
    optional: bool,
    list: Option<String>,
    list_keys: Vec<String>,
    atomic: bool,
    default: Option<String>,
    merge: bool,
    retain_keys: bool,
    merge_key: Option<String>,
}

pub(super) fn structs(text: &str) -> BTreeMap<String, Struct> {
    let mut structs: BTreeMap<String, Struct> = BTreeMap::new();
    let mut current: Option<String> = None;
    let mut markers: Vec<String> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix("//") {
            if let Some(marker) = comment.trim().strip_prefix('+') {
                markers.push(marker.to_owned());
            }
            continue;
        }
        if let Some(name) = line.strip_prefix("type ").and_then(|line| line.strip_suffix(" struct {")) {
            let atomic = markers.iter().any(|marker| marker == "structType=atomic");
            structs.insert(name.to_owned(), Struct { atomic, ..Struct::default() });
            current = Some(name.to_owned());
        } else if let Some(name) = line.strip_prefix("type ").and_then(|line| line.strip_suffix(" struct{}"))
        {
            structs.insert(name.to_owned(), Struct::default());
        } else if line == "}" {
            current = None;
        } else if let Some(declared) = current.as_ref().and_then(|name| structs.get_mut(name))
            && let Some((name, tags)) = field(line, &markers)
        {
            declared.fields.insert(name, tags);
        }
        // A blank line does not part a marker from a struct: it is often set apart on purpose.
        if !line.is_empty() {
            markers.clear();
        }
    }
    structs
}

/// A line such as ``Name *string `json:"name,omitempty" protobuf:"bytes,1,opt,name=name"` ``.
fn field(line: &str, markers: &[String]) -> Option<(String, Tags)> {
    let (declaration, rest) = line.split_once('`')?;
    let (tags, _) = rest.split_once('`')?;
    // An embedded type that says no name has its own.
    let named = tag(tags, "protobuf")?.split(',').find_map(|part| part.strip_prefix("name="));
    let name = named.map_or_else(|| lower_first(declaration.trim()), str::to_owned);
    let json = tag(tags, "json").unwrap_or_default();
    let mut json = json.split(',');
    let called = json.next().unwrap_or_default().to_owned();
    let options: Vec<_> = json.collect();
    let marker = |key: &str| {
        markers.iter().find_map(|marker| {
            let (name, value) = marker.split_once('=').unwrap_or((marker, ""));
            (name.strip_prefix("k8s:").unwrap_or(name) == key).then(|| value.trim().to_owned())
        })
    };
    let strategy = tag(tags, "patchStrategy").unwrap_or_default();
    let of = declaration.split_whitespace().nth(1).unwrap_or_default();
    let mut list_keys = Vec::new();
    for one in markers {
        let one = one.strip_prefix("k8s:").unwrap_or(one);
        if let Some(key) = one.strip_prefix("listMapKey=")
            && !list_keys.iter().any(|known| known == key)
        {
            list_keys.push(key.to_owned());
        }
    }
    let tags = Tags {
        inline: called.is_empty() && options.contains(&"inline"),
        json: called,
        pointer: of.starts_with('*'),
        omit_empty: options.contains(&"omitempty"),
        optional: marker("optional").is_some(),
        list: marker("listType"),
        list_keys,
        atomic: [marker("mapType"), marker("structType")].contains(&Some("atomic".to_owned())),
        default: marker("default").map(|value| value.trim_matches('"').to_owned()),
        merge: strategy.split(',').any(|one| one == "merge"),
        retain_keys: strategy.split(',').any(|one| one == "retainKeys"),
        merge_key: tag(tags, "patchMergeKey").map(str::to_owned),
    };
    Some((name, tags))
}

fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map(|first| first.to_lowercase().collect::<String>() + letters.as_str())
        .unwrap_or_default()
}

/// A default that is a value, rather than the name of one.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && !text.contains([' ', '('])
}

fn tag<'a>(tags: &'a str, name: &str) -> Option<&'a str> {
    tags.split(&format!("{name}:\"")).nth(1)?.split('"').next()
}

impl Tags {
    /// Everything but the type, as the table spells it.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if !self.omit_empty && !self.inline {
            words.push(if self.optional { "kept" } else { "required" }.to_owned());
        }
        match self.list.as_deref() {
            Some("map") => words.push(format!("map:{}", self.list_keys.join("+"))),
            Some("set") => words.push("set".to_owned()),
            // Of a list that says nothing it is true anyway, unless patches merge it.
            Some("atomic") if self.merge => words.push("atomic".to_owned()),
            _ if self.atomic => words.push("atomic".to_owned()),
            _ => {}
        }
        if self.merge {
            words.push(
                self.merge_key.as_ref().map_or_else(|| "merge".to_owned(), |key| format!("merge:{key}")),
            );
        }
        if self.retain_keys {
            words.push("retain-keys".to_owned());
        }
        if let Some(default) = self.default.as_ref().filter(|text| is_plain(text)) {
            words.push(format!("default:{default}"));
        }
        words
    }
}
