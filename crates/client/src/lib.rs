//! A client of the API: the apps of a site, as the command line needs them.
//!
//! [`connection`] sends requests as one person; [`calls`] are the operations, [`hosted_app`] their
//! types; [`install_calls`] and [`installed_app`] are the same for applications from Helm charts;
//! [`device_code`] signs in without a browser at hand; [`saved_site`] remembers site and token in
//! the person's home folder.

pub mod calls;
pub mod connection;
pub mod device_code;
pub mod error;
pub mod hosted_app;
pub mod install_calls;
pub mod installed_app;
pub mod saved_site;
