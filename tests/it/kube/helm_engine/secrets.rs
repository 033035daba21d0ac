//! What other users of the machine can see of a call: its arguments, environment and files.

use std::{ffi::OsStr, path::Path};

use ludgate_installs::{
    helm::{command::UpgradeOptions, environment::OperationFolder},
    releases::secret::OWNER_LABEL,
};

use crate::support::helm::{Helm, charts};

const VALUES: &str = "cmData: { password: s3cret-value }\n";

#[tokio::test(flavor = "multi_thread")]
async fn no_call_shows_a_secret() {
    let helm = Helm::start().await;
    let chart = charts().join("example-0.1.0");
    let owner = (OWNER_LABEL.to_owned(), "uid-of-an-installation".to_owned());
    let options = UpgradeOptions {
        labels: [owner].into(),
        description: Some("by a test".to_owned()),
        ..helm.options()
    };
    let done = helm.upgrade(&chart, VALUES, &options).await;
    done.expect("installed");
    assert!(helm.asked_for("--labels=ludgate.dev/owner=uid-of-an-installation"));
    assert!(helm.asked_for("--description=by a test"));
    // Whether it can or not, its call is one of those below.
    helm.has_rolled_back(1).await;
    helm.uninstall(false).await.expect("uninstalled");
    let calls = helm.calls();
    // The first one is of the version.
    assert_eq!(calls.len(), 4);
    let temporary = tempfile::tempdir().expect("a folder");
    let own = OperationFolder::create(temporary.path(), "", None).expect("made");
    let variables = own.variables(OsStr::new(""));
    let mut expected: Vec<&str> = variables.iter().map(|(name, _)| *name).collect();
    expected.sort_unstable();
    for call in &calls {
        let text = call.to_string();
        for secret in [helm.token.expose(), "s3cret-value"] {
            assert!(!text.contains(secret), "{text}");
        }
        // serde_json sorts the keys.
        let environment = call["environment"].as_object().expect("variables");
        let names: Vec<&str> = environment.keys().map(String::as_str).collect();
        assert_eq!(names, expected);
        assert_eq!(call["modes"]["."], "0o700");
        assert_eq!(call["modes"]["kubeconfig"], "0o600");
        let open = call["open"].as_array().expect("files");
        let inherited = open.iter().filter_map(|file| file.as_str()).filter(|file| {
            let is_stream = file.starts_with("pipe:") || file.starts_with("socket:");
            !is_stream && *file != "/dev/null" && Path::new(file).extension() != Some("py".as_ref())
        });
        assert_eq!(inherited.collect::<Vec<_>>(), Vec::<&str>::new(), "{text}");
    }
    assert_eq!(calls[1]["modes"]["values.yaml"], "0o600");
    assert_eq!(calls[2]["modes"]["values.yaml"], serde_json::Value::Null);
}
