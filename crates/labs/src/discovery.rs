//! The document with which hubs find the controller.

use serde_json::{Value, json};

/// The document. `controller_url` is that of the API, without the version.
pub fn discovery_document(controller_url: &str, sign_out_url: &str) -> Value {
    json!({
        "services": {
            "internal": { "nublado-controller": { "url": controller_url } },
            "ui": { "logout": { "url": sign_out_url } },
        },
    })
}
