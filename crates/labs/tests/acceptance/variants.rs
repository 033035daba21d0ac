//! What single settings change in the objects of a lab, and in the form.

use base64::{Engine, engine::general_purpose::STANDARD};
use ludgate_labs::{config::LabsConfig, form::lab_form, images::MenuImages, objects::DesiredLab};
use serde_json::{Value, json};

use crate::{
    data::Data,
    labs::{Lab, TOKEN},
};

/// The objects of a lab with a configuration of the data and some lines more in its `lab`.
fn lab_with(data: &Data, config: &str, lines: &str) -> DesiredLab {
    let text = data.text(&format!("config/{config}.yaml"));
    let (before, after) = text.split_once("\nlab:\n").expect("a section of labs");
    let text = format!("{before}\nlab:\n{lines}{after}");
    let config = LabsConfig::from_yaml(&text).unwrap_or_else(|error| panic!("{error}"));
    Lab::for_config(data, &config).desired(data, &config)
}

fn find<'v>(list: &'v Value, name: &str) -> &'v Value {
    let mut list = list.as_array().expect("a list").iter();
    let found = list.find(|entry| entry["name"] == name);
    found.unwrap_or_else(|| panic!("{name}"))
}

fn init_containers(lab: &DesiredLab) -> Vec<&str> {
    let containers = lab.pod["spec"]["initContainers"].as_array();
    let containers = containers.expect("containers").iter();
    containers
        .map(|container| container["name"].as_str().expect("a name"))
        .collect()
}

pub(crate) fn the_token_is_in_its_secret(data: &Data) {
    let lab = lab_with(data, "standard", "");
    let secret = lab.secrets.first().expect("a Secret");
    assert_eq!(secret["data"]["token"], STANDARD.encode(TOKEN));
}

/// The working directory was once the same with each schema.
pub(crate) fn home_directories_have_a_schema(data: &Data) {
    let schema = "  homedirSchema: initialThenUsername\n";
    for (lines, home) in [
        (String::new(), concat!("/home", "/rachel")),
        (schema.to_owned(), concat!("/home", "/r/rachel")),
        (
            format!("{schema}  homedirPrefix: /u/\n  homedirSuffix: /jhome/\n"),
            "/u/r/rachel/jhome",
        ),
    ] {
        let lab = lab_with(data, "standard", &lines);
        let spec = &lab.pod["spec"];
        let notebook = find(&spec["containers"], "notebook");
        assert_eq!(notebook["workingDir"], home);
        for container in init_containers(&lab) {
            let container = find(&spec["initContainers"], container);
            assert_eq!(find(&container["env"], "NUBLADO_HOME")["value"], home);
        }
        let mut files = lab.config_maps.iter();
        let name_service = files.find(|map| map["metadata"]["name"] == "rachel-nb-nss");
        let passwd = &name_service.expect("a ConfigMap")["data"]["passwd"];
        let line = format!("rachel:x:1101:1101:Rachel (?):{home}:/bin/bash\n");
        assert!(
            passwd.as_str().expect("a text").ends_with(&line),
            "{passwd}"
        );
    }
}

pub(crate) fn temporary_files_are_on_disk(data: &Data) {
    for (lines, medium) in [
        ("", json!("Memory")),
        ("  emptyDirSource: memory\n", json!("Memory")),
        ("  emptyDirSource: disk\n", json!(null)),
        ("  tmpSource: disk\n", json!(null)),
    ] {
        let lab = lab_with(data, "standard", lines);
        let volumes = &lab.pod["spec"]["volumes"];
        assert_eq!(
            find(volumes, "tmp")["emptyDir"]["medium"],
            medium,
            "{lines}"
        );
        assert_eq!(find(volumes, "tmp")["emptyDir"]["sizeLimit"], "805306368");
    }
}

