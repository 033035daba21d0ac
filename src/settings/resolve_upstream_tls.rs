//! The TLS keys of an app's table. Files are read and checked here, so that errors show at start-up
//! and not at the first request.

use std::{fs, path::Path, sync::Arc};

use rustls::pki_types::ServerName;

use super::{keys, section::ConfigSection, values::ca_file};
use crate::{
    forward::app_tls::certified_key,
    model::{
        app::{Upstream, UpstreamScheme},
        secret::Secret,
        upstream_tls::{ClientCertificate, KeyPin, UpstreamTls},
    },
};

const CLIENT_CERTIFICATE: &str = "client_certificate";
const PIN: &str = "certificate_pin";

/// All keys that need an https upstream.
const KEYS: [&str; 4] = ["ca", "server_name", PIN, CLIENT_CERTIFICATE];

/// Reads the keys of an app with these upstreams.
pub fn upstream_tls<'u>(
    section: &ConfigSection<'_>,
    folder: &Path,
    mut upstreams: impl Iterator<Item = &'u Upstream>,
) -> UpstreamTls {
    let tls = UpstreamTls {
        ca: ca_file(section, "ca", folder),
        server_name: section.text("server_name").and_then(|text| {
            let name = ServerName::try_from(text.clone());
            name.map_err(|_| {
                section.wrong("server_name", format!("{text:?} is no host name"), None)
            })
            .ok()
        }),
        pin: section.text(PIN).and_then(|text| pin(section, &text)),
        client_certificate: client_certificate(section, folder),
    };
    // The author of such a key expects TLS to the app.
    if !upstreams.any(|upstream| upstream.scheme == UpstreamScheme::Https) {
        for name in KEYS.into_iter().filter(|name| section.has(name)) {
            section.wrong(name, "is for an https upstream, and there is none", None);
        }
    }
    tls
}

fn pin(section: &ConfigSection<'_>, text: &str) -> Option<KeyPin> {
    let pin = KeyPin::parse(text);
    if pin.is_none() {
        let example =
            keys::find("apps", PIN).map(|key| format!("for example {PIN} = {}", key.example));
        let what = "must be sha256: and the base64 of the SHA-256 of the certificate's public key";
        section.wrong(PIN, what, example);
    }
    pin
}

fn client_certificate(
    section: &ConfigSection<'_>,
    folder: &Path,
) -> Option<Arc<ClientCertificate>> {
    let (certificate, key) = section.pair(CLIENT_CERTIFICATE, "certificate", "key")?;
    let wrong = |what: String| section.wrong(CLIENT_CERTIFICATE, what, None);
    let unreadable =
        |file: &str, error: std::io::Error| wrong(format!("{file} cannot be read: {error}"));
    let chain = fs::read(folder.join(&certificate))
        .map_err(|error| unreadable(&certificate, error))
        .ok();
    let secret = fs::read_to_string(folder.join(&key))
        .map_err(|error| unreadable(&key, error))
        .ok();
    let ours = ClientCertificate {
        chain: chain?.into(),
        key: Secret::new(secret?),
    };
    match certified_key(&ours) {
        Ok(_) => Some(Arc::new(ours)),
        Err(error) => {
            wrong(format!("{certificate}, {key}: {error}"));
            None
        }
    }
}
