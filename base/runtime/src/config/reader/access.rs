//! The three shapes that hold further values: lists, tables, and the contents of a variant.

use std::collections::{BTreeMap, btree_map};
use std::slice;

use serde::de::value::{StrDeserializer, StringDeserializer};
use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};

use super::{Failure, Node, Reader};

pub(super) struct Items<'a> {
    of: Reader<'a>,
    next: usize,
    items: slice::Iter<'a, Node>,
}

impl<'a> Items<'a> {
    pub(super) fn new(of: Reader<'a>, items: &'a [Node]) -> Self {
        Self { of, next: 0, items: items.iter() }
    }
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Failure;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Failure> {
        let Some(node) = self.items.next() else { return Ok(None) };
        let reader = self.of.below(self.next.to_string(), node);
        self.next += 1;
        let (path, node) = (reader.path.clone(), reader.node);
        Reader::locate(path, node, seed.deserialize(reader)).map(Some)
    }
}

pub(super) struct Entries<'a> {
    of: Reader<'a>,
    /// The only keys that matter, where that is known.
    fields: Option<&'static [&'static str]>,
    entries: btree_map::Iter<'a, String, Node>,
    current: Option<(&'a String, &'a Node)>,
}

impl<'a> Entries<'a> {
    pub(super) fn all(of: Reader<'a>, table: &'a BTreeMap<String, Node>) -> Self {
        Self { of, fields: None, entries: table.iter(), current: None }
    }

    pub(super) fn known(
        of: Reader<'a>,
        table: &'a BTreeMap<String, Node>,
        fields: &'static [&'static str],
    ) -> Self {
        Self { fields: Some(fields), ..Self::all(of, table) }
    }
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Failure;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Failure> {
        let fields = self.fields;
        let known = |key: &str| fields.is_none_or(|fields| fields.contains(&key));
        let Some((key, node)) = self.entries.find(|(key, _)| known(key)) else { return Ok(None) };
        self.current = Some((key, node));
        let name: StringDeserializer<Failure> = key.clone().into_deserializer();
        let reader = self.of.below(key, node);
        Reader::locate(reader.path, node, seed.deserialize(name)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Failure> {
        let (key, node) =
            self.current.take().ok_or_else(|| <Failure as de::Error>::custom("a value without a key"))?;
        let reader = self.of.below(key, node);
        let path = reader.path.clone();
        // Types of their own refuse values with an error that no visit of ours has seen.
        Reader::locate(path, node, seed.deserialize(reader))
    }
}

pub(super) struct Variant<'a> {
    pub(super) name: &'a str,
    pub(super) content: Reader<'a>,
}

impl<'de, 'a> EnumAccess<'de> for Variant<'a> {
    type Error = Failure;
    type Variant = Reader<'a>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Reader<'a>), Failure> {
        let name: StrDeserializer<'_, Failure> = self.name.into_deserializer();
        Ok((seed.deserialize(name)?, self.content))
    }
}

impl<'de> VariantAccess<'de> for Reader<'_> {
    type Error = Failure;

    fn unit_variant(self) -> Result<(), Failure> {
        Err(<Failure as de::Error>::custom("takes no value; write its name alone"))
            .or_else(|failure| Self::locate(self.path, self.node, Err(failure)))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Failure> {
        let (path, node) = (self.path.clone(), self.node);
        Self::locate(path, node, seed.deserialize(self))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _length: usize, visitor: V) -> Result<V::Value, Failure> {
        self.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failure> {
        self.deserialize_struct("", fields, visitor)
    }
}
