//! Options of who is admitted, of upstreams, and of the headers for them.

use super::entry::{OptionEntry, fixed, translated, unneeded, unsupported};
use crate::import::value::ValueKind::{Duration, Switch, Text, Texts};

const FORWARD_AUTH: &str = "auth requests of another proxy are answered with X-Auth-Request-User, -Email, -Preferred-Username and -Groups alone; set the proxy up by docs/forward-auth.md";
const ONLY_HTPASSWD: &str = "only with htpasswd_file";

/// The options.
pub(crate) const OPTIONS: &[OptionEntry] = &[
    translated("email_domains", Texts),
    translated("authenticated_emails_file", Text),
    translated("skip_auth_routes", Texts),
    translated("skip_auth_regex", Texts),
    translated("skip_auth_preflight", Switch),
    translated("skip_jwt_bearer_tokens", Switch),
    translated("upstreams", Texts),
    translated("upstream_timeout", Duration),
    translated("pass_host_header", Switch),
    translated("pass_user_headers", Switch),
    translated("pass_basic_auth", Switch),
    translated("pass_access_token", Switch),
    translated("htpasswd_file", Text),
    unneeded(
        "api_routes",
        Texts,
        "only navigations of a browser are led to the sign-in; all other requests get 401",
    ),
    unneeded(
        "force_json_errors",
        Switch,
        "programs get application/problem+json, people get pages",
    ),
    unneeded(
        "bearer_token_login_fallback",
        Switch,
        "an invalid token always gets 401",
    ),
    unsupported(
        "extra_jwt_issuers",
        Texts,
        "add a table [[identity.trusted_issuers]] for each issuer; see docs/programs.md",
    ),
    unsupported(
        "trusted_ips",
        Texts,
        "an address is no identity: these clients must sign in; open single paths to the public with [[apps.paths]]",
    ),
    unneeded("htpasswd_user_groups", Texts, ONLY_HTPASSWD),
    unneeded("display_htpasswd_form", Switch, ONLY_HTPASSWD),
    fixed(
        "pass_authorization_header",
        Switch,
        "false",
        "apps get no ID token; apps.assertion sends a signed identity, and apps.pass_access_token the access token",
    ),
    fixed(
        "prefer_email_to_user",
        Switch,
        "false",
        "X-Forwarded-User is the subject; apps can read X-Forwarded-Email",
    ),
    unsupported(
        "basic_auth_password",
        Text,
        "apps get no Basic credentials with the person's name; they can read X-Forwarded-User, or verify apps.assertion; apps.basic_auth_file sends those of one account",
    ),
    fixed("set_xauthrequest", Switch, "false", FORWARD_AUTH),
    fixed("set_authorization_header", Switch, "false", FORWARD_AUTH),
    fixed("set_basic_auth", Switch, "false", FORWARD_AUTH),
    fixed(
        "skip_auth_strip_headers",
        Switch,
        "true",
        "identity headers of clients are always removed",
    ),
    unsupported(
        "signature_key",
        Text,
        "requests have no GAP-Signature; apps.assertion sends a signed identity",
    ),
    fixed(
        "proxy_websockets",
        Switch,
        "true",
        "WebSockets cannot be switched off; they pass the same access check",
    ),
    fixed(
        "ssl_upstream_insecure_skip_verify",
        Switch,
        "false",
        "certificates are always verified; name the app's CA in apps.ca, or its key in apps.certificate_pin",
    ),
    unneeded(
        "flush_interval",
        Duration,
        "each part of a response is sent on at once",
    ),
    fixed(
        "disable_keep_alives",
        Switch,
        "false",
        "connections to apps are kept for limits.upstream_idle",
    ),
    unneeded(
        "allow_query_semicolons",
        Switch,
        "the query is forwarded byte for byte",
    ),
];
