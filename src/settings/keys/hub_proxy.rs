//! Keys of the routes that a JupyterHub adds.

use super::key::{Key, Kind, Section, key};

/// The table.
pub const SECTION: Section = Section {
    name: "hub_proxy",
    purpose: "A JupyterHub adds its routes by the API of configurable-http-proxy, so that Ludgate is its proxy.",
    is_optional: true,
};

/// The keys, in print order.
pub const KEYS: &[Key] = &[
    key(
        "hub_proxy",
        "address",
        Kind::Text,
        "\"127.0.0.1:8001\"",
        "\"127.0.0.1:8001\"",
        "Address and port of the API, as in ConfigurableHTTPProxy.api_url of the hub. It speaks HTTP without TLS, for the hub alone.",
    ),
    key(
        "hub_proxy",
        "token_file",
        Kind::Text,
        "",
        "\"hub-proxy-token\"",
        "File with the token that the hub presents, its CONFIGPROXY_AUTH_TOKEN. At least 16 bytes.",
    ),
    key(
        "hub_proxy",
        "prefix",
        Kind::Text,
        "\"/nb\"",
        "\"/nb\"",
        "The path below which the hub may add routes. Its base_url is this path with a slash at the end.",
    ),
    key(
        "hub_proxy",
        "access",
        Kind::Rule,
        "",
        "\"public\"",
        "The access rule of all routes, as in apps.access. The hub identifies people itself: public leaves that to the hub alone, other rules also need a sign-in here.",
    ),
];
