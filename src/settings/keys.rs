//! Every key there is: its kind, its default and what it is for. The file reader, the reference and the
//! printed configuration all speak from this one table.

/// What a value looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// `true` or `false`.
    Switch,
    /// A whole number.
    Number,
    /// Such as `30m`.
    Duration,
    /// Such as `64KiB`.
    Size,
    /// A list of texts.
    Texts,
    /// A table of its own.
    Table,
}

impl Kind {
    /// For messages and the reference.
    pub fn words(self) -> &'static str {
        match self {
            Kind::Text => "text",
            Kind::Switch => "true or false",
            Kind::Number => "a whole number",
            Kind::Duration => "a duration such as \"30m\"",
            Kind::Size => "a size such as \"64KiB\"",
            Kind::Texts => "a list of texts",
            Kind::Table => "a table",
        }
    }
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The table it stands in.
    pub section: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What its value looks like.
    pub kind: Kind,
    /// What holds when it is absent, as written; empty: nothing does.
    pub default: &'static str,
    /// A value for the printed configuration, as written.
    pub example: &'static str,
    /// What it is for.
    pub purpose: &'static str,
}

/// One table of the file.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Its name.
    pub name: &'static str,
    /// What it is for.
    pub purpose: &'static str,
}

/// The tables, in the order they are printed.
pub const SECTIONS: [Section; 9] = [
    Section { name: "listen", purpose: "Where people connect." },
    Section { name: "admin", purpose: "Where operators connect: /livez, /readyz, /metrics, /apps." },
    Section { name: "site", purpose: "The origin people see, and what lives where on it." },
    Section {
        name: "identity",
        purpose: "The OpenID provider. Without this table nobody signs in: public apps only, and containers with an Arvados token.",
    },
    Section { name: "session", purpose: "How long people stay signed in." },
    Section { name: "limits", purpose: "Deadlines, sizes and counts." },
    Section { name: "log", purpose: "What is logged." },
    Section {
        name: "arvados",
        purpose: "Web services of Arvados containers, each on a host or a port of its own.",
    },
    Section { name: "apps", purpose: "The apps, one [[apps]] table each." },
];

/// The table of one published port, inside an app.
pub const PUBLISHED_PORT: Section = Section {
    name: "apps.published_ports",
    purpose: "One port of an app, at <id>-<port>.<site.apps_domain>: a table under the port's number.",
};

const fn key(
    section: &'static str,
    name: &'static str,
    kind: Kind,
    default: &'static str,
    example: &'static str,
    purpose: &'static str,
) -> Key {
    Key { section, name, kind, default, example, purpose }
}

