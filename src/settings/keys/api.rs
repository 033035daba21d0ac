//! Keys of the API.

use super::key::{Key, Kind, Section, key};

/// The API.
pub const SECTION: Section = Section {
    name: "api",
    purpose: "The API that `ludgate api` serves: apps by GraphQL and logs of their pods, with [site], [identity], [kubernetes], [groups] and [instance_types].",
    is_optional: true,
};

/// The keys, in print order.
pub const KEYS: &[Key] = &[
    key(
        "api",
        "address",
        Kind::Text,
        "\"127.0.0.1:8082\"",
        "\"127.0.0.1:8082\"",
        "Address and port of the API's listener. It speaks HTTP without TLS; a proxy in front of it serves it as <site.url>/api/.",
    ),
    key(
        "api",
        "template_import",
        Kind::Switch,
        "false",
        "true",
        "Administrators may import templates from public https URLs, which the API downloads. Needs config/rbac/template-import.yaml.",
    ),
    key(
        "api",
        "device_sign_in",
        Kind::Switch,
        "false",
        "true",
        "People may get API tokens by device codes (RFC 8628): `ludgate apps sign-in --device`. The provider must permit the device authorization grant to identity.client_id.",
    ),
];
