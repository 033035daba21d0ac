//! Keys of the tables inside `[[apps]]` and `[kubernetes]`.

use super::key::{Key, Kind, Section, key};

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
        "Deadline of one check, from the connection to the response head; at most 1m.",
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
    purpose: "PVCViewers of the namespaces: a viewer is at <prefix>/<namespace>/<name>/. Not with isolation \"host\".",
    is_optional: true,
};

/// Installed apps that are served.
pub const INSTALLATIONS: Section = Section {
    name: "kubernetes.installations",
    purpose: "Apps that were installed from charts: an app whose definition has `expose` is at <prefix>/<namespace>/<name>/. Not with isolation \"host\".",
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
