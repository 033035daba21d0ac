//! The rules of definitions and installations, beyond what the schemas of the custom resources
//! check. An API server without CEL and without the admission webhook checks none of them, so the
//! controller checks them again.

pub mod definition;
pub mod deletion;
pub mod field_error;
pub mod installation;
pub mod namespace_keys;
pub mod options;
pub mod source;