/// The keys, in the order they are printed.
pub const KEYS: &[Key] = &[
    key("listen", "address", Kind::Text, "\"127.0.0.1:8080\"", "\"127.0.0.1:8080\"", "Address and port."),
    key(
        "listen",
        "tls",
        Kind::Table,
        "",
        "{ certificate = \"tls.crt\", key = \"tls.key\" }",
        "PEM files of the certificate chain and its key. Absent: plain HTTP, for loopback or behind a TLS proxy.",
    ),
    key(
        "listen",
        "trusted_proxies",
        Kind::Texts,
        "[]",
        "[\"10.0.0.0/8\"]",
        "Networks whose X-Forwarded-For and X-Request-Id are believed. Nobody unless listed; everybody cannot be listed.",
    ),
    key(
        "admin",
        "address",
        Kind::Text,
        "\"127.0.0.1:9090\"",
        "\"127.0.0.1:9090\"",
        "Address and port; never the public listener.",
    ),
    key(
        "admin",
        "token_file",
        Kind::Text,
        "",
        "\"admin-token\"",
        "File with the bearer token for /apps. Absent: that route does not exist.",
    ),
    key(
        "site",
        "url",
        Kind::Text,
        "\"http://127.0.0.1:8080\"",
        "\"http://127.0.0.1:8080\"",
        "The origin people see; sign-in lives here. Cookies are Secure when it is https; http only on loopback.",
    ),
    key(
        "site",
        "apps_prefix",
        Kind::Text,
        "\"/apps\"",
        "\"/apps\"",
        "Apps are at <prefix>/<id>/, the launcher at <prefix>/.",
    ),
    key(
        "site",
        "endpoints",
        Kind::Text,
        "\"/oauth2\"",
        "\"/oauth2\"",
        "Where start, callback, sign_in, sign_out and userinfo are.",
    ),
    key(
        "site",
        "apps_domain",
        Kind::Text,
        "",
        "\"apps.example.net\"",
        "Apps have hosts of their own, <id>.<apps_domain>, with the scheme and port of the site. Best under another registrable domain than the site's.",
    ),
    key(
        "site",
        "console",
        Kind::Text,
        "",
        "\"http://127.0.0.1:3000\"",
        "Sidecar: everything that is neither an app nor ours goes to this console.",
    ),
    key(
        "site",
        "console_cookies",
        Kind::Texts,
        "[]",
        "[\"accessToken\", \"refreshToken\", \"apiToken\"]",
        "The console's own secrets: never sent to apps, never taken from apps.",
    ),
    key(
        "identity",
        "issuer",
        Kind::Text,
        "",
        "\"http://127.0.0.1:9700\"",
        "The provider's issuer, byte for byte. https, or http on loopback.",
    ),
    key(
        "identity",
        "client_id",
        Kind::Text,
        "",
        "\"ludgate\"",
        "Who we are to the provider. Its redirect URI is <site.url><site.endpoints>/callback.",
    ),
    key(
        "identity",
        "client_secret",
        Kind::Text,
        "",
        "\"the-secret-itself\"",
        "The client's secret; better in a file. Absent: a public client (PKCE is used either way).",
    ),
    key(
        "identity",
        "client_secret_file",
        Kind::Text,
        "",
        "\"client-secret\"",
        "File with the client's secret.",
    ),
    key(
        "identity",
        "scopes",
        Kind::Texts,
        "[\"openid\", \"profile\", \"email\"]",
        "[\"openid\", \"profile\", \"email\"]",
        "Asked for at sign-in.",
    ),
    key(
        "identity",
        "groups_claim",
        Kind::Text,
        "\"groups\"",
        "\"groups\"",
        "The claim with the groups: a name, or a JSON pointer such as /realm_access/roles.",
    ),
    key(
        "identity",
        "admin_groups",
        Kind::Texts,
        "[]",
        "[]",
        "Members may reach every app that has an owner, and every port of a container.",
    ),
    key("identity", "audiences", Kind::Texts, "[client_id]", "[\"ludgate\"]", "Accepted in bearer tokens."),
    key(
        "identity",
        "ca",
        Kind::Text,
        "",
        "\"provider-ca.crt\"",
        "PEM file of the CA behind the provider's certificate. Absent: the system's.",
    ),
    key(
        "session",
        "idle",
        Kind::Duration,
        "\"30m\"",
        "\"30m\"",
        "A session ends after this long without use.",
    ),
    key(
        "session",
        "lifetime",
        Kind::Duration,
        "\"12h\"",
        "\"12h\"",
        "A session ends after this long whatever happens.",
    ),
    key(
        "session",
        "recheck",
        Kind::Duration,
        "\"5m\"",
        "\"5m\"",
        "A sign-in that stands on an Arvados token is proved again after this long. Not in force yet for others: their groups are read at sign-in only.",
    ),
    key(
        "session",
        "cookie",
        Kind::Text,
        "\"phapplication-session-id\"",
        "\"phapplication-session-id\"",
        "Name of the cookie that holds the session of one app.",
    ),
    key("session", "store", Kind::Text, "\"memory\"", "\"memory\"", "Where sessions are kept."),
    key(
        "session",
        "keys_file",
        Kind::Text,
        "",
        "\"session-keys\"",
        "File with base64 keys of at least 32 bytes, one a line; the first seals, all open. Absent: a random key, pending sign-ins end with the process.",
    ),
    key(
        "limits",
        "request_head",
        Kind::Duration,
        "\"60s\"",
        "\"60s\"",
        "A client has this long for a request head, counted from the answer before; so also how long a connection may be idle.",
    ),
    key(
        "limits",
        "handshake",
        Kind::Duration,
        "\"10s\"",
        "\"10s\"",
        "A client has this long for the TLS handshake.",
    ),
    key("limits", "head_bytes", Kind::Size, "\"64KiB\"", "\"64KiB\"", "Largest request or response head."),
    key("limits", "head_fields", Kind::Number, "100", "100", "Most header fields of a request."),
    key("limits", "connections", Kind::Number, "20000", "20000", "Open client connections."),
    key(
        "limits",
        "connect",
        Kind::Duration,
        "\"3s\"",
        "\"3s\"",
        "An app has this long to accept a connection, TLS included.",
    ),
    key(
        "limits",
        "response_head",
        Kind::Duration,
        "\"60s\"",
        "\"60s\"",
        "An app has this long for its response head, unless it has a timeout of its own.",
    ),
    key(
        "limits",
        "upstream_idle",
        Kind::Duration,
        "\"10s\"",
        "\"10s\"",
        "An unused connection to an app is kept this long.",
    ),
    key("log", "requests", Kind::Switch, "true", "true", "One JSON line per request on standard output."),
    key(
        "log",
        "level",
        Kind::Text,
        "\"info\"",
        "\"info\"",
        "Diagnostics on standard error: error, warn, info, debug, or a filter such as ludgate=debug.",
    ),
    key(
        "arvados",
        "api",
        Kind::Text,
        "",
        "\"https://zzzzz.arvadosapi.com\"",
        "The API server. Its containers are at <uuid>-<port>.<site.apps_domain>.",
    ),
    key(
        "arvados",
        "root_token_file",
        Kind::Text,
        "",
        "\"system-root-token\"",
        "File with the cluster's SystemRootToken: reads container records, and proves us to the containers' gateways.",
    ),
    key(
        "arvados",
        "ca",
        Kind::Text,
        "",
        "\"api-ca.crt\"",
        "PEM file of the CA behind the API server's certificate. Absent: the system's.",
    ),
    key(
        "arvados",
        "ports",
        Kind::Table,
        "",
        "{ host = \"ports.example.org\", range = \"2000-2999\" }",
        "A host with nothing else on it, whose ports lead to containers: for where no wildcard name can be had.",
    ),
    key(
        "arvados",
        "accept_sign_in",
        Kind::Switch,
        "false",
        "false",
        "The API server takes the provider's access tokens (Login.OpenIDConnect.AcceptAccessToken): whoever signs in is then also their Arvados user. Their is_admin is not read: admins are identity.admin_groups.",
    ),
    key(
        "apps",
        "id",
        Kind::Text,
        "",
        "\"mlflow\"",
        "The app is at <site.apps_prefix>/<id>/. Lower-case letters, digits and inner dashes; at most 59.",
    ),
    key(
        "apps",
        "upstream",
        Kind::Text,
        "",
        "\"http://127.0.0.1:5000\"",
        "Where it runs: http or https, host and port, no path.",
    ),
    key(
        "apps",
        "access",
        Kind::Text,
        "",
        "\"group:phusers\"",
        "public, user (everybody who signs in), group:<name> or owner:<subject>.",
    ),
    key("apps", "name", Kind::Text, "", "\"MLflow\"", "Shown in the launcher."),
    key("apps", "icon", Kind::Text, "", "\"📈\"", "Shown in the launcher: a few characters."),
    key(
        "apps",
        "isolation",
        Kind::Text,
        "\"path\"",
        "\"path\"",
        "path: at its path, and at its host where hosts are served. host: at its host only, where no other app can read it; its path leads there.",
    ),
    key(
        "apps",
        "published_ports",
        Kind::Table,
        "",
        "{ \"8080\" = { access = \"public\", label = \"Web\" } }",
        "Further ports of the app, each on a host of its own: <id>-<port>.<site.apps_domain>. Keys below.",
    ),
    key("apps", "strip_prefix", Kind::Switch, "false", "false", "Remove <prefix>/<id> before forwarding."),
    key(
        "apps",
        "identity_headers",
        Kind::Switch,
        "true",
        "true",
        "Send X-Forwarded-User, -Email, -Preferred-Username and -Groups.",
    ),
    key("apps", "rewrite_host", Kind::Switch, "false", "false", "Send the upstream's own name as Host."),
    key(
        "apps",
        "keep_authorization",
        Kind::Switch,
        "false",
        "false",
        "Leave a bearer token of our issuer on the request.",
    ),
    key(
        "apps",
        "timeout",
        Kind::Duration,
        "limits.response_head",
        "\"60s\"",
        "The app has this long for its response head.",
    ),
    key("apps", "max_body", Kind::Size, "", "\"1GiB\"", "Largest request body. Absent: no limit."),
    key(
        "apps",
        "ca",
        Kind::Text,
        "",
        "\"app-ca.crt\"",
        "PEM file of the CA behind an https upstream's certificate. Absent: the system's.",
    ),
];

/// The keys of a published port.
pub const PORT_KEYS: &[Key] = &[
    key(
        "apps.published_ports",
        "access",
        Kind::Text,
        "the app's access",
        "\"public\"",
        "As for an app: public, user, group:<name> or owner:<subject>.",
    ),
    key("apps.published_ports", "label", Kind::Text, "", "\"Web\"", "Shown where apps are listed."),
    key(
        "apps.published_ports",
        "upstream",
        Kind::Text,
        "the app's host at this port",
        "\"http://127.0.0.1:8080\"",
        "Where it runs, when that is somewhere else.",
    ),
];

/// Keys that belong to the contract and that this version does not serve yet: named, so that nobody takes
/// them for a slip of the pen, and refused, so that nobody believes them to be in force.
pub const NOT_YET: &[(&str, &str)] = &[
    ("listen", "proxy_protocol_from"),
    ("listen", "takeover"),
    ("identity", "access_token_cookie"),
    ("identity", "introspection"),
    ("apps", "protocol"),
    ("apps", "bearer"),
    ("", "kubernetes"),
];

/// The key of that name.
pub fn find(section: &str, name: &str) -> Option<&'static Key> {
    KEYS.iter().chain(PORT_KEYS).find(|key| key.section == section && key.name == name)
}
