//! The parameters of a list, and what they do.

use std::ops::Range;

use axum::extract::FromRequestParts;
use http::request::Parts;
use pilothouse_maestro_api::List;
use serde_json::{Map, Value};

use crate::server::error::Refusal;

/// The most that is answered at once.
const LARGEST_PAGE: usize = 65_500;

/// What part of a list is wanted, and how. What cannot be read counts as zero, as clients are used to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListQuery {
    page: usize,
    size: usize,
    pub(super) search: Option<String>,
    order_by: Vec<String>,
    fields: Vec<String>,
}

impl<S: Sync> FromRequestParts<S> for ListQuery {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self::read(parts.uri.query().unwrap_or_default()))
    }
}

impl ListQuery {
    fn read(query: &str) -> Self {
        let mut read = Self { page: 1, size: 100, search: None, order_by: Vec::new(), fields: Vec::new() };
        for (name, value) in form_urlencoded(query) {
            let value = value.trim();
            if value.is_empty() {
                continue;
            }
            let parts = || value.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned);
            match name.as_str() {
                "page" => read.page = value.parse().unwrap_or_default(),
                "size" => {
                    read.size = match value.parse::<i64>().unwrap_or_default() {
                        size if size < 0 => LARGEST_PAGE,
                        size => usize::try_from(size).map_or(LARGEST_PAGE, |size| size.min(LARGEST_PAGE)),
                    };
                }
                "search" => read.search = Some(value.to_owned()),
                "orderBy" => read.order_by = parts().collect(),
                "fields" => read.fields = parts().collect(),
                _ => {}
            }
        }
        read
    }

    /// What decides what is found, and in which order.
    pub(super) fn identity(&self) -> (Option<String>, Vec<String>) {
        (self.search.clone(), self.order_by.clone())
    }

    /// The positions of the items on the page.
    pub(super) fn range(&self) -> Range<usize> {
        let start = (self.page.max(1) - 1).saturating_mul(self.size);
        start..start.saturating_add(self.size)
    }

    /// The columns that decide about the order.
    pub(super) fn order_columns(&self) -> Vec<&str> {
        self.order_by.iter().filter_map(|part| part.split_whitespace().next()).collect()
    }

    /// Whether there is such an order.
    pub(super) fn check_order(&self, columns: &[&str]) -> Result<(), Refusal> {
        self.sort::<()>(&mut [], columns, |(), _| String::new())
    }

    /// Puts items into the order that was asked for. `key` is what an item has in a column, written so that it sorts like
    /// itself.
    pub(super) fn sort<T>(
        &self,
        items: &mut [T],
        columns: &[&str],
        key: impl Fn(&T, &str) -> String,
    ) -> Result<(), Refusal> {
        // The last one first, since sorting keeps the order of what is equal.
        for part in self.order_by.iter().rev() {
            let words: Vec<_> = part.split_whitespace().collect();
            let (column, descending) = match words.as_slice() {
                [column] => (*column, false),
                [column, direction] if direction.eq_ignore_ascii_case("asc") => (*column, false),
                [column, direction] if direction.eq_ignore_ascii_case("desc") => (*column, true),
                _ => return Err(Refusal::BadRequest(format!("`{part}` is not an order"))),
            };
            if !columns.contains(&column) {
                return Err(Refusal::BadRequest(format!("there is no column `{column}` to order by")));
            }
            items.sort_by(|one, other| {
                let ordering = key(one, column).cmp(&key(other, column));
                if descending { ordering.reverse() } else { ordering }
            });
        }
        Ok(())
    }

    /// The part of a list that was asked for, and what it is called. Only the items on it are presented.
    pub(super) fn page<T>(&self, kind: &str, items: &[T], present: impl Fn(&T) -> Value) -> List<Value> {
        let Range { start, end } = self.range();
        let end = end.min(items.len());
        let shown = items[start.min(end)..end].iter().map(|item| self.project(present(item))).collect();
        self.list(kind, items.len(), shown)
    }

    /// A page of a list with so many items altogether.
    pub(super) fn list<T>(&self, kind: &str, total: usize, shown: Vec<T>) -> List<T> {
        List { kind: kind.to_owned(), page: self.page.max(1), size: shown.len(), total, items: shown }
    }

    /// Whether only some fields of each item were asked for.
    pub(super) fn is_projected(&self) -> bool {
        !self.fields.is_empty()
    }

    /// An item with the fields that were asked for, and its id. A dot leads into a field.
    pub(super) fn project(&self, item: Value) -> Value {
        if !self.is_projected() {
            return item;
        }
        let mut shown = Value::Object(Map::new());
        for field in self.fields.iter().map(String::as_str).chain(["id"]) {
            let pointer = format!("/{}", field.replace('~', "~0").replace('/', "~1").replace('.', "/"));
            let Some(value) = item.pointer(&pointer) else { continue };
            let mut place = &mut shown;
            for name in field.split('.') {
                if !place.is_object() {
                    *place = Value::Object(Map::new());
                }
                place = &mut place[name];
            }
            *place = value.clone();
        }
        shown
    }
}

