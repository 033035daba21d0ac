//! The admission webhook: the API server asks it before it stores an object, so that `kubectl
//! apply` fails with the message that the object's status would have.
//!
//! It is optional. The controllers check every object themselves, since an object may be older
//! than the webhook, or may have been stored while the webhook was unreachable.

pub mod certificate;
pub mod certificate_store;
pub mod object_rules;
pub mod review;
pub mod server;
