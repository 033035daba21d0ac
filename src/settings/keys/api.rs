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
        "installations",
        Kind::Switch,
        "false",
        "true",
        "Serves applications from Helm charts by REST at /api/v2/: ApplicationDefinitions, which members of identity.admin_groups write, and ApplicationInstallations, with the rights that each person has in Kubernetes. Needs config/rbac/api-installations.yaml.",
    ),
    key(
        "api",
        "username_claim",
        Kind::Text,
        "\"preferred_username\"",
        "\"sub\"",
        "The claim with a person's name in Kubernetes: preferred_username or sub. It, username_prefix and groups_prefix must say what the API server's OpenID options say, since rights are asked for this name and the person's groups. The provider must not let people choose each other's.",
    ),
    key(
        "api",
        "username_prefix",
        Kind::Text,
        "",
        "\"oidc:\"",
        "What stands before the name. Names that begin with system: have no rights.",
    ),
    key(
        "api",
        "groups_prefix",
        Kind::Text,
        "",
        "\"oidc:\"",
        "What stands before each group. Groups that begin with system: are left out. A group has no slash at its beginning here.",
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
