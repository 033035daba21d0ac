//! Every configuration key: kind, default and description. The file reader, the reference and the
//! printed configuration all use this table.

mod api;
mod app_tables;
mod apps;
mod arvados;
mod controller;
mod gateway;
mod hub_proxy;
mod installations;
mod key;
mod labs;
mod limits;
mod people;
mod providers;
mod tokens;
mod viewers;

use std::{collections::HashMap, sync::LazyLock};

use app_tables::{HEALTH_KEYS, INSTALLATION_KEYS, PATH_KEYS, PORT_KEYS, VIEWER_KEYS};
pub use key::{Key, Kind, Section};

/// The tables, in print order.
pub const SECTIONS: [Section; 18] = [
    Section {
        name: "listen",
        purpose: "The public listener; [[listen]] for several. Sockets from systemd (LISTEN_FDS) are used for their addresses.",
        is_optional: false,
    },
    Section {
        name: "admin",
        purpose: "The listener for operators: /livez, /readyz, /metrics, /apps, /activity, /sessions.",
        is_optional: false,
    },
    Section {
        name: "site",
        purpose: "The public origin and its paths.",
        is_optional: false,
    },
    Section {
        name: "identity",
        purpose: "The OpenID provider. Without this table there is no sign-in: only public apps, and containers with an Arvados token.",
        is_optional: true,
    },
    Section {
        name: "session",
        purpose: "Lifetime and storage of sessions.",
        is_optional: false,
    },
    tokens::SECTION,
    Section {
        name: "limits",
        purpose: "Deadlines, sizes and counts.",
        is_optional: false,
    },
    Section {
        name: "log",
        purpose: "Logging.",
        is_optional: false,
    },
    Section {
        name: "metrics",
        purpose: "Metrics, at /metrics of the admin listener.",
        is_optional: false,
    },
    Section {
        name: "kubernetes",
        purpose: "Apps from PhApplication objects of a Kubernetes cluster.",
        is_optional: true,
    },
    controller::CONTROLLER,
    controller::GROUPS,
    controller::INSTANCE_TYPES,
    api::SECTION,
    labs::SECTION,
    hub_proxy::SECTION,
    arvados::SECTION,
    Section {
        name: "apps",
        purpose: "The apps, one [[apps]] table each.",
        is_optional: true,
    },
];

/// Tables whose entries are tables under names of the operator's choice.
pub const MAPS: [&str; 2] = ["groups", "instance_types"];

/// The table of one published port, inside an app.
pub const PUBLISHED_PORT: Section = Section {
    name: "apps.published_ports",
    purpose: "One port of an app, at <id>-<port>.<site.apps_domain>: a table under the port's number.",
    is_optional: false,
};

/// The table of one rule for paths, inside an app.
pub const PATH_RULE: Section = Section {
    name: "apps.paths",
    purpose: "A rule for paths of an app, one [[apps.paths]] table each. The longest prefix decides, and of two with one prefix the one with methods. Where programs may read a path in different ways, all rules that may be meant must admit the caller.",
    is_optional: false,
};

/// Tables that are written inside of another one.
pub const INNER: [Section; 18] = [
    people::INTROSPECTION,
    people::TRUSTED_ISSUERS,
    providers::PROVIDERS,
    PUBLISHED_PORT,
    PATH_RULE,
    app_tables::HEALTH,
    app_tables::VIEWERS,
    app_tables::INSTALLATIONS,
    controller::APPLICATIONS,
    viewers::VIEWERS,
    installations::INSTALLATIONS,
    controller::WEBHOOK,
    controller::IDLE,
    controller::QUOTA,
    labs::SCOPES,
    labs::CLAIMS,
    labs::ASSERTION,
    labs::GATEWAY,
];

/// The keys of [`INNER`] tables.
pub fn inner() -> impl Iterator<Item = &'static Key> {
    people::INTROSPECTION_KEYS
        .iter()
        .chain(people::TRUSTED_ISSUER_KEYS)
        .chain(providers::PROVIDER_KEYS)
        .chain(PORT_KEYS)
        .chain(PATH_KEYS)
        .chain(HEALTH_KEYS)
        .chain(VIEWER_KEYS)
        .chain(INSTALLATION_KEYS)
        .chain(controller::INNER_KEYS)
        .chain(viewers::INNER_KEYS)
        .chain(installations::INNER_KEYS)
        .chain(labs::INNER_KEYS)
}

/// Every key in print order, except those of [`INNER`] tables.
pub fn all() -> impl Iterator<Item = &'static Key> {
    [
        gateway::KEYS,
        limits::KEYS,
        people::KEYS,
        tokens::KEYS,
        controller::KEYS,
        api::KEYS,
        labs::KEYS,
        hub_proxy::KEYS,
        arvados::KEYS,
        apps::KEYS,
    ]
    .into_iter()
    .flatten()
}

static BY_NAME: LazyLock<HashMap<(&str, &str), &Key>> = LazyLock::new(|| {
    all()
        .chain(inner())
        .map(|key| ((key.section, key.name), key))
        .collect()
});

/// Finds a key by table and name.
pub fn find(section: &str, name: &str) -> Option<&'static Key> {
    BY_NAME.get(&(section, name)).copied()
}
