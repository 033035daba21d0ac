//! The headers that are the same for all requests of one person to one app on one connection: made
//! once, then copied.

use std::{
    cell::RefCell,
    net::IpAddr,
    ops::Range,
    sync::{Arc, Weak},
};

use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::{
    authorize::{Admission, Permit},
    identity::assertion::{AssertedIdentity, AssertionSigner},
    model::{
        app::{App, AppKind},
        identity_headers::{ASSERTION, GroupsHeader, group_value},
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

/// What these headers are made of.
pub(super) struct HeaderFacts<'r> {
    /// The right to send the request, with its app and person.
    pub(super) permit: &'r Permit,
    /// The site.
    pub(super) site: &'r Arc<Site>,
    /// The origin that the request arrived at.
    pub(super) vhost: VirtualHost,
    /// The peer of the connection.
    pub(super) peer: &'r Peer,
    /// The client: the peer, or the one that a trusted proxy names.
    pub(super) client: IpAddr,
    /// Signs identities for apps; `None`: there are no keys.
    pub(super) assertions: Option<&'r AssertionSigner>,
}

/// The headers of the last request on a connection.
#[derive(Default)]
pub struct CachedHeaders(RefCell<Option<LastHeaders>>);

/// The headers, and everything that they were made of. They name the peer; the client behind a
/// proxy may be another one for each request.
struct LastHeaders {
    headers: Vec<(HeaderName, HeaderValue)>,
    origin: WebOrigin,
    site: Arc<Site>,
    vhost: VirtualHost,
    /// Keeps the allocation, so that no other app gets the same address.
    app: Weak<App>,
    person: Option<Arc<Principal>>,
    /// It names the group in the headers of a person with too many.
    admission: Admission,
    host: Option<HeaderValue>,
    /// When the assertion among the headers may be sent, in seconds since 1970; empty: it could not
    /// be signed. `None`: the app gets none.
    assertion_sent: Option<Range<i64>>,
    /// The last client behind a proxy.
    client: Option<ProxiedClient>,
}

/// The fields that name the client behind a proxy.
struct ProxiedClient {
    address: IpAddr,
    real_ip: HeaderValue,
    forwarded: Option<HeaderValue>,
}

impl ProxiedClient {
    fn new(address: IpAddr, origin: &WebOrigin) -> ProxiedClient {
        ProxiedClient {
            address,
            real_ip: address_value(address),
            forwarded: forwarded_value(address, origin),
        }
    }
}

impl LastHeaders {
    // Not inlined: most requests on a connection copy what an earlier one made.
    #[inline(never)]
    fn new(facts: &HeaderFacts<'_>, host: Option<&HeaderValue>) -> LastHeaders {
        let origin = facts.site.origin_of(&facts.vhost);
        let mut headers = make(facts, host, &origin);
        let assertion_sent = set_assertion(&mut headers, facts);
        let pairs = headers.iter();
        LastHeaders {
            headers: pairs
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            origin,
            site: facts.site.clone(),
            vhost: facts.vhost,
            app: Arc::downgrade(facts.permit.app()),
            person: facts.permit.principal().cloned(),
            admission: facts.permit.admission(),
            host: host.cloned(),
            assertion_sent,
            client: None,
        }
    }

    /// The fields of this client. The next request of the same person is mostly of the same client.
    fn client(&mut self, address: IpAddr) -> &ProxiedClient {
        let known = self.client.take();
        let known = known.filter(|known| known.address == address);
        let client = known.unwrap_or_else(|| ProxiedClient::new(address, &self.origin));
        self.client.insert(client)
    }

    fn fits(&self, facts: &HeaderFacts<'_>, host: Option<&HeaderValue>) -> bool {
        let person = self.person.as_ref().map(Arc::as_ptr);
        person == facts.permit.principal().map(Arc::as_ptr)
            && std::ptr::eq(self.app.as_ptr(), Arc::as_ptr(facts.permit.app()))
            && Arc::ptr_eq(&self.site, facts.site)
            && self.vhost == facts.vhost
            && self.admission == facts.permit.admission()
            && self.host.as_ref() == host
            && self.assertion_sent.as_ref().is_none_or(|sent| {
                let now = facts.assertions.map(AssertionSigner::now);
                now.is_some_and(|now| sent.contains(&now))
            })
    }
}

impl CachedHeaders {
    /// Copies them to `headers`, which is empty; `host` is the Host header that the app gets.
    pub(super) fn copy_to(
        &self,
        headers: &mut HeaderMap,
        facts: &HeaderFacts<'_>,
        host: Option<&HeaderValue>,
    ) {
        let mut last = self.0.borrow_mut();
        if !last.as_ref().is_some_and(|last| last.fits(facts, host)) {
            *last = None;
        }
        let last = last.get_or_insert_with(|| LastHeaders::new(facts, host));
        for (name, value) in &last.headers {
            headers.append(name.clone(), value.clone());
        }
        if facts.client != facts.peer.address {
            let client = last.client(facts.client);
            headers.insert(X_REAL_IP, client.real_ip.clone());
            if let Some(forwarded) = &client.forwarded {
                headers.insert(header::FORWARDED, forwarded.clone());
            }
        }
    }
}

fn make(facts: &HeaderFacts<'_>, host: Option<&HeaderValue>, origin: &WebOrigin) -> HeaderMap {
    let mut out = HeaderMap::new();
    let app = facts.permit.app();
    if let Some(host) = host {
        out.insert(header::HOST, host.clone());
    }
    set_forwarded(&mut out, facts.peer, origin);
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
    set_identity(&mut out, facts);
    set_own_headers(&mut out, facts);
    out
}

/// The headers and credentials of the app's table.
fn set_own_headers(out: &mut HeaderMap, facts: &HeaderFacts<'_>) {
    let spec = &facts.permit.app().spec;
    let person = facts.permit.principal().map(Arc::as_ref);
    for own in &spec.headers {
        let value = own.value.render(person, facts.permit.admitting_group());
        if let Some(value) = value {
            out.insert(own.name.clone(), value);
        }
    }
    if let Some(credentials) = &spec.basic_auth {
        out.insert(header::AUTHORIZATION, credentials.authorization().clone());
    }
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

fn set_identity(out: &mut HeaderMap, facts: &HeaderFacts<'_>) {
    let app = facts.permit.app();
    let Some(person) = facts.permit.principal() else {
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
                facts
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

/// Adds the signed identity, and returns when it may be sent. Person and app are those of one
/// permit, as they are in [`LastHeaders`].
fn set_assertion(out: &mut HeaderMap, facts: &HeaderFacts<'_>) -> Option<Range<i64>> {
    let app = facts.permit.app();
    if !app.spec.assertion {
        return None;
    }
    let identity = AssertedIdentity {
        audience: app.id(),
        person: facts.permit.principal()?,
        admitting_group: facts.permit.admitting_group(),
    };
    let signed = facts.assertions?.assertion(&identity);
    let sent = signed.as_ref().map_or(0..0, |signed| signed.sent());
    if let Some(signed) = signed {
        out.insert(ASSERTION, signed.value().clone());
    }
    Some(sent)
}
