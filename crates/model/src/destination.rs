//! Where a request goes: one app, and the part of the target that lies below its root.
//!
//! This value is what `authorize` judges and what `forward` sends; nobody reads the request line
//! again.

use std::sync::Arc;

use http::uri::PathAndQuery;

use super::app::App;

/// An app and the target within it.
#[derive(Clone, Debug)]
pub struct Destination {
    /// The app.
    pub app: Arc<App>,
    target: PathAndQuery,
    /// Where the path below the app begins in `target`: the index of the slash after the id.
    root: usize,
}

impl Destination {
    /// `root` is the index of the slash that ends the app's mount; 0 for an app at `/`.
    pub fn new(app: Arc<App>, target: PathAndQuery, root: usize) -> Destination {
        debug_assert_eq!(target.as_str().as_bytes().get(root), Some(&b'/'));
        Destination { app, target, root }
    }

    /// The mount itself, without a slash, of an app that serves it.
    pub fn bare(app: Arc<App>, target: PathAndQuery) -> Destination {
        let root = target.path().len();
        Destination { app, target, root }
    }

    /// Whether it is the mount itself: the cookie of an app session, whose path ends with a slash,
    /// does not reach it.
    pub fn is_bare(&self) -> bool {
        self.root == self.target.path().len()
    }

    /// The target as the app is to see it: whole, or without its mount.
    ///
    /// # Errors
    /// `None` when the shortened target is no request target; it then is not sent.
    pub fn upstream_target(&self) -> Option<PathAndQuery> {
        if !self.app.spec.strip_prefix {
            return Some(self.target.clone());
        }
        PathAndQuery::try_from(&self.target.as_str()[self.root..]).ok()
    }

    /// The target as the browser sees it.
    pub fn public_target(&self) -> &PathAndQuery {
        &self.target
    }
}
