//! Names that no viewer may have.
//!
//! A viewer's name is a label of its pod. NetworkPolicies and Services of others may select pods by
//! this label alone, and let in or lead to those that have the name of a proxy.

use super::{
    parsed::{InvalidViewer, Viewer},
    settings::ViewerSettings,
};

/// The default labels of the proxies that apps and viewers let in.
const PROXIES: [&str; 3] = ["ludgate", "primehub-console", "primehub-graphql"];

/// Refuses a viewer whose pod would pass for a proxy.
///
/// # Errors
/// [`InvalidViewer::ReservedName`].
pub fn check(viewer: &Viewer, settings: &ViewerSettings) -> Result<(), InvalidViewer> {
    let labels = viewer.labels();
    let has = |name: &str, value: &str| labels[name].as_str() == Some(value);
    let mut proxies = settings.proxies.iter().chain(&settings.app_proxies);
    let is_proxy = proxies.any(|proxy| {
        let mut wanted = proxy.iter();
        wanted.all(|(name, value)| has(name, value))
    });
    match is_proxy || PROXIES.contains(&viewer.name.as_str()) {
        true => Err(InvalidViewer::ReservedName(viewer.name.clone())),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::viewer::samples;

    #[test]
    fn a_viewer_does_not_pass_for_a_proxy() {
        let mut settings = samples::settings();
        let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        settings.proxies = vec![
            BTreeMap::from([label("app.kubernetes.io/name", "edge")]),
            BTreeMap::from([
                label("app.kubernetes.io/name", "inner"),
                label("app.kubernetes.io/component", "gateway"),
            ]),
        ];
        settings.app_proxies = vec![BTreeMap::from([label("app.kubernetes.io/name", "console")])];
        for (name, is_allowed) in [
            ("v", true),
            ("console", false),
            ("inner", true),
            ("edge", false),
            ("ludgate", false),
            ("primehub-console", false),
        ] {
            let viewer = Viewer {
                name: name.to_owned(),
                ..samples::viewer(json!({ "pvc": "data" }))
            };
            assert_eq!(check(&viewer, &settings).is_ok(), is_allowed, "{name}");
        }
    }
}
