//! Memory for bodies that are collected before anybody is authorised: forms that come again, sign-outs, logout tokens. Whoever
//! sends them may send them slowly, so what one client may have collected at once is bounded, and what all may together.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

use crate::model::{arrival::Framing, load::Holder};

/// Of all clients together, in bytes.
const ALL: usize = 16 << 20;
/// Of one person or client, in bytes: four of the largest forms.
const EACH: usize = 1 << 20;

/// Counts what is collected now.
#[derive(Clone, Debug, Default)]
pub struct FormBudget(Arc<Mutex<Spent>>);

#[derive(Debug, Default)]
struct Spent {
    all: usize,
    each: HashMap<Key, usize>,
}

/// Leave to collect one body. Given back by drop, when the body is gone.
#[derive(Debug)]
pub struct Reserved {
    budget: FormBudget,
    holder: Option<Key>,
    bytes: usize,
}

/// Who sends it: somebody whose session is known is counted apart from all others at the same address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Person(Box<str>),
    Client(IpAddr),
}

impl Key {
    fn new(holder: Holder<'_>) -> Option<Key> {
        match holder {
            Holder::Person(subject) => Some(Key::Person(subject.into())),
            Holder::Client(address) => Some(Key::Client(address)),
            Holder::Unknown => None,
        }
    }
}

impl FormBudget {
    /// Leave to collect a body with this framing, of which `most` bytes are taken. `None`: too much is being collected, of
    /// this holder or of all. Clients that a proxy does not tell apart share only the second bound.
    pub fn reserve(&self, holder: Holder<'_>, framing: Framing, most: usize) -> Option<Reserved> {
        let bytes = match framing {
            Framing::None => 0,
            Framing::Length(length) => usize::try_from(length).unwrap_or(usize::MAX).min(most),
            Framing::Chunked => most,
        };
        let mut spent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let holder = Key::new(holder);
        let before = holder.as_ref().and_then(|key| spent.each.get(key)).copied().unwrap_or(0);
        if spent.all + bytes > ALL || before + bytes > EACH {
            return None;
        }
        spent.all += bytes;
        if let Some(key) = &holder {
            spent.each.insert(key.clone(), before + bytes);
        }
        Some(Reserved { budget: self.clone(), holder, bytes })
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let mut spent = self.budget.0.lock().unwrap_or_else(PoisonError::into_inner);
        spent.all -= self.bytes;
        if let Some(holder) = &self.holder
            && let Some(bytes) = spent.each.get_mut(holder)
        {
            *bytes -= self.bytes;
            if *bytes == 0 {
                spent.each.remove(holder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 256 << 10;

    #[test]
    fn one_client_has_its_part_and_all_together_have_an_end() {
        let budget = FormBudget::default();
        let client = |last: u8| Holder::Client(IpAddr::from([192, 0, 2, last]));
        let take = |holder| budget.reserve(holder, Framing::Chunked, MOST);
        let first: Vec<_> = std::iter::from_fn(|| take(client(1))).collect();
        assert_eq!(first.len(), EACH / MOST);
        assert!(budget.reserve(client(1), Framing::Length(0), MOST).is_some(), "nothing costs nothing");
        assert!(take(Holder::Person("alice")).is_some(), "somebody known, wherever they are");
        let others: Vec<_> = (2..100).flat_map(|n| [n; 4]).filter_map(|n| take(client(n))).collect();
        assert_eq!(first.len() + others.len(), ALL / MOST);
        assert!(take(Holder::Unknown).is_none());
        drop(first);
        let many: Vec<_> = std::iter::from_fn(|| take(Holder::Unknown)).collect();
        assert_eq!(many.len(), EACH / MOST, "no bound of its own");
        drop((others, many));
        assert!(budget.0.lock().expect("no panic").each.is_empty());
        assert!(budget.reserve(client(1), Framing::Length(100), MOST).is_some_and(|one| one.bytes == 100));
    }
}
