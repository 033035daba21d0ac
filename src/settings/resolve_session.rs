//! `[session]`: lifetimes, store, and sealing keys.

use std::path::Path;

use super::{resolve_store, section::ConfigSection};
use crate::session::{
    self,
    keys::{KeyRing, RenewError},
};

/// Reads the section. `None` for the keys only together with an error.
pub fn session(
    section: &ConfigSection<'_>,
    folder: &Path,
) -> (session::SessionSettings, Option<KeyRing>) {
    let default = session::SessionSettings::default();
    let settings = session::SessionSettings {
        idle: section.positive("idle", default.idle),
        lifetime: section.positive("lifetime", default.lifetime),
        recheck: section.positive("recheck", default.recheck),
        store: resolve_store::store(section, folder),
        hand_over: section.text("hand_over_file").map(|file| folder.join(file)),
        ..default
    };
    let has_keys = section.has("keys_file");
    match (&settings.hand_over, &settings.store) {
        (Some(_), Some(_)) => {
            section.wrong(
                "hand_over_file",
                "is of no use with a store that outlives the process",
                None,
            );
        }
        (Some(_), None) if !has_keys => {
            let what = "needs session.keys_file: the next process must be able to open it";
            section.wrong("hand_over_file", what, None);
        }
        (None, Some(_)) if !has_keys => {
            let what = "needs session.keys_file: every replica must be able to open what another has sealed";
            section.wrong(
                if section.has("store") {
                    "store"
                } else {
                    "store_file"
                },
                what,
                None,
            );
        }
        (_, _) => {}
    }
    if settings.idle > settings.lifetime {
        section.wrong("idle", "must not be longer than session.lifetime", None);
    }
    (settings, keys(section, folder))
}

/// The sealing keys. `None` only together with an error.
pub fn keys(section: &ConfigSection<'_>, folder: &Path) -> Option<KeyRing> {
    let keys = match section.text("keys_file") {
        None => Ok(KeyRing::random()),
        Some(file) => match KeyRing::from_file(&folder.join(&file)) {
            Ok(ring) => Ok(ring),
            Err(RenewError::Keys(error)) => Err(error),
            Err(RenewError::File(error)) => {
                section.wrong("keys_file", format!("{file} cannot be read: {error}"), None);
                return None;
            }
        },
    };
    let suggestion = || Some("make one with: openssl rand -base64 32".to_owned());
    keys.map_err(|error| section.wrong("keys_file", error.to_string(), suggestion()))
        .ok()
}

/// A warning about a store that is reached without TLS.
pub fn warning(settings: &session::SessionSettings) -> Option<String> {
    resolve_store::warning("session", settings.store.as_ref()?, "sign users out")
}
