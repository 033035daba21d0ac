//! Parts of a list, by number or by cursor. A cursor holds the place in the order and not the row,
//! so it stays valid when the row is deleted.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};

use crate::error::OperationError;

/// Rows of a numbered page.
const PAGE: usize = 10;

/// Which rows of a list are wanted.
#[derive(Clone, Debug, Default)]
pub struct PageRequest {
    /// The first so many.
    pub first: Option<i32>,
    /// Those after this cursor.
    pub after: Option<String>,
    /// The last so many.
    pub last: Option<i32>,
    /// Those before this cursor.
    pub before: Option<String>,
    /// A page of ten, from 1. It replaces all others.
    pub page: Option<i32>,
}

/// Some rows of a list.
#[derive(Debug)]
pub struct RowsPage<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// Whether there are rows after these.
    pub has_next: bool,
    /// Whether there are rows before these.
    pub has_previous: bool,
    /// The number of the page, if it was asked for by number.
    pub current: Option<i32>,
    /// How many pages there are, likewise.
    pub total: Option<i32>,
}

/// The place of a row in the order of a list.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// What the list is sorted by.
    pub name: String,
    /// Decides between equal names.
    pub id: String,
}

/// The direction of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// From a to z.
    Ascending,
    /// From z to a.
    Descending,
}

impl Order {
    /// Reads `asc` or `desc`; absent: ascending.
    ///
    /// # Errors
    /// [`OperationError::Invalid`]; the text is PrimeHub's.
    pub fn parse(written: Option<&str>) -> Result<Order, OperationError> {
        match written {
            None | Some("asc") => Ok(Order::Ascending),
            Some("desc") => Ok(Order::Descending),
            Some(other) => Err(OperationError::Invalid(format!(
                "order value ({other}) not valid. Should be 'asc' or 'desc'"
            ))),
        }
    }

    fn compare(self, one: &Place, other: &Place) -> std::cmp::Ordering {
        match self {
            Order::Ascending => one.cmp(other),
            Order::Descending => other.cmp(one),
        }
    }
}

impl Place {
    /// The text that clients send back.
    pub fn cursor(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::json!([self.name, self.id]).to_string())
    }

    fn from_cursor(field: &str, cursor: &str) -> Result<Place, OperationError> {
        let read = || {
            let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
            let (name, id) = serde_json::from_slice(&bytes).ok()?;
            Some(Place { name, id })
        };
        read().ok_or_else(|| OperationError::Invalid(format!("{field}: is no cursor of this list")))
    }
}

/// Sorts the rows and takes the wanted ones.
///
/// # Errors
/// [`OperationError::Invalid`] for a negative number or a broken cursor.
pub fn paginate<T>(
    mut rows: Vec<T>,
    place: impl Fn(&T) -> Place,
    order: Order,
    request: &PageRequest,
) -> Result<RowsPage<T>, OperationError> {
    rows.sort_by(|one, other| order.compare(&place(one), &place(other)));
    if let Some(page) = count("page", request.page)? {
        return Ok(numbered(rows, page));
    }
    let mut start = 0;
    let mut end = rows.len();
    if let Some(after) = &request.after {
        let after = Place::from_cursor("after", after)?;
        start = rows.partition_point(|row| order.compare(&place(row), &after).is_le());
    }
    if let Some(before) = &request.before {
        let before = Place::from_cursor("before", before)?;
        end = rows.partition_point(|row| order.compare(&place(row), &before).is_lt());
    }
    end = end.max(start);
    if let Some(first) = count("first", request.first)? {
        end = end.min(start.saturating_add(first));
    }
    if let Some(last) = count("last", request.last)? {
        start = start.max(end.saturating_sub(last));
    }
    Ok(RowsPage {
        has_next: end < rows.len(),
        has_previous: start > 0,
        current: None,
        total: None,
        rows: rows.into_iter().skip(start).take(end - start).collect(),
    })
}

fn numbered<T>(rows: Vec<T>, page: usize) -> RowsPage<T> {
    let page = page.max(1);
    let total = rows.len().div_ceil(PAGE);
    let start = (page - 1).saturating_mul(PAGE);
    RowsPage {
        has_next: page < total,
        has_previous: page > 1,
        current: i32::try_from(page).ok(),
        total: i32::try_from(total).ok(),
        rows: rows.into_iter().skip(start).take(PAGE).collect(),
    }
}

fn count(field: &str, written: Option<i32>) -> Result<Option<usize>, OperationError> {
    let number = |written| {
        let wrong = |_| OperationError::Invalid(format!("{field}: must not be negative"));
        usize::try_from(written).map_err(wrong)
    };
    written.map(number).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(row: &&'static str) -> Place {
        Place {
            name: row.to_lowercase(),
            id: (*row).to_owned(),
        }
    }

    fn page(rows: &[&'static str], order: Order, request: &PageRequest) -> RowsPage<&'static str> {
        paginate(rows.to_vec(), place, order, request).expect("valid")
    }

    fn after(row: &'static str, first: i32) -> PageRequest {
        PageRequest {
            first: Some(first),
            after: Some(place(&row).cursor()),
            ..PageRequest::default()
        }
    }

    #[test]
    fn a_cursor_outlives_its_row() {
        let all = ["e", "a", "d", "b", "c"];
        let first = PageRequest {
            first: Some(2),
            ..PageRequest::default()
        };
        let first = page(&all, Order::Ascending, &first);
        assert_eq!(
            (first.rows.as_slice(), first.has_next),
            (&["a", "b"][..], true)
        );
        let without = ["e", "a", "d", "c"];
        let next = page(&without, Order::Ascending, &after("b", 2));
        assert_eq!(
            (next.rows.as_slice(), next.has_next),
            (&["c", "d"][..], true)
        );
        assert!(next.has_previous);
        let last = page(&without, Order::Ascending, &after("d", 2));
        assert_eq!((last.rows.as_slice(), last.has_next), (&["e"][..], false));
        let down = page(&all, Order::Descending, &after("d", 2));
        assert_eq!(down.rows, ["c", "b"]);
    }

    #[test]
    fn rows_are_taken_from_the_end_and_by_number() {
        let all: Vec<&str> = vec!["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"];
        let last = PageRequest {
            last: Some(2),
            before: Some(place(&"k").cursor()),
            ..PageRequest::default()
        };
        assert_eq!(page(&all, Order::Ascending, &last).rows, ["i", "j"]);
        let second = PageRequest {
            page: Some(2),
            ..PageRequest::default()
        };
        let second = page(&all, Order::Ascending, &second);
        assert_eq!(
            (second.rows.as_slice(), second.total),
            (&["k"][..], Some(2))
        );
        let beyond = PageRequest {
            page: Some(i32::MAX),
            ..PageRequest::default()
        };
        assert!(page(&all, Order::Ascending, &beyond).rows.is_empty());
    }

    #[test]
    fn a_broken_cursor_and_a_negative_number_are_refused() {
        for request in [
            PageRequest {
                first: Some(-1),
                ..PageRequest::default()
            },
            PageRequest {
                after: Some("?".into()),
                ..PageRequest::default()
            },
            PageRequest {
                before: Some(String::new()),
                ..PageRequest::default()
            },
        ] {
            assert!(paginate(vec!["a"], place, Order::Ascending, &request).is_err());
        }
        let crossed = PageRequest {
            before: Some(place(&"a").cursor()),
            ..after("b", 1)
        };
        assert!(
            page(&["a", "b"], Order::Ascending, &crossed)
                .rows
                .is_empty()
        );
        assert!(Order::parse(Some("up")).is_err());
    }
}
