//! One request on its way to an app.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    net::SocketAddr,
    sync::Arc,
    time::Instant,
};

use http::{HeaderValue, Method, uri::PathAndQuery};

use super::{
    cached_headers::{CachedHeaders, HeaderFacts},
    chosen_upstream::ChosenUpstream,
    fault::Fault,
    pool::key::PoolKey,
};
use crate::{
    authorize::Permit,
    identity::assertion::AssertionSigner,
    incoming::IncomingRequest,
    model::{
        app::UpstreamScheme,
        arrival::RequestClass,
        concurrency_limit::Holder,
        site::{Site, WebOrigin},
    },
    peer::Peer,
    session::usage::Usage,
};

/// A permitted request, and what its headers are made of.
pub struct Outgoing<'r, 'h> {
    /// The right to send it.
    pub permit: &'r Permit,
    /// The request as it was authorized.
    pub request: &'r IncomingRequest<'h>,
    /// The site.
    pub site: &'r Arc<Site>,
    /// The peer of the client's connection.
    pub peer: &'r Peer,
    /// The headers of the last request on the same connection.
    pub cached: &'r CachedHeaders,
    /// Signs identities for apps; `None`: there are no keys.
    pub assertions: Option<&'r AssertionSigner>,
    /// The client; the port is 0 behind a proxy, which names none.
    pub client: SocketAddr,
    /// The Authorization header is a credential of ours: no app sees it.
    pub authorization_is_ours: bool,
    /// The person's access token of the provider; `None` for most apps.
    pub access_token: Option<HeaderValue>,
    /// Keeps the session alive while bytes are transferred.
    pub usage: Option<Usage>,
    /// When the request was permitted.
    pub started: Instant,
}

impl Outgoing<'_, '_> {
    /// Who the app's limits count it under.
    pub(super) fn holder(&self) -> Holder<'_> {
        let person = self.permit.principal().map(Arc::as_ref);
        Holder::new(person, self.request.client.limit_key)
    }

    /// What the headers of ours are made of.
    pub(super) fn facts(&self) -> HeaderFacts<'_> {
        HeaderFacts {
            permit: self.permit,
            site: self.site,
            vhost: self.request.arrival.vhost,
            peer: self.peer,
            client: self.request.client.address,
            assertions: self.assertions,
        }
    }

    /// Whether a page in answer gets the script of `apps.session_notice`. Only pages that a user
    /// with a session opens in a tab.
    pub(super) fn gets_notice(&self) -> bool {
        let arrival = &self.request.arrival;
        self.permit.app().spec.session.has_notice
            && self.usage.is_some()
            && arrival.class == RequestClass::Navigation
            && arrival.method == Method::GET
    }

    /// The origin that the browser sees.
    pub(super) fn origin(&self) -> WebOrigin {
        self.site.origin_of(&self.request.arrival.vhost)
    }

    /// Chooses the upstream that it goes to.
    pub(super) fn choose_upstream(&self) -> ChosenUpstream {
        let app = self.permit.app();
        let client = app.spec.proxy_protocol.then_some(self.client);
        match &app.group {
            None => ChosenUpstream::only(PoolKey {
                server: self.pod(),
                client,
            }),
            Some(group) => {
                let visitor = group.is_sticky().then(|| self.visitor());
                ChosenUpstream::of_group(group, visitor, client, self.started)
            }
        }
    }

    /// The pod that it prefers. A person is sticky to one pod, an anonymous client by address.
    fn pod(&self) -> usize {
        let UpstreamScheme::Pods(pods) = &self.permit.app().spec.upstream.scheme else {
            return 0;
        };
        if pods.len() < 2 {
            return 0;
        }
        // Smaller than the number of pods, which is a usize.
        (self.visitor() % pods.len() as u64) as usize
    }

    /// A hash of the person, or of an anonymous client's address.
    fn visitor(&self) -> u64 {
        // Not keyed: all threads and replicas must choose alike, and the choice is no secret.
        let mut hasher = DefaultHasher::new();
        match self.permit.principal() {
            Some(person) => person.subject.hash(&mut hasher),
            None => self.client.ip().hash(&mut hasher),
        }
        hasher.finish()
    }

    /// The target as the app sees it.
    ///
    /// # Errors
    /// [`Fault::Unsendable`].
    pub(super) fn target(&self) -> Result<PathAndQuery, Fault> {
        let target = self.permit.destination().upstream_target();
        target.ok_or(Fault::Unsendable)
    }
}
