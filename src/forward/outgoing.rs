//! One request on its way to an app.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    net::SocketAddr,
    sync::Arc,
    time::Instant,
};

use http::{HeaderMap, Request, Uri, Version, header, uri::PathAndQuery, uri::Scheme};

use super::{
    body::Upload, fault::Fault, pool::key::PoolKey, request_headers,
    standing_headers::CachedHeaders,
};
use crate::{
    authorize::Permit,
    incoming::IncomingRequest,
    model::{
        app::{Protocol, UpstreamScheme},
        load::Holder,
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
    /// The client; the port is 0 behind a proxy, which names none.
    pub client: SocketAddr,
    /// The Authorization header is a credential of ours: no app sees it.
    pub authorization_is_ours: bool,
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

    /// The origin that the browser sees.
    pub(super) fn origin(&self) -> WebOrigin {
        self.site.origin_of(&self.request.arrival.vhost)
    }

    /// The connections that may carry it.
    pub(super) fn pool_key(&self) -> PoolKey {
        let names_client = self.permit.app().spec.proxy_protocol;
        PoolKey {
            pod: self.pod(),
            client: names_client.then_some(self.client),
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
        // Not keyed: all threads and replicas must choose alike, and the choice is no secret.
        let mut hasher = DefaultHasher::new();
        match self.permit.principal() {
            Some(person) => person.subject.hash(&mut hasher),
            None => self.client.ip().hash(&mut hasher),
        }
        // Smaller than the number of pods, which is a usize.
        (hasher.finish() % pods.len() as u64) as usize
    }

    /// The target as the app sees it.
    ///
    /// # Errors
    /// [`Fault::Unsendable`].
    pub(super) fn target(&self) -> Result<PathAndQuery, Fault> {
        let target = self.permit.destination().upstream_target();
        target.ok_or(Fault::Unsendable)
    }

    /// The request as it is sent. On HTTP/2 the host is part of the address, and the message frames
    /// itself.
    ///
    /// # Errors
    /// [`Fault::Unsendable`].
    pub(super) fn assemble(
        &self,
        target: PathAndQuery,
        body: Upload,
    ) -> Result<Request<Upload>, Fault> {
        let mut headers = request_headers::build(self);
        let mut request = Request::new(body);
        let app = self.permit.app();
        (*request.version_mut(), *request.uri_mut()) = match app.spec.protocol {
            Protocol::Http1 => (Version::HTTP_11, Uri::from(target)),
            Protocol::Http2 => {
                let uri = absolute(&mut headers, target, &app.spec.upstream.scheme)?;
                (Version::HTTP_2, uri)
            }
        };
        *request.method_mut() = self.request.arrival.method.clone();
        *request.headers_mut() = headers;
        Ok(request)
    }
}

fn absolute(
    headers: &mut HeaderMap,
    target: PathAndQuery,
    scheme: &UpstreamScheme,
) -> Result<Uri, Fault> {
    let host = headers.remove(header::HOST).ok_or(Fault::Unsendable)?;
    headers.remove(header::TRANSFER_ENCODING);
    let scheme = match scheme {
        UpstreamScheme::Https | UpstreamScheme::Attested(_) => Scheme::HTTPS,
        UpstreamScheme::Http | UpstreamScheme::Unix(_) | UpstreamScheme::Pods(_) => Scheme::HTTP,
    };
    let uri = Uri::builder().scheme(scheme).authority(host.as_bytes());
    let uri = uri.path_and_query(target).build();
    uri.map_err(|_| Fault::Unsendable)
}
