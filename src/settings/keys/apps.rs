//! Keys of apps and their sources.

use super::key::{Key, Kind, Section, key};

/// The keys, in print order.
pub const KEYS: &[Key] = &[
    key(
        "kubernetes",
        "namespace",
        Kind::Text,
        "",
        "\"hub\"",
        "PhApplications of this namespace are apps. Requests go to the ready pods of their Services app-<name>.",
    ),
    key(
        "kubernetes",
        "namespaces",
        Kind::Texts,
        "",
        "[\"hub\", \"lab\"]",
        "Several namespaces instead of one. If two apps have the same name, the earlier namespace in the list wins.",
    ),
    key(
        "kubernetes",
        "kubeconfig",
        Kind::Text,
        "",
        "\"kubeconfig\"",
        "Kubeconfig file for the API server. Absent: the pod's service account.",
    ),
    key(
        "kubernetes",
        "watch",
        Kind::Duration,
        "\"55s\"",
        "\"55s\"",
        "Each watch is reopened after this long, to detect dead ones.",
    ),
    key(
        "kubernetes",
        "isolation",
        Kind::Text,
        "\"path\"",
        "\"path\"",
        "Like apps.isolation: \"host\" serves each app on its own host only, where no other app can read it, and redirects its path there.",
    ),
    key(
        "kubernetes",
        "logs",
        Kind::Switch,
        "false",
        "false",
        "Serve the logs of apps' pods below /api/logs/ to members of the app's group. Needs the additional rights in config/rbac/logs.yaml.",
    ),
    key(
        "kubernetes",
        "viewers",
        Kind::Table,
        "",
        "{ prefix = \"/pvcviewers\", access = \"group:ns-{namespace}\" }",
        "Serve PVCViewers, below a prefix of their own. Absent: they are not read. Needs the additional rights in config/rbac/viewers.yaml.",
    ),
    key(
        "kubernetes",
        "installations",
        Kind::Table,
        "",
        "{ prefix = \"/installs\" }",
        "Serve apps that were installed from charts, below a prefix of their own. Absent: they are not read. Needs the additional rights in config/rbac/installations.yaml.",
    ),
    key(
        "apps",
        "id",
        Kind::Text,
        "",
        "\"mlflow\"",
        "The app is at <site.apps_prefix>/<id>/. Lower-case letters, digits and inner dashes; at most 59 characters.",
    ),
    key(
        "apps",
        "upstream",
        Kind::TextOrTexts,
        "",
        "\"http://127.0.0.1:5000\"",
        "Address of the app: http or https, host and port, no path. Or unix: and the path of a socket that Ludgate may write to, \"unix:/run/app/app.sock\". Or a list of up to 32 addresses with one scheme: each request goes to the one with the fewest requests in progress, WebSockets included.",
    ),
    key(
        "apps",
        "sticky",
        Kind::Switch,
        "false",
        "true",
        "Keep each user, and each anonymous client by address, at one upstream of the list. An upstream that is lost moves its own users only.",
    ),
    key(
        "apps",
        "health",
        Kind::Table,
        "",
        "{ path = \"/healthz\" }",
        "Check each upstream in the background. One that fails gets no requests until it passes again; if all fail, all get them. Keys: path, interval, timeout, failures. Not for published ports.",
    ),
    key(
        "apps",
        "access",
        Kind::Rule,
        "",
        "\"group:phusers\"",
        "public, user (every signed-in user), group:<name>, owner:<subject>, email:<address>, email:*@<domain> or claim:<JSON pointer>=<value>. Or a table with a list of these, of deny:<rule> and of such tables: any needs one of them, all needs each. See docs/access.md.",
    ),
    key(
        "apps",
        "paths",
        Kind::Table,
        "",
        "[{ prefix = \"/health\", access = \"public\" }]",
        "Rules for paths of the app, in place of access. Keys: prefix, methods, access. They do not apply to published ports.",
    ),
    key(
        "apps",
        "cors_preflight",
        Kind::Switch,
        "false",
        "false",
        "Forward CORS preflights (OPTIONS with Origin and Access-Control-Request-Method, without a body) from every caller, without cookies of Ludgate and without a person. Not for published ports.",
    ),
    key(
        "apps",
        "name",
        Kind::Text,
        "",
        "\"MLflow\"",
        "Shown in the launcher.",
    ),
    key(
        "apps",
        "icon",
        Kind::Text,
        "",
        "\"📈\"",
        "Shown in the launcher; a few characters.",
    ),
    key(
        "apps",
        "isolation",
        Kind::Text,
        "\"path\"",
        "\"path\"",
        "path: at its path, and with site.apps_domain also at its host. host: at its host only, where no other app can read it; its path redirects there.",
    ),
    key(
        "apps",
        "published_ports",
        Kind::Table,
        "",
        "{ \"8080\" = { access = \"public\", label = \"Web\" } }",
        "Further ports of the app, each on a host of its own: <id>-<port>.<site.apps_domain>. Keys: access, label, upstream.",
    ),
    key(
        "apps",
        "strip_prefix",
        Kind::Switch,
        "false",
        "false",
        "Remove <prefix>/<id> from the path before forwarding.",
    ),
    key(
        "apps",
        "serves_bare_path",
        Kind::Switch,
        "false",
        "false",
        "The app's root is <prefix>/<id> without a trailing slash (Next.js with basePath): forward that path instead of redirecting it. Also detected from the app's first redirect to it.",
    ),
    key(
        "apps",
        "identity_headers",
        Kind::Switch,
        "true",
        "true",
        "Send X-Forwarded-User, -Email, -Preferred-Username and -Groups.",
    ),
    key(
        "apps",
        "assertion",
        Kind::Switch,
        "false",
        "false",
        "Send X-Ludgate-Assertion: a JWT that names the person, for the app to verify (docs/apps.md). Needs identity.assertion_keys.",
    ),
    key(
        "apps",
        "rewrite_host",
        Kind::Switch,
        "false",
        "false",
        "Send the upstream's authority as Host, and replace Ludgate's own origin in Origin and Referer by the upstream's. Not with several upstreams.",
    ),
    key(
        "apps",
        "protocol",
        Kind::Text,
        "\"h1\"",
        "\"h2\"",
        "HTTP version of the app: h1, or h2 (without TLS from the first byte, h2c). gRPC needs h2.",
    ),
    key(
        "apps",
        "proxy_protocol",
        Kind::Switch,
        "false",
        "false",
        "Begin each connection to the app with a PROXY protocol header (version 2) that names the client. Connections are then not shared among clients.",
    ),
    key(
        "apps",
        "keep_authorization",
        Kind::Switch,
        "false",
        "false",
        "Forward tokens that Ludgate takes as credentials to the app: bearer tokens of identity.issuer and of trusted issuers, service tokens, and opaque tokens.",
    ),
    key(
        "apps",
        "bearer",
        Kind::Text,
        "\"jwt\"",
        "\"opaque\"",
        "opaque: the provider is also asked about bearer tokens that are no JWTs (RFC 7662). Needs identity.client_secret_file.",
    ),
    key(
        "apps",
        "timeout",
        Kind::Duration,
        "limits.response_head",
        "\"60s\"",
        "Deadline for the app's response head.",
    ),
    key(
        "apps",
        "max_body",
        Kind::Size,
        "",
        "\"1GiB\"",
        "Largest request body. Absent: no limit.",
    ),
    key(
        "apps",
        "ca",
        Kind::Text,
        "",
        "\"app-ca.crt\"",
        "PEM file of the CA behind an https upstream's certificate. Absent: the system's CAs. This key and the next three also apply to published ports.",
    ),
    key(
        "apps",
        "server_name",
        Kind::Text,
        "the upstream's host",
        "\"app.internal\"",
        "Server name for an https upstream (SNI). Its certificate must be valid for this name.",
    ),
    key(
        "apps",
        "certificate_pin",
        Kind::Text,
        "",
        "\"sha256:d6qzRu9zOECb90Uez27xWltNsj0e1Md7GkYYkVoZWmM=\"",
        "Pinned key of an https upstream's certificate: base64 of the SHA-256 of its public key, as pin-sha256 of RFC 7469. It stays valid when the certificate is renewed with the same key. With ca, both must match. Without ca, the pin alone is enough: issuer, name and validity period are not checked, but an explicit server_name still is. To compute it: openssl x509 -in app.crt -noout -pubkey | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64",
    ),
    key(
        "apps",
        "client_certificate",
        Kind::Table,
        "",
        "{ certificate = \"client.crt\", key = \"client.key\" }",
        "PEM files of the client certificate chain and its key, presented to an https upstream that requests one.",
    ),
];

