//! As much of the protobuf language as the published files use.

/// One message.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) name: String,
    /// By number.
    pub(super) fields: Vec<Field>,
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) number: u32,
    pub(super) name: String,
    /// Of the value, the items or the values of a map with text as keys.
    pub(super) of: String,
    pub(super) repeated: bool,
    pub(super) map: bool,
}

impl Message {
    /// A list of objects; those are described by the kind they list.
    pub(super) fn is_list(&self) -> bool {
        matches!(self.fields.as_slice(), [metadata, items]
            if metadata.of.ends_with(".ListMeta") && items.name == "items" && items.repeated)
    }
}

pub(super) fn messages(text: &str) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::new();
    let mut inside = false;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("message ").and_then(|line| line.strip_suffix('{')) {
            messages.push(Message { name: name.trim().to_owned(), fields: Vec::new() });
            inside = true;
        } else if line == "}" {
            inside = false;
        } else if inside
            && let Some(field) = field(line)
            && let Some(message) = messages.last_mut()
        {
            message.fields.push(field);
        }
    }
    for message in &mut messages {
        message.fields.sort_by_key(|field| field.number);
    }
    messages
}

/// `repeated Container containers = 2;`
fn field(line: &str) -> Option<Field> {
    let (declaration, number) = line.strip_suffix(';')?.split_once(" = ")?;
    let number = number.split_whitespace().next()?.parse().ok()?;
    if let Some(rest) = declaration.strip_prefix("map<string, ") {
        let (of, name) = rest.split_once("> ")?;
        return Some(Field { number, name: name.to_owned(), of: of.to_owned(), repeated: false, map: true });
    }
    let mut words = declaration.split_whitespace();
    let label = words.next()?;
    let (of, name) = (words.next()?.to_owned(), words.next()?.to_owned());
    match label {
        "optional" | "required" => Some(Field { number, name, of, repeated: false, map: false }),
        "repeated" => Some(Field { number, name, of, repeated: true, map: false }),
        _ => None,
    }
}
