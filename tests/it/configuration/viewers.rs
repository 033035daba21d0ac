//! `[controller.viewers]`: defaults, values and mistakes.

use std::{fs, time::Duration};

use ludgate::{
    controllers::viewer::settings::{AffinityMode, DefaultPod, Publication, ViewerSettings},
    settings,
};
use serde_json::json;

const KUBERNETES: &str = "[kubernetes]\nnamespace = \"team\"\n";

fn load(controller: &str) -> Result<settings::ControllerSettings, settings::ConfigErrors> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ludgate.toml");
    let pod = "containers:\n- {name: test, image: busybox}\nsecurityContext: {runAsUser: 1234}\n";
    fs::write(folder.path().join("pod.yaml"), pod).expect("written");
    fs::write(folder.path().join("text.yaml"), "text").expect("written");
    fs::write(&file, format!("{KUBERNETES}{controller}")).expect("written");
    settings::load_controller(&file)
}

fn viewers(table: &str) -> ViewerSettings {
    let loaded = load(&format!("[controller.viewers]\n{table}\n"));
    let loaded = loaded.unwrap_or_else(|mistakes| panic!("{table}: {mistakes}"));
    loaded.viewers.expect("viewers are on")
}

#[test]
fn viewers_run_alone_and_have_defaults() {
    let on = load("[controller]\nviewers = true\n").expect("valid");
    assert!(on.applications.is_none());
    let on = on.viewers.expect("viewers are on");
    let image = "filebrowser/filebrowser:v2.32.0".to_owned();
    assert_eq!(on.default_pod, DefaultPod::BuiltIn { image });
    assert!(on.yields && on.base_prefix.is_none() && on.idle_after.is_none());
    assert_eq!(on.proxies.len(), 1);
    assert_eq!(format!("{:?}", viewers("")), format!("{on:?}"));
    let nothing = load("[controller]\n").expect_err("nothing to run");
    assert!(nothing.to_string().contains("nothing to run"), "{nothing}");
}

#[test]
fn every_key_of_viewers_has_its_effect() {
    let all = viewers(
        "base_prefix = \"/pvcviewers\"\ndefault_pod_file = \"pod.yaml\"\n\
         affinity = \"preferred\"\nyields = false\nproxy_pod_labels = [\"app=edge\"]\n\
         proxy_namespace_labels = [\"name=edge\"]\nallowed_pod_rights = [\"scheduling\"]\n\
         service_accounts = [\"default-editor\"]\ntrusted_namespaces = [\"admins\"]\n\
         publish = \"http_route\"\npublish_gateway = \"gateways/edge\"",
    );
    assert_eq!(all.base_prefix.as_deref(), Some("/pvcviewers"));
    let DefaultPod::File(pod) = &all.default_pod else {
        panic!("{:?}", all.default_pod);
    };
    assert_eq!(pod["securityContext"], json!({ "runAsUser": 1234 }));
    assert_eq!(all.affinity, AffinityMode::Preferred);
    assert!(!all.yields);
    assert_eq!((all.proxies.len(), all.proxy_namespaces.len()), (1, 1));
    assert_eq!(all.pods.allowed.len(), 1);
    assert!(all.service_accounts.contains("default-editor"));
    assert!(all.trusted_namespaces.contains("admins"));
    let route = Publication::HttpRoute {
        gateway: "edge".to_owned(),
        namespace: "gateways".to_owned(),
    };
    assert_eq!(all.publication, route);
}

#[test]
fn viewers_can_be_idle_where_a_gateway_reports_uses() {
    let idle = "[controller.idle]\ngateways = [\"127.0.0.1:9090\"]\ntoken = \"secret\"\n";
    let table = |more: &str| {
        let text = format!("{idle}[controller.viewers]\nidle_after = \"30m\"\n{more}");
        load(&text)
    };
    let loaded = table("").expect("valid");
    let viewers = loaded.viewers.expect("viewers are on");
    assert_eq!(viewers.idle_after, Some(Duration::from_secs(1800)));
    assert_eq!(loaded.idle.expect("idle").gateways.len(), 1);
    let istio = table("publish = \"virtual_service\"\n").expect_err("no reports");
    assert!(istio.to_string().contains("needs publish"), "{istio}");
}

#[test]
fn a_mistake_names_its_key_and_what_is_allowed() {
    for (table, key, part) in [
        ("base_prefix = \"/\"", "base_prefix", "must be a path"),
        ("base_prefix = \"/a/../b\"", "base_prefix", "must be a path"),
        ("affinity = \"hard\"", "affinity", "no affinity"),
        ("publish = \"nginx\"", "publish", "is not understood"),
        (
            "publish_gateway = \"edge\"",
            "publish_gateway",
            "no namespace",
        ),
        (
            "default_pod_file = \"none.yaml\"",
            "default_pod_file",
            "cannot be read",
        ),
        (
            "default_pod_file = \"text.yaml\"",
            "default_pod_file",
            "is no podSpec",
        ),
        (
            "allowed_pod_rights = [\"root\"]",
            "allowed_pod_rights",
            "no right",
        ),
        (
            "proxy_pod_labels = [\"edge\"]",
            "proxy_pod_labels",
            "no label",
        ),
        ("idle_after = \"soon\"", "idle_after", "a duration"),
        (
            "idle_after = \"1h\"",
            "idle_after",
            "needs [controller.idle]",
        ),
        ("colour = \"red\"", "colour", "unknown"),
    ] {
        let mistakes = load(&format!("[controller.viewers]\n{table}\n")).expect_err(table);
        let [mistake] = mistakes.0.as_slice() else {
            panic!("{table}: {mistakes}");
        };
        assert_eq!(mistake.key, format!("controller.viewers.{key}"), "{table}");
        assert!(mistake.what.contains(part), "{table}: {}", mistake.what);
    }
}
