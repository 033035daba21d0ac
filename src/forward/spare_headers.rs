//! Header maps that are used again: the map of a handled request has room for the headers of the
//! next request to an app, so no map is allocated.

use std::cell::RefCell;

use http::HeaderMap;

/// Room of a new map: for what Ludgate adds and what browsers send.
const ROOM: usize = 32;
/// Larger maps are not kept, and no smaller ones than new ones.
const MAX_ROOM: usize = 64;
/// Maximum number of maps of one data thread, some 5 KiB each.
const MAX_MAPS: usize = 32;

/// The empty maps of one data thread.
#[derive(Debug, Default)]
pub struct SpareHeaders(RefCell<Vec<HeaderMap>>);

impl SpareHeaders {
    /// An empty map.
    pub(super) fn pop(&self) -> HeaderMap {
        let spare = self.0.borrow_mut().pop();
        spare.unwrap_or_else(|| HeaderMap::with_capacity(ROOM))
    }

    /// Keeps the map for a later request.
    pub fn push(&self, mut map: HeaderMap) {
        let mut maps = self.0.borrow_mut();
        if maps.len() < MAX_MAPS && (ROOM..=MAX_ROOM).contains(&map.capacity()) {
            map.clear();
            maps.push(map);
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, header};

    use super::*;

    #[test]
    fn maps_come_back_empty_and_only_some_of_the_right_size_are_kept() {
        let spare = SpareHeaders::default();
        let mut used = HeaderMap::with_capacity(40);
        used.append(header::COOKIE, HeaderValue::from_static("a=1"));
        used.append(header::COOKIE, HeaderValue::from_static("b=2"));
        let room = used.capacity();
        spare.push(used);
        let again = spare.pop();
        assert!(again.is_empty() && again.get(header::COOKIE).is_none());
        assert_eq!(again.capacity(), room);
        for unfit in [0, 8, 1000] {
            spare.push(HeaderMap::with_capacity(unfit));
            assert!(spare.0.borrow().is_empty(), "{unfit}");
        }
        for _ in 0..MAX_MAPS + 1 {
            spare.push(HeaderMap::with_capacity(ROOM));
        }
        assert_eq!(spare.0.borrow().len(), MAX_MAPS);
    }
}