/// The keys of a published port.
pub const PORT_KEYS: &[Key] = &[
    key(
        "apps.published_ports",
        "access",
        Kind::Rule,
        "the app's access",
        "\"public\"",
        "Like apps.access.",
    ),
    key(
        "apps.published_ports",
        "label",
        Kind::Text,
        "",
        "\"Web\"",
        "Shown in lists of apps.",
    ),
    key(
        "apps.published_ports",
        "upstream",
        Kind::Text,
        "the app's host at this port",
        "\"http://127.0.0.1:8080\"",
        "Address of the port, if it is elsewhere. Required if the app is at a unix socket, which has no ports, or has several upstreams.",
    ),
];

/// The keys of a rule for paths.
pub const PATH_KEYS: &[Key] = &[
    key(
        "apps.paths",
        "prefix",
        Kind::Text,
        "",
        "\"/health\"",
        "The path below the app's root, without the app's own prefix. The rule is for this path and all paths below it. Compared byte by byte.",
    ),
    key(
        "apps.paths",
        "methods",
        Kind::Texts,
        "[]",
        "[\"GET\"]",
        "Methods that the rule is for; GET includes HEAD. Empty: all.",
    ),
    key(
        "apps.paths",
        "access",
        Kind::Rule,
        "",
        "\"public\"",
        "Like apps.access. It may be stricter or more open than the app's.",
    ),
];

