//! The shipped templates of apps, in a real API server.

use std::path::Path;

use serde_json::Value;

use crate::support::kube_namespace::KubeNamespace;

/// `kubectl get` must return what the files have: a definition that drops a field would lose it
/// without a word.
#[tokio::test]
async fn the_shipped_templates_are_stored_as_they_are() {
    let namespace = KubeNamespace::new().await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/templates");
    let folder = folder.to_str().expect("text");
    namespace.kubectl(&["apply", "-f", folder], "").await;
    let stored = namespace
        .kubectl(&["get", "phapptemplates", "-o", "json"], "")
        .await;
    let stored: Value = serde_json::from_str(&stored).expect("JSON");
    let stored = stored["items"].as_array().expect("a list");
    let mut count = 0;
    for file in std::fs::read_dir(folder).expect("the folder") {
        let text = std::fs::read_to_string(file.expect("an entry").path()).expect("a text");
        let written: Value = serde_saphyr::from_str(&text).expect("YAML");
        let name = &written["metadata"]["name"];
        let found = stored.iter().find(|it| it["metadata"]["name"] == *name);
        assert_eq!(found.expect("stored")["spec"], written["spec"], "{name}");
        count += 1;
    }
    assert_eq!(stored.len(), count);
}
