//! Sources of apps that cannot be listed and are looked up on demand.

use std::{fmt, net::IpAddr, sync::Arc};

use futures_util::future::BoxFuture;
use http::uri::PathAndQuery;

use super::lookup::Lookup;
use crate::model::{app::App, arrival::AddressToken, vhost::VirtualHost};

/// Looks up apps by virtual host, beside the snapshot.
pub trait Resolver: fmt::Debug + Send + Sync {
    /// Resolves a virtual host for which the snapshot returned `listed`. Apps of the snapshot take
    /// precedence. Look-ups of unknown names are rate-limited for each `client`.
    ///
    /// Cancel safety: a look-up in progress goes on, and its result is cached.
    fn resolve<'r>(
        &'r self,
        vhost: &'r VirtualHost,
        listed: Lookup,
        client: IpAddr,
    ) -> BoxFuture<'r, Lookup>;

    /// Removes a credential of this source from the query of an address that may lead to one of
    /// its apps. Every other byte stays.
    fn strip_credential(&self, target: &mut PathAndQuery, lookup: &Lookup) -> Option<AddressToken>;

    /// The app as it is published now, without waiting: `Some(None)` when it is gone, `None` when
    /// it is not from this source.
    fn still_published(&self, app: &Arc<App>) -> Option<Option<Arc<App>>>;
}
