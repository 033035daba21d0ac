//! What a label below the apps' domain may name (docs/behaviour.md#hosts). Nothing is looked up
//! here.
//!
//! The uuid form is read first, and strictly: a name can never pass for a uuid, nor a uuid for a
//! name.

use std::fmt;

use crate::model::{
    uuid::Uuid,
    vhost::{HostLabel, parse_port},
};

/// What a label names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostTarget<'l> {
    /// `<uuid>-<port>`
    Port(Uuid, u16),
    /// `<uuid>` alone: its port 80, if it publishes that.
    Bare(Uuid),
    /// An app, a port of an app, or a registered name.
    Name(&'l str),
    /// A uuid with an invalid port.
    Broken,
}

impl fmt::Display for HostTarget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostTarget::Port(uuid, port) => write!(f, "port {port} of {uuid}"),
            HostTarget::Bare(uuid) => write!(f, "{uuid}"),
            HostTarget::Name(name) => write!(f, "name {name}"),
            HostTarget::Broken => f.write_str("not a valid uuid and port"),
        }
    }
}

/// Reads a label.
pub fn parse_label(label: &HostLabel) -> HostTarget<'_> {
    let text = label.as_str();
    let Some((head, rest)) = text.split_at_checked(27) else {
        return HostTarget::Name(text);
    };
    let Some(uuid) = Uuid::new(head) else {
        return HostTarget::Name(text);
    };
    match rest.strip_prefix('-') {
        None if rest.is_empty() => HostTarget::Bare(uuid),
        // Sixteen characters in the last group: a name that only looks like a uuid.
        None => HostTarget::Name(text),
        Some(digits) => parse_port(digits.as_bytes())
            .map_or(HostTarget::Broken, |port| HostTarget::Port(uuid, port)),
    }
}

/// Why no app may have an id that [`is_reserved`].
pub const RESERVED_ID: &str = "has the form of an Arvados uuid";

/// Whether the host of an app with this id would name a container.
pub fn is_reserved(id: &str) -> bool {
    HostLabel::new(id.as_bytes())
        .is_some_and(|label| !matches!(parse_label(&label), HostTarget::Name(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_canonical_spelling_of_a_uuid_and_port_names_one() {
        let uuid = "zzzzz-dz642-xqhgmzqm1tyc3bs";
        let read = |text: &str| {
            let label = HostLabel::new(text.as_bytes()).expect("a label");
            format!("{:?}", parse_label(&label))
        };
        assert_eq!(read(uuid), format!("Bare({uuid})"));
        assert_eq!(read(&format!("{uuid}-8888")), format!("Port({uuid}, 8888)"));
        assert_eq!(
            read(&format!("{uuid}-65535").to_uppercase()),
            format!("Port({uuid}, 65535)")
        );
        for broken in [
            "-0",
            "-00",
            "-080",
            "-65536",
            "-99999999999",
            "-80abc",
            "-80x",
            "-x",
            "--80",
        ] {
            assert_eq!(read(&format!("{uuid}{broken}")), "Broken", "{broken:?}");
        }
        for name in [
            "mlflow",
            "mlflow-80",
            "zzzzz-dz642-short",
            "zzzzz-dz642-xqhgmzqm1tyc3bsx-80",
        ] {
            assert_eq!(read(name), format!("Name({name:?})"));
        }
    }
}
