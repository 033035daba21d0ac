//! The parameters of the API's list method: filters, select, order, limit, offset, count.

use std::cmp::Ordering;

use serde_json::{Map, Value, json};

use super::records::{Kind, Record};

/// As documented for a list without `limit`.
const DEFAULT_LIMIT: usize = 100;
/// `API.MaxItemsPerResponse` of a stock cluster: what is asked for beyond is silently not given.
const MAX_LIMIT: usize = 1000;

type Fields = Map<String, Value>;

pub struct Query {
    filters: Vec<Filter>,
    select: Vec<String>,
    /// Attribute, and whether downwards.
    order: Vec<(String, bool)>,
    limit: usize,
    offset: usize,
    counts: bool,
}

struct Filter {
    attribute: String,
    operator: String,
    operand: Value,
}

impl Query {
    /// From the query of a URL; the error is what the API says with its 422.
    pub fn parse(query: &str) -> Result<Query, String> {
        let mut parsed = Query {
            filters: Vec::new(),
            select: Vec::new(),
            order: vec![("modified_at".into(), true), ("uuid".into(), false)],
            limit: DEFAULT_LIMIT,
            offset: 0,
            counts: true,
        };
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            match name.as_ref() {
                "filters" => parsed.filters = filters(&value)?,
                "select" => parsed.select = texts(&value)?,
                "order" => parsed.order = order(&value)?,
                "limit" => parsed.limit = number(&value)?.min(MAX_LIMIT),
                "offset" => parsed.offset = number(&value)?,
                "count" => match value.as_ref() {
                    "" | "exact" => parsed.counts = true,
                    "none" => parsed.counts = false,
                    _ => return Err("count parameter must be 'exact' or 'none'".into()),
                },
                // Parameters that nothing here depends on are accepted, as the API does.
                _ => {}
            }
        }
        Ok(parsed)
    }

    /// One record, reduced to what was selected.
    pub fn one(&self, record: &Record) -> Result<Value, String> {
        self.check_select(&record.fields)?;
        Ok(Value::Object(self.selected(&record.fields)))
    }

    /// The list object over the records that may be read.
    pub fn list<'a>(
        &self,
        kind: Kind,
        readable: impl Iterator<Item = &'a Record>,
    ) -> Result<Value, String> {
        let mut found = Vec::new();
        for record in readable {
            self.check_select(&record.fields)?;
            let mut fits = true;
            for filter in &self.filters {
                fits &= filter.fits(&record.fields)?;
            }
            if fits {
                found.push(&record.fields);
            }
        }
        found.sort_by(|a, b| self.compare(a, b));
        let items: Vec<Value> = found
            .iter()
            .skip(self.offset)
            .take(self.limit)
            .map(|fields| Value::Object(self.selected(fields)))
            .collect();
        let mut list = json!({
            "kind": format!("arvados#{}List", kind.name()), "etag": "", "self_link": "",
            "offset": self.offset, "limit": self.limit, "items": items,
        });
        if self.counts {
            list["items_available"] = found.len().into();
        }
        Ok(list)
    }

    fn check_select(&self, fields: &Fields) -> Result<(), String> {
        match self.select.iter().find(|name| !fields.contains_key(*name)) {
            Some(unknown) => Err(format!("Invalid attribute '{unknown}' in select")),
            None => Ok(()),
        }
    }

    /// `kind` is given even when it was not asked for.
    fn selected(&self, fields: &Fields) -> Fields {
        let wanted = |name: &str| {
            self.select.is_empty() || name == "kind" || self.select.iter().any(|s| s == name)
        };
        fields
            .iter()
            .filter(|(name, _)| wanted(name))
            .map(|(n, v)| (n.clone(), v.clone()))
            .collect()
    }

    fn compare(&self, a: &Fields, b: &Fields) -> Ordering {
        let by = |(name, down): &(String, bool)| {
            let value = |fields: &'_ Fields| fields.get(name).cloned().unwrap_or_default();
            let order = compare(&value(a), &value(b));
            if *down { order.reverse() } else { order }
        };
        self.order
            .iter()
            .map(by)
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }
}

impl Filter {
    fn fits(&self, fields: &Fields) -> Result<bool, String> {
        let value = match self.attribute.split_once('.') {
            // Hashes can be searched one key deep.
            Some((name, key)) => fields
                .get(name)
                .map(|hash| hash.get(key).unwrap_or(&Value::Null)),
            None => fields.get(&self.attribute),
        };
        let value =
            value.ok_or_else(|| format!("Invalid attribute '{}' in filter", self.attribute))?;
        let is_one_of = || {
            let operands = self.operand.as_array();
            operands
                .map(|operands| operands.contains(value))
                .ok_or_else(|| {
                    format!(
                        "Invalid operand type for '{}' operator in filters",
                        self.operator
                    )
                })
        };
        match self.operator.as_str() {
            "=" => Ok(value == &self.operand),
            "!=" => Ok(value != &self.operand),
            ">" => Ok(compare(value, &self.operand) == Ordering::Greater),
            "in" => is_one_of(),
            "not in" => is_one_of().map(|is| !is),
            other => Err(format!("Invalid operator '{other}'")),
        }
    }
}

fn compare(a: &Value, b: &Value) -> Ordering {
    match (a.as_str(), b.as_str()) {
        (Some(a), Some(b)) => a.cmp(b),
        _ => a
            .as_f64()
            .partial_cmp(&b.as_f64())
            .unwrap_or(Ordering::Equal),
    }
}

fn filters(text: &str) -> Result<Vec<Filter>, String> {
    let conditions: Vec<Value> =
        serde_json::from_str(text).map_err(|_| "filters is not a JSON array")?;
    let condition = |condition: &Value| match condition.as_array().map(Vec::as_slice) {
        Some([Value::String(attribute), Value::String(operator), operand]) => Ok(Filter {
            attribute: attribute.clone(),
            operator: operator.to_lowercase(),
            operand: operand.clone(),
        }),
        _ => Err(format!("Invalid element in filters array: {condition}")),
    };
    conditions.iter().map(condition).collect()
}

/// A JSON array of texts.
fn texts(text: &str) -> Result<Vec<String>, String> {
    serde_json::from_str(text).map_err(|_| format!("not an array of strings: {text}"))
}

/// `["a desc", "b"]`, or the same separated by commas.
fn order(text: &str) -> Result<Vec<(String, bool)>, String> {
    let terms = texts(text).unwrap_or_else(|_| text.split(',').map(str::to_owned).collect());
    let term = |term: &String| {
        let mut words = term.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some(name), None | Some("asc"), None) => Ok((name.to_owned(), false)),
            (Some(name), Some("desc"), None) => Ok((name.to_owned(), true)),
            _ => Err(format!("Invalid order term: {term}")),
        }
    };
    terms.iter().map(term).collect()
}

fn number(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("not a number: {text}"))
}
