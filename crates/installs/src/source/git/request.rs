//! What to fetch.

use crate::source::{
    chart_source::GitRevision, credentials::Credentials, settings::SourceSettings,
};

/// A commit of a remote.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GitRequest<'r> {
    pub(crate) remote: &'r str,
    pub(crate) revision: &'r GitRevision,
    pub(crate) credentials: &'r Credentials,
    pub(crate) settings: &'r SourceSettings,
}
