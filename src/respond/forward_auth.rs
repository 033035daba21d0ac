//! Answers to other proxies that ask whether they may forward a request
//! (docs/behaviour.md#other-proxies). Only a permit makes one that allows it.

use http::{HeaderName, HeaderValue, Response, StatusCode, header};

use super::{
    audience::Audience, body::ReplyBody, endpoint::ForwardRefusal, http_response::raw, refusal,
};
use crate::{
    authorize::Permit,
    model::{
        identity_headers::{GroupsHeader, group_value},
        principal::Principal,
    },
};

const USER: HeaderName = HeaderName::from_static("x-auth-request-user");
const EMAIL: HeaderName = HeaderName::from_static("x-auth-request-email");
const PREFERRED_USERNAME: HeaderName = HeaderName::from_static("x-auth-request-preferred-username");
const GROUPS: HeaderName = HeaderName::from_static("x-auth-request-groups");
const GROUPS_TRUNCATED: HeaderName = HeaderName::from_static("x-auth-request-groups-truncated");

/// The proxy may forward the request, with these headers.
pub(super) fn allow(status: StatusCode, permit: &Permit) -> Response<ReplyBody> {
    let mut response = raw(status, ReplyBody::whole(""));
    let Some(person) = permit.principal() else {
        return response;
    };
    if !permit.app().spec.identity_headers {
        return response;
    }
    let mut set = |name: HeaderName, value: Option<&HeaderValue>| {
        if let Some(value) = value {
            response.headers_mut().insert(name, value.clone());
        }
    };
    let identity = &person.headers;
    set(USER, identity.user.as_ref());
    set(EMAIL, identity.email.as_ref());
    set(PREFERRED_USERNAME, identity.preferred_username.as_ref());
    match &identity.groups {
        GroupsHeader::Absent => {}
        GroupsHeader::Whole(list) => set(GROUPS, Some(list)),
        GroupsHeader::TooLong => {
            let admitting = permit.admitting_group().and_then(group_value);
            set(GROUPS, admitting.as_ref());
            set(GROUPS_TRUNCATED, Some(&HeaderValue::from_static("true")));
        }
    }
    response
}

/// The proxy may not forward the request. Most proxies pass this answer on to the client.
pub(super) fn refuse(
    refused: &ForwardRefusal,
    audience: Audience<'_>,
    person: Option<&Principal>,
    id: &HeaderValue,
) -> Response<ReplyBody> {
    let audience = Audience {
        vhost: Some(refused.vhost),
        target: &refused.target,
        person,
        may_reload: refused.may_reload,
        sign_in_at: refused.sign_in.as_deref(),
        ..audience
    };
    let mut response = refusal::refuse(&refused.refusal, audience, id);
    // Not a redirect, which is for the proxy to make.
    let location = refused.sign_in.as_deref();
    if let Some(location) = location.and_then(|text| HeaderValue::from_str(text).ok()) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}
