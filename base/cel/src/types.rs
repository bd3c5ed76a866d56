//! What is known about values before there are any.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The type of an expression.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Type {
    /// Known only when there is a value.
    Dyn,
    /// `null`.
    Null,
    /// `true` and `false`.
    Bool,
    /// Signed, 64 bits.
    Int,
    /// Unsigned, 64 bits.
    Uint,
    /// Floating point, 64 bits.
    Double,
    /// Text.
    String,
    /// Bytes.
    Bytes,
    /// A span of time.
    Duration,
    /// A moment.
    Timestamp,
    /// A list.
    List(Arc<ListType>),
    /// A map with keys and values of one type each.
    Map(Arc<(Type, Type)>),
    /// An object with named fields.
    Object(Arc<ObjectType>),
    /// A value that may be missing.
    Optional(Arc<Type>),
    /// A type as a value.
    Type,
    /// A type of a library, by name.
    Opaque(&'static str),
    /// A placeholder in a signature.
    Parameter(char),
}

/// What a list holds, and how its items are told apart.
#[derive(Debug, Clone, PartialEq)]
pub struct ListType {
    /// The items.
    pub item: Type,
    /// What makes two items the same.
    pub identity: Identity,
}

/// What makes two items of a list the same, which decides what `==` and `+` mean.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Identity {
    /// Their place.
    #[default]
    Place,
    /// Their value: the list is a set.
    Value,
    /// The values of these fields: the list is a map.
    Keys(Vec<String>),
}

/// The fields of an object.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ObjectType {
    /// As messages show it.
    pub name: String,
    /// By the name that expressions use.
    pub fields: BTreeMap<String, Field>,
}

/// One field of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// What it is called in the object itself.
    pub name: String,
    /// Its type.
    pub kind: Type,
}

impl Type {
    /// A list whose items are told apart by their place.
    pub fn list(item: Self) -> Self {
        Self::List(Arc::new(ListType { item, identity: Identity::Place }))
    }

    /// A map.
    pub fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new((key, value)))
    }

    /// Something that may be missing.
    pub fn optional(inner: Self) -> Self {
        Self::Optional(Arc::new(inner))
    }

    pub(crate) fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn)
    }

    /// Whether a value of this type may stand where `wanted` is asked for. Parameters of `wanted` are bound on the way.
    pub(crate) fn fits(&self, wanted: &Self, bound: &mut BTreeMap<char, Self>) -> bool {
        match (self, wanted) {
            (_, Self::Parameter(name)) => match bound.get(name).cloned() {
                None => {
                    bound.insert(*name, self.clone());
                    true
                }
                Some(known) if known.fits(self, &mut BTreeMap::new()) => {
                    // The wider of the two stays.
                    if !self.fits(&known, &mut BTreeMap::new()) || known.is_dyn() || known == Self::Null {
                        bound.insert(*name, self.clone());
                    }
                    true
                }
                Some(known) => self.fits(&known, &mut BTreeMap::new()),
            },
            (Self::Dyn, _) | (_, Self::Dyn) => true,
            (
                Self::Null,
                Self::Object(_) | Self::Duration | Self::Timestamp | Self::Opaque(_) | Self::Optional(_),
            ) => true,
            (Self::List(one), Self::List(other)) => one.item.fits(&other.item, bound),
            (Self::Map(one), Self::Map(other)) => one.0.fits(&other.0, bound) && one.1.fits(&other.1, bound),
            (Self::Optional(one), Self::Optional(other)) => one.fits(other, bound),
            (Self::Object(one), Self::Object(other)) => Arc::ptr_eq(one, other) || one == other,
            _ => self == wanted,
        }
    }

    /// With parameters replaced by what they were bound to.
    pub(crate) fn resolved(&self, bound: &BTreeMap<char, Self>) -> Self {
        match self {
            Self::Parameter(name) => bound.get(name).cloned().unwrap_or(Self::Dyn),
            Self::List(list) => Self::list(list.item.resolved(bound)),
            Self::Map(map) => Self::map(map.0.resolved(bound), map.1.resolved(bound)),
            Self::Optional(inner) => Self::optional(inner.resolved(bound)),
            other => other.clone(),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => formatter.write_str("dyn"),
            Self::Null => formatter.write_str("null"),
            Self::Bool => formatter.write_str("bool"),
            Self::Int => formatter.write_str("int"),
            Self::Uint => formatter.write_str("uint"),
            Self::Double => formatter.write_str("double"),
            Self::String => formatter.write_str("string"),
            Self::Bytes => formatter.write_str("bytes"),
            Self::Duration => formatter.write_str("duration"),
            Self::Timestamp => formatter.write_str("timestamp"),
            Self::List(list) => write!(formatter, "list({})", list.item),
            Self::Map(map) => write!(formatter, "map({}, {})", map.0, map.1),
            Self::Object(object) => formatter.write_str(&object.name),
            Self::Optional(inner) => write!(formatter, "optional_type({inner})"),
            Self::Type => formatter.write_str("type"),
            Self::Opaque(name) => formatter.write_str(name),
            Self::Parameter(name) => write!(formatter, "{name}"),
        }
    }
}
