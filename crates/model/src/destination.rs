//! The destination of a request: one app, and the target below its root.
//!
//! `authorize` checks this value and `forward` sends it, so both see the same target. The request
//! line is not parsed again.

use std::sync::Arc;

use http::uri::PathAndQuery;

use super::app::App;

/// An app and the target within it.
#[derive(Clone, Debug)]
pub struct Destination {
    /// The app that gets the request.
    pub app: Arc<App>,
    target: PathAndQuery,
    /// Index in `target` of the slash after the id, where the path below the app begins.
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

    /// Whether it is the mount itself. The cookie of an app session has a path with a final slash,
    /// so browsers do not send it there.
    pub fn is_bare(&self) -> bool {
        self.root == self.target.path().len()
    }

    /// The target for the app: whole, or without the mount.
    ///
    /// # Errors
    /// `None` if the shortened target is invalid; then the request is not sent.
    pub fn upstream_target(&self) -> Option<PathAndQuery> {
        if !self.app.spec.strip_prefix {
            return Some(self.target.clone());
        }
        PathAndQuery::try_from(&self.target.as_str()[self.root..]).ok()
    }

    /// The target in the browser's address.
    pub fn public_target(&self) -> &PathAndQuery {
        &self.target
    }
}