/// The health check of an app's upstreams.
pub const HEALTH: Section = Section {
    name: "apps.health",
    purpose: "The health check of an app: a GET to each upstream, without cookies and identity headers, on a connection of its own with the app's protocol and TLS settings. A status from 200 to 399 passes.",
    is_optional: true,
};

/// The keys of [`HEALTH`].
pub const HEALTH_KEYS: &[Key] = &[
    key(
        "apps.health",
        "path",
        Kind::Text,
        "",
        "\"/healthz\"",
        "Path of the check, as the app gets it; a query is possible. Required.",
    ),
    key(
        "apps.health",
        "interval",
        Kind::Duration,
        "\"10s\"",
        "\"10s\"",
        "Time between two checks of one upstream, from 100ms to 1h.",
    ),
    key(
        "apps.health",
        "timeout",
        Kind::Duration,
        "\"2s\"",
        "\"2s\"",
        "Deadline of one check, from the connection to the response head.",
    ),
    key(
        "apps.health",
        "failures",
        Kind::Number,
        "2",
        "2",
        "An upstream fails after this many failed checks in a row, from 1 to 100. It passes again with the first success.",
    ),
];

/// Viewers of volumes.
pub const VIEWERS: Section = Section {
    name: "kubernetes.viewers",
    purpose: "PVCViewers of the namespaces: a viewer is at <prefix>/<namespace>/<name>/. Only for isolation \"path\".",
    is_optional: true,
};

/// Installed apps that are served.
pub const INSTALLATIONS: Section = Section {
    name: "kubernetes.installations",
    purpose: "Apps that were installed from charts: an app whose definition has `expose` is at <prefix>/<namespace>/<name>/. Only for isolation \"path\".",
    is_optional: true,
};

/// The keys of [`INSTALLATIONS`].
pub const INSTALLATION_KEYS: &[Key] = &[
    key(
        "kubernetes.installations",
        "prefix",
        Kind::Text,
        "\"/installs\"",
        "\"/installs\"",
        "Path of all installed apps.",
    ),
    key(
        "kubernetes.installations",
        "all_namespaces",
        Kind::Switch,
        "false",
        "true",
        "Serve installations of all namespaces, and not only of those above. As all_namespaces of [controller.installations].",
    ),
];

/// The keys of [`VIEWERS`].
pub const VIEWER_KEYS: &[Key] = &[
    key(
        "kubernetes.viewers",
        "prefix",
        Kind::Text,
        "\"/pvcviewers\"",
        "\"/pvcviewers\"",
        "Path of all viewers. Viewers with another `spec.networking.basePrefix` are not served.",
    ),
    key(
        "kubernetes.viewers",
        "access",
        Kind::Text,
        "",
        "\"group:ns-{namespace}\"",
        "Access rule of every viewer: public, user, group:<name> or owner:<subject>. In a name or subject, {namespace} and {name} are those of the viewer, {label:KEY} and {annotation:KEY} are of its Namespace object, which needs the rights in config/rbac/viewer-namespaces.yaml. Absent, or a label that the namespace does not have: everybody is denied.",
    ),
];