/// Names and values of a query, decoded.
fn form_urlencoded(query: &str) -> Vec<(String, String)> {
    // An extractor of axum would refuse a whole query for one value that is no number.
    axum::extract::Query::<Vec<(String, String)>>::try_from_uri(
        &http::Uri::builder().path_and_query(format!("/?{query}")).build().unwrap_or_default(),
    )
    .map(|axum::extract::Query(pairs)| pairs)
    .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn items() -> Vec<Value> {
        ["b", "a", "c", "a"]
            .iter()
            .enumerate()
            .map(|(number, name)| json!({"id": number.to_string(), "name": name, "metadata": {"uid": "u", "x": 1}}))
            .collect()
    }

    fn list(query: &str) -> Result<Vec<String>, String> {
        let query = ListQuery::read(query);
        let mut items = items();
        let key = |item: &Value, column: &str| item[column].as_str().unwrap_or_default().to_owned();
        query.sort(&mut items, &["id", "name"], key).map_err(|refusal| refusal.to_string())?;
        let list = query.page("List", &items, Value::clone);
        assert_eq!((list.total, list.size), (4, list.items.len()));
        Ok(list.items.iter().map(|item| item["id"].as_str().unwrap_or("?").to_owned()).collect())
    }

    #[test]
    fn pages_and_orders_are_the_ones_asked_for() {
        for (query, expected) in [
            ("", &["0", "1", "2", "3"][..]),
            ("size=3", &["0", "1", "2"]),
            ("size=3&page=2", &["3"]),
            ("size=3&page=3", &[]),
            ("page=0&size=1", &["0"]),
            ("page=x&size=1", &["0"]),
            ("size=0", &[]),
            ("size=x", &[]),
            ("size=-1", &["0", "1", "2", "3"]),
            ("size=99999999999999999999", &[]),
            ("size=70000", &["0", "1", "2", "3"]),
            ("orderBy=name", &["1", "3", "0", "2"]),
            ("orderBy=name+desc", &["2", "0", "1", "3"]),
            ("orderBy=name,id+desc", &["3", "1", "0", "2"]),
            ("orderBy=name%20ASC,+id", &["1", "3", "0", "2"]),
        ] {
            assert_eq!(list(query).unwrap(), expected, "{query}");
        }
        assert_eq!(list("orderBy=size").unwrap_err(), "there is no column `size` to order by");
        assert_eq!(list("orderBy=name+up").unwrap_err(), "`name up` is not an order");
    }

    #[test]
    fn fields_are_those_asked_for_and_the_id() {
        let shown =
            |query: &str| ListQuery::read(query).page("List", &items()[..1], Value::clone).items.remove(0);
        assert_eq!(shown("fields=name"), json!({"id": "0", "name": "b"}));
        assert_eq!(shown("fields=+metadata.uid+,,id"), json!({"id": "0", "metadata": {"uid": "u"}}));
        assert_eq!(shown("fields=none"), json!({"id": "0"}));
        assert_eq!(shown("fields="), items()[0]);
    }
}
