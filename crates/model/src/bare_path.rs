//! Whether an app serves `<prefix>/<id>` without a slash at the end, as a web framework with a base
//! path may insist on (Next.js with `basePath` redirects the address with the slash to the one
//! without).
//!
//! Usually that address leads to the one with the slash, below which relative links work. For an
//! app that redirects back, the two redirects would be a circle: what it wants is learned from its
//! first redirect.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

/// Of one app, for as long as it is published, and over changes of it.
#[derive(Clone, Debug, Default)]
pub struct BarePath(Arc<AtomicBool>);

impl BarePath {
    /// Whether the app serves it.
    pub fn is_served(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// The app does. Gives back whether that is new.
    pub fn learn(&self) -> bool {
        !self.0.swap(true, Relaxed)
    }
}
