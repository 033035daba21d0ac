//! The steps to the decision for a request, as pure functions: requests, `ludgate explain` and the
//! tests call the same.
//!
//! In order: [`head`](head::head) accepts the head, [`locate`](locate::locate) finds the app,
//! [`authorize`](authorize::authorize) gives a permit. Each ends the request early with a
//! [`Decision`](decision::Decision), which is a value; `respond` renders it.

pub mod allowed_groups;
pub mod authorize;
pub mod decision;
mod frame;
pub mod head;
pub mod labels;
pub mod locate;
mod origin_check;
pub mod path_rules;
pub mod reason;
mod stray_request;
pub mod target;
pub mod tenant;

pub use authorize::authorize;
pub use decision::{Decision, Redirect, Refusal};
pub use frame::accept_frame;
pub use head::head;
pub use locate::{check_tenant, locate};
pub use reason::Reason;
pub use target::Target;
