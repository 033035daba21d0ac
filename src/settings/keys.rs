//! Every key there is: its kind, its default and what it is for. The file reader, the reference and
//! the printed configuration all speak from this one table.

mod apps;
mod gateway;
mod limits;
mod people;

use std::{collections::HashMap, sync::LazyLock};

pub use apps::PORT_KEYS;

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

const fn key(
    section: &'static str,
    name: &'static str,
    kind: Kind,
    default: &'static str,
    example: &'static str,
    purpose: &'static str,
) -> Key {
    Key {
        section,
        name,
        kind,
        default,
        example,
        purpose,
    }
}

/// Every key, table by table in the order they are printed; those of a published port are apart.
pub fn all() -> impl Iterator<Item = &'static Key> {
    [gateway::KEYS, limits::KEYS, people::KEYS, apps::KEYS]
        .into_iter()
        .flatten()
}

/// Keys that belong to the contract and that this version does not serve yet: named, so that nobody
/// takes them for a slip of the pen, and refused, so that nobody believes them to be in force.
pub const NOT_YET: &[(&str, &str)] = &[("identity", "introspection"), ("apps", "bearer")];

static BY_NAME: LazyLock<HashMap<(&str, &str), &Key>> = LazyLock::new(|| {
    all()
        .chain(PORT_KEYS)
        .map(|key| ((key.section, key.name), key))
        .collect()
});

/// The key of that name.
pub fn find(section: &str, name: &str) -> Option<&'static Key> {
    BY_NAME.get(&(section, name)).copied()
}
