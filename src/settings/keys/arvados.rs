//! Keys of Arvados.

use super::key::{Key, Kind, Section, key};

/// The table.
pub const SECTION: Section = Section {
    name: "arvados",
    purpose: "Web services of Arvados containers, each on a host or a port of its own.",
    is_optional: true,
};

/// The keys, in print order.
pub const KEYS: &[Key] = &[
    key(
        "arvados",
        "api",
        Kind::Text,
        "",
        "\"https://zzzzz.arvadosapi.com\"",
        "URL of the API server. Containers are at <uuid>-<port>.<site.apps_domain>.",
    ),
    key(
        "arvados",
        "root_token_file",
        Kind::Text,
        "",
        "\"system-root-token\"",
        "File with the cluster's SystemRootToken. It is used to read container records and to authenticate to the containers' gateways.",
    ),
    key(
        "arvados",
        "ca",
        Kind::Text,
        "",
        "\"api-ca.crt\"",
        "PEM file of the CA behind the API server's certificate. Absent: the system's CAs.",
    ),
    key(
        "arvados",
        "ports",
        Kind::Table,
        "",
        "{ host = \"ports.example.org\", range = \"2000-2999\" }",
        "A dedicated host whose ports lead to containers, for sites without a wildcard DNS name.",
    ),
    key(
        "arvados",
        "accept_sign_in",
        Kind::Switch,
        "false",
        "false",
        "The API server accepts the provider's access tokens (Login.OpenIDConnect.AcceptAccessToken), so signed-in users are also their Arvados users. Their is_admin is not read: identity.admin_groups decides.",
    ),
];
