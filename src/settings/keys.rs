//! Every configuration key: kind, default and description. The file reader, the reference and the
//! printed configuration all use this table.

mod apps;
mod gateway;
mod key;
mod limits;
mod people;

use std::{collections::HashMap, sync::LazyLock};

pub use apps::PORT_KEYS;
pub use key::{Key, Kind, Section};

/// The tables, in print order.
pub const SECTIONS: [Section; 10] = [
    Section {
        name: "listen",
        purpose: "The public listener; [[listen]] for several. Sockets from systemd (LISTEN_FDS) are used for their addresses.",
    },
    Section {
        name: "admin",
        purpose: "The listener for operators: /livez, /readyz, /metrics, /apps, /sessions.",
    },
    Section {
        name: "site",
        purpose: "The public origin and its paths.",
    },
    Section {
        name: "identity",
        purpose: "The OpenID provider. Without this table there is no sign-in: only public apps, and containers with an Arvados token.",
    },
    Section {
        name: "session",
        purpose: "Lifetime and storage of sessions.",
    },
    Section {
        name: "limits",
        purpose: "Deadlines, sizes and counts.",
    },
    Section {
        name: "log",
        purpose: "Logging.",
    },
    Section {
        name: "kubernetes",
        purpose: "Apps from PhApplication objects of a Kubernetes cluster.",
    },
    Section {
        name: "arvados",
        purpose: "Web services of Arvados containers, each on a host or a port of its own.",
    },
    Section {
        name: "apps",
        purpose: "The apps, one [[apps]] table each.",
    },
];

/// The table of one published port, inside an app.
pub const PUBLISHED_PORT: Section = Section {
    name: "apps.published_ports",
    purpose: "One port of an app, at <id>-<port>.<site.apps_domain>: a table under the port's number.",
};

/// Every key in print order, except those of a published port.
pub fn all() -> impl Iterator<Item = &'static Key> {
    [gateway::KEYS, limits::KEYS, people::KEYS, apps::KEYS]
        .into_iter()
        .flatten()
}

/// Planned keys that this version does not support. They are refused, so that an operator does not
/// take them for active; the message says so, so that they do not look like misspellings.
pub const NOT_YET: &[(&str, &str)] = &[("identity", "introspection"), ("apps", "bearer")];

static BY_NAME: LazyLock<HashMap<(&str, &str), &Key>> = LazyLock::new(|| {
    all()
        .chain(PORT_KEYS)
        .map(|key| ((key.section, key.name), key))
        .collect()
});

/// Finds a key by table and name.
pub fn find(section: &str, name: &str) -> Option<&'static Key> {
    BY_NAME.get(&(section, name)).copied()
}
