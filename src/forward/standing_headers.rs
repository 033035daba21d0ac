//! The headers that every request of one person to one app on one connection says alike: made once,
//! and copied.
//!
//! A copy of the whole map hashes no name; it is much cheaper than a dozen insertions.

use std::{
    cell::RefCell,
    net::IpAddr,
    sync::{Arc, Weak},
};

use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::outgoing::Outgoing;
use crate::{
    model::{
        app::{App, AppKind},
        identity_headers::{GroupsHeader, group_value},
        principal::Principal,
        site::{ForwardedConstants, Site, WebOrigin},
        vhost::VirtualHost,
    },
    peer::{Peer, X_FORWARDED_FOR, address_value},
};

const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_PORT: HeaderName = HeaderName::from_static("x-forwarded-port");
const X_FORWARDED_PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");
const X_REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");
const X_FORWARDED_USER: HeaderName = HeaderName::from_static("x-forwarded-user");
const X_FORWARDED_EMAIL: HeaderName = HeaderName::from_static("x-forwarded-email");
const X_FORWARDED_GROUPS: HeaderName = HeaderName::from_static("x-forwarded-groups");
const X_FORWARDED_GROUPS_TRUNCATED: HeaderName =
    HeaderName::from_static("x-forwarded-groups-truncated");
const X_FORWARDED_PREFERRED_USERNAME: HeaderName =
    HeaderName::from_static("x-forwarded-preferred-username");
/// Room for what a client sends beside, so that a copy seldom grows.
const ROOM: usize = 32;

/// What was last last on a connection.
#[derive(Default)]
pub struct CachedHeaders(RefCell<Option<LastHeaders>>);

/// The headers, and everything they were made of. Who is behind a proxy of ours changes with every
/// request, and is not in them.
struct LastHeaders {
    headers: HeaderMap,
    origin: WebOrigin,
    site: Arc<Site>,
    vhost: VirtualHost,
    /// Alone keeps the address from being another app's.
    app: Weak<App>,
    person: Option<Arc<Principal>>,
    host: Option<HeaderValue>,
}

impl LastHeaders {
    fn new(outgoing: &Outgoing<'_, '_>, host: Option<&HeaderValue>) -> LastHeaders {
        let origin = outgoing.origin();
        LastHeaders {
            headers: make(outgoing, host, &origin),
            origin,
            site: outgoing.site.clone(),
            vhost: outgoing.request.arrival.vhost,
            app: Arc::downgrade(outgoing.permit.app()),
            person: outgoing.permit.principal().cloned(),
            host: host.cloned(),
        }
    }

    fn fits(&self, outgoing: &Outgoing<'_, '_>, host: Option<&HeaderValue>) -> bool {
        let same_person = match (&self.person, outgoing.permit.principal()) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (Some(_), None) | (None, Some(_)) => false,
        };
        same_person
            && std::ptr::eq(self.app.as_ptr(), Arc::as_ptr(outgoing.permit.app()))
            && Arc::ptr_eq(&self.site, outgoing.site)
            && self.vhost == outgoing.request.arrival.vhost
            && self.host.as_ref() == host
    }
}

impl CachedHeaders {
    /// A copy of what is last for a request; `host` is the one that the app gets.
    pub(super) fn copy_for(
        &self,
        outgoing: &Outgoing<'_, '_>,
        host: Option<&HeaderValue>,
    ) -> HeaderMap {
        let mut last = self.0.borrow_mut();
        if !last.as_ref().is_some_and(|last| last.fits(outgoing, host)) {
            *last = None;
        }
        let last = last.get_or_insert_with(|| LastHeaders::new(outgoing, host));
        let mut headers = last.headers.clone();
        if outgoing.request.client.address != outgoing.peer.address {
            headers.insert(X_REAL_IP, address_value(outgoing.request.client.address));
            if let Some(forwarded) = forwarded_value(outgoing.request.client.address, &last.origin)
            {
                headers.insert(header::FORWARDED, forwarded);
            }
        }
        headers
    }
}

fn make(outgoing: &Outgoing<'_, '_>, host: Option<&HeaderValue>, origin: &WebOrigin) -> HeaderMap {
    let mut out = HeaderMap::with_capacity(ROOM);
    let app = outgoing.permit.app();
    if let Some(host) = host {
        out.insert(header::HOST, host.clone());
    }
    set_forwarded(&mut out, outgoing.peer, origin);
    if let Some(prefix) = &app.mount_header {
        out.insert(X_FORWARDED_PREFIX, prefix.clone());
    }
    for (name, value) in app
        .attested()
        .iter()
        .flat_map(|upstream| upstream.headers())
    {
        out.insert(name, value.clone());
    }
    set_identity(&mut out, outgoing);
    out
}

fn set_forwarded(out: &mut HeaderMap, peer: &Peer, origin: &WebOrigin) {
    out.insert(X_FORWARDED_FOR, peer.address_header.clone());
    out.insert(X_REAL_IP, peer.address_header.clone());
    if let Some(constants) = ForwardedConstants::new(origin) {
        if let Some(forwarded) = forwarded_value(peer.address, origin) {
            out.insert(header::FORWARDED, forwarded);
        }
        out.insert(X_FORWARDED_HOST, constants.host);
        out.insert(X_FORWARDED_PROTO, constants.proto);
        out.insert(X_FORWARDED_PORT, constants.port);
    }
}

/// RFC 7239 section 4; an IPv6 address is quoted and bracketed (section 6).
fn forwarded_value(client: IpAddr, origin: &WebOrigin) -> Option<HeaderValue> {
    let (scheme, authority) = (origin.scheme(), &origin.authority);
    let text = match client {
        IpAddr::V4(address) => format!("for={address};host=\"{authority}\";proto={scheme}"),
        IpAddr::V6(address) => format!("for=\"[{address}]\";host=\"{authority}\";proto={scheme}"),
    };
    HeaderValue::try_from(text).ok()
}

fn set_identity(out: &mut HeaderMap, outgoing: &Outgoing<'_, '_>) {
    let app = outgoing.permit.app();
    let Some(person) = outgoing.permit.principal() else {
        return;
    };
    if !app.spec.identity_headers || app.kind == AppKind::Console {
        return;
    }
    let mut set = |name: HeaderName, value: Option<&HeaderValue>| {
        if let Some(value) = value {
            out.insert(name, value.clone());
        }
    };
    set(X_FORWARDED_USER, person.headers.user.as_ref());
    set(X_FORWARDED_EMAIL, person.headers.email.as_ref());
    set(
        X_FORWARDED_PREFERRED_USERNAME,
        person.headers.preferred_username.as_ref(),
    );
    match &person.headers.groups {
        GroupsHeader::Absent => {}
        GroupsHeader::Whole(list) => set(X_FORWARDED_GROUPS, Some(list)),
        GroupsHeader::TooLong => {
            set(
                X_FORWARDED_GROUPS,
                outgoing
                    .permit
                    .admitting_group()
                    .and_then(group_value)
                    .as_ref(),
            );
            set(
                X_FORWARDED_GROUPS_TRUNCATED,
                Some(&HeaderValue::from_static("true")),
            );
        }
    }
}
