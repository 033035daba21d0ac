//! Options of cookies and of the session store.

use super::entry::{OptionEntry, fixed, translated, unneeded, unsupported};
use crate::import::value::ValueKind::{Duration, Number, Switch, Text, Texts};

const STATE: &str = "the state parameter carries the pending sign-in, encrypted, for each tab";
const ONE_REDIS: &str = "sessions need one Redis with an address that stays, such as that of a proxy or a managed service";

/// The options.
pub(crate) const OPTIONS: &[OptionEntry] = &[
    translated("cookie_expire", Duration),
    translated("cookie_secret", Text),
    translated("cookie_secret_file", Text),
    translated("session_store_type", Text),
    translated("redis_connection_url", Text),
    translated("redis_password", Text),
    translated("redis_ca_path", Text),
    unneeded(
        "cookie_name",
        Text,
        "the cookies have names of their own; session.cookie is another one",
    ),
    unneeded(
        "cookie_domains",
        Texts,
        "no cookie is shared between hosts; one sign-in covers all hosts without that",
    ),
    unneeded(
        "cookie_path",
        Text,
        "each app's cookie is bound to the path of the app",
    ),
    unneeded(
        "cookie_refresh",
        Duration,
        "groups are read again in the background every session.recheck, 5 minutes",
    ),
    unneeded(
        "cookie_secure",
        Switch,
        "cookies are Secure if site.url is https",
    ),
    fixed(
        "cookie_httponly",
        Switch,
        "true",
        "cookies are always HttpOnly; pages read /oauth2/userinfo instead",
    ),
    fixed(
        "cookie_samesite",
        Text,
        "lax",
        "cookies are always SameSite=Lax; pages of other sites cannot use a session",
    ),
    unneeded("cookie_csrf_per_request", Switch, STATE),
    unneeded("cookie_csrf_per_request_limit", Number, STATE),
    unneeded("cookie_csrf_expire", Duration, STATE),
    unneeded("cookie_csrf_samesite", Text, STATE),
    unneeded(
        "session_cookie_minimal",
        Switch,
        "sessions are not kept in cookies",
    ),
    unneeded(
        "redis_connection_idle_timeout",
        Number,
        "one connection stays open",
    ),
    fixed(
        "redis_insecure_skip_tls_verify",
        Switch,
        "false",
        "certificates are always verified; name the CA in session.store_ca",
    ),
    fixed("redis_use_sentinel", Switch, "false", ONE_REDIS),
    fixed("redis_use_cluster", Switch, "false", ONE_REDIS),
    unsupported("redis_sentinel_password", Text, ONE_REDIS),
    unsupported("redis_sentinel_master_name", Text, ONE_REDIS),
    unsupported("redis_sentinel_connection_urls", Texts, ONE_REDIS),
    unsupported("redis_cluster_connection_urls", Texts, ONE_REDIS),
];
