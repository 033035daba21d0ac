//! The table of all keys, with type, default and description. The file reader, the reference and
//! the printed configuration use it.

mod apps;
mod gateway;
mod key;
mod limits;
mod people;

use std::{collections::HashMap, sync::LazyLock};

pub use apps::PORT_KEYS;
pub use key::{Key, Kind, Section};

/// The tables, in the order they are printed.
pub const SECTIONS: [Section; 10] = [
    Section {
        name: "listen",
        purpose: "Where people connect; [[listen]] for more than one. Sockets that are handed over (LISTEN_FDS) are used for the addresses they have.",
    },
    Section {
        name: "admin",
        purpose: "Where operators connect: /livez, /readyz, /metrics, /apps.",
    },
    Section {
        name: "site",
        purpose: "The origin people see, and what lives where on it.",
    },
    Section {
        name: "identity",
        purpose: "The OpenID provider. Without this table nobody signs in: public apps only, and containers with an Arvados token.",
    },
    Section {
        name: "session",
        purpose: "How long people stay signed in.",
    },
    Section {
        name: "limits",
        purpose: "Deadlines, sizes and counts.",
    },
    Section {
        name: "log",
        purpose: "What is logged.",
    },
    Section {
        name: "kubernetes",
        purpose: "Apps that are PhApplication objects of a Kubernetes cluster.",
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

/// All keys in the order of the printed configuration, without those of a published port.
pub fn all() -> impl Iterator<Item = &'static Key> {
    [gateway::KEYS, limits::KEYS, people::KEYS, apps::KEYS]
        .into_iter()
        .flatten()
}

/// Planned keys that this version rejects: with an error of their own, so that they are neither
/// taken for misspelt nor believed to be in force.
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
