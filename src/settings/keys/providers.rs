//! Keys of further providers where people sign in.

use super::key::{Key, Kind, Section, key};

const SECTION: &str = "identity.providers";

/// A further provider.
pub const PROVIDERS: Section = Section {
    name: SECTION,
    purpose: "A further provider where people sign in, one [[identity.providers]] table each. Its people are <id>:<subject> in access rules, headers and logs, and their groups <id>:<group>. See docs/providers.md.",
    is_optional: true,
};

/// The keys of [`PROVIDERS`].
pub const PROVIDER_KEYS: &[Key] = &[
    key(
        SECTION,
        "id",
        Kind::Text,
        "",
        "\"corp\"",
        "Stands before the names of its people and groups, and in its redirect URI: lower-case letters, digits and hyphens, at most 32; not default, service or system. No subject, user name or group of identity.issuer may begin with <id>: (such a person cannot sign in). Do not change it: access rules name it.",
    ),
    key(
        SECTION,
        "name",
        Kind::Text,
        "",
        "\"Corp\"",
        "Its name on the page where people choose.",
    ),
    key(
        SECTION,
        "issuer",
        Kind::Text,
        "",
        "\"https://id.corp.example\"",
        "Its issuer, byte for byte. https, or http on loopback.",
    ),
    key(
        SECTION,
        "client_id",
        Kind::Text,
        "",
        "\"ludgate\"",
        "Client id at the provider. Its redirect URI is <site.url><site.endpoints>/callback/<id>.",
    ),
    key(
        SECTION,
        "client_secret",
        Kind::Text,
        "",
        "\"the-secret-itself\"",
        "The client's secret; prefer client_secret_file. Absent: a public client. PKCE is always used.",
    ),
    key(
        SECTION,
        "client_secret_file",
        Kind::Text,
        "",
        "\"corp-client-secret\"",
        "File with the client's secret.",
    ),
    key(
        SECTION,
        "scopes",
        Kind::Texts,
        "[\"openid\", \"profile\", \"email\"]",
        "[\"openid\", \"profile\", \"email\"]",
        "Scopes to request at sign-in.",
    ),
    key(
        SECTION,
        "groups_claim",
        Kind::Text,
        "\"groups\"",
        "\"groups\"",
        "Claim with the user's groups: a name, or a JSON pointer. Read from the ID token, else from userinfo.",
    ),
    key(
        SECTION,
        "claims",
        Kind::Texts,
        "[]",
        "[\"/department\"]",
        "Claims of its ID token that access rules may name (claim:), as JSON pointers; at most 16. Rules name claims without the provider, so list one only if all providers mean the same by it.",
    ),
    key(
        SECTION,
        "emails",
        Kind::Switch,
        "false",
        "true",
        "Its verified e-mail addresses count in email: rules, and apps get its addresses. Set it only if the provider verifies addresses as strictly as identity.issuer: a person with another's address would be admitted as that person.",
    ),
    key(
        SECTION,
        "sign_out_at_provider",
        Kind::Switch,
        "true",
        "true",
        "After sign-out, redirect its users to its sign-out, if it has one. Register <site.url><site.apps_prefix>/ there as a post-logout redirect URI.",
    ),
    key(
        SECTION,
        "ca",
        Kind::Text,
        "",
        "\"corp-ca.crt\"",
        "PEM file of the CA behind the provider's certificate. Absent: the system's CAs.",
    ),
];