pub(crate) fn paths_are_changed(data: &Data) {
    let lab = lab_with(data, "changed-path", "");
    let notebook = find(&lab.pod["spec"]["containers"], "notebook");
    assert_eq!(
        notebook["args"],
        json!(["/usr/local/share/jupyterlab/runlab"])
    );
    let mounts = &notebook["volumeMounts"];
    for (name, path) in [
        ("secrets", "/usr/local/nublado/secrets"),
        ("env", "/usr/local/nublado/environment"),
        ("runtime", "/usr/local/nublado/runtime"),
    ] {
        assert_eq!(find(mounts, name)["mountPath"], path);
    }
    let env = &lab.env["data"];
    assert_eq!(env["JUPYTERLAB_CONFIG_DIR"], "/usr/local/share/jupyterlab");
    assert_eq!(env["NUBLADO_RUNTIME_MOUNTS_DIR"], "/usr/local/nublado");
    assert_eq!(
        env["JUPYTERLAB_START_COMMAND"],
        "/usr/local/share/jupyterlab/runlab"
    );
}

pub(crate) fn annotations_are_added(data: &Data) {
    let lines = "  namespaceAnnotations:
    example.org/owner: '{{ uid }}:{{gid}}'
    example.org/plain: labs
  extraAnnotations:
    example.org/networks: kube-system/net
";
    let lab = lab_with(data, "standard", lines);
    let argo = |name: &str| format!("argocd.argoproj.io/{name}");
    let mut expected = json!({
        "example.org/owner": "1101:1101",
        "example.org/plain": "labs",
    });
    expected[argo("compare-options")] = "IgnoreExtraneous".into();
    expected[argo("sync-options")] = "Prune=false".into();
    assert_eq!(lab.namespace["metadata"]["annotations"], expected);
    let annotations = &lab.pod["metadata"]["annotations"];
    assert_eq!(annotations["example.org/networks"], "kube-system/net");
    assert_eq!(annotations["nublado.lsst.io/user-name"], "Rachel (?)");
}

pub(crate) fn a_container_has_its_command(data: &Data) {
    let lab = lab_with(data, "init-command", "");
    let container = &lab.pod["spec"]["initContainers"][0];
    assert_eq!(container["command"], json!(["nublado", "inithome"]));
}

pub(crate) fn home_directories_are_made(data: &Data) {
    let lab = lab_with(data, "standard-inithome", "");
    assert_eq!(init_containers(&lab)[0], "nublado-std-inithome");
    let security = &lab.pod["spec"]["initContainers"][0]["securityContext"];
    assert_eq!(security["privileged"], true);
}

const SCIENCE: [&str; 3] = [
    "nublado-std-inithome",
    "nublado-std-landingpage",
    "nublado-std-startup",
];

pub(crate) fn a_science_site_has_a_landing_page(data: &Data) {
    let lab = lab_with(data, "landingpage", "");
    assert_eq!(init_containers(&lab), SCIENCE);
}

pub(crate) fn the_volume_of_homes_has_another_name(data: &Data) {
    let lab = lab_with(data, "alternative-home", "");
    assert_eq!(init_containers(&lab), SCIENCE);
    let mounts = &lab.pod["spec"]["initContainers"][0]["volumeMounts"];
    assert_eq!(mounts[0]["name"], "noplacelikehome");
}

pub(crate) fn the_default_size_is_checked(data: &Data) {
    let text = data.text("config/standard.yaml");
    for (lines, checked) in [("", "small"), ("  defaultSize: large\n", "large")] {
        let text = text.replacen("\nlab:\n", &format!("\nlab:\n{lines}"), 1);
        let config = LabsConfig::from_yaml(&text).unwrap_or_else(|error| panic!("{error}"));
        let quota = data.user("rachel").quota;
        let form = lab_form(&MenuImages::default(), &config.lab, quota.as_ref());
        let form = form.expect("a form");
        assert_eq!(form.matches("name=\"size\"").count(), 3, "{form}");
        assert!(
            form.contains(&format!("value=\"{checked}\" checked")),
            "{form}"
        );
    }
}
