//! Configurations and objects of labs.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use ludgate_labs::{
    config::{ContainerImage, LabsConfig},
    dialect::Dialect,
    images::{ImageResolution, LabImage, PodOwner, prepull_pod},
    objects::{
        DesiredLab, FileServerContext, LabContext, LabRequest, SourceSecret, SourceSecrets,
        desired, file_server, filesystem_admin,
    },
    options::LabSpecification,
    rebuild::{FoundObjects, rebuild},
};
use serde_json::{Value, json};

use crate::data::{Data, helper_image, stem, urls};

pub(crate) const NUBLADO: Dialect = Dialect::Nublado;

pub(crate) fn configs_are_read(data: &Data) -> usize {
    let files = data.files("config");
    for file in &files {
        let config = data.read_config(stem(file));
        if stem(file) == "no-home" {
            let error = config.expect_err("a volume is missing").to_string();
            assert_eq!(
                error,
                "lab.volumes: a volume for home directories is needed, named home"
            );
            continue;
        }
        let config = config.unwrap_or_else(|error| panic!("{file}: {error}"));
        check_containers(data, stem(file), &config);
    }
    files.len()
}

/// What the data's own tests say about pods of some configurations.
fn check_containers(data: &Data, name: &str, config: &LabsConfig) {
    let pod = Lab::for_config(data, config).desired(data, config).pod;
    let containers = pod["spec"]["initContainers"]
        .as_array()
        .expect("containers");
    let names: Vec<&str> = containers
        .iter()
        .map(|one| one["name"].as_str().expect("a name"))
        .collect();
    let all = [
        "nublado-std-inithome",
        "nublado-std-landingpage",
        "nublado-std-startup",
    ];
    let notebook = &pod["spec"]["containers"][0];
    match name {
        "landingpage" => assert_eq!(names, all),
        "alternative-home" => {
            assert_eq!(names, all);
            assert_eq!(containers[0]["volumeMounts"][0]["name"], "noplacelikehome");
        }
        "standard-inithome" => assert_eq!(names[0], all[0]),
        "init-command" => assert_eq!(containers[0]["command"], json!(["nublado", "inithome"])),
        "changed-path" => {
            assert_eq!(
                notebook["args"],
                json!(["/usr/local/share/jupyterlab/runlab"])
            );
            let mounts = notebook["volumeMounts"].as_array().expect("mounts");
            let secrets = mounts.iter().find(|mount| mount["name"] == "secrets");
            assert_eq!(
                secrets.expect("a mount")["mountPath"],
                "/usr/local/nublado/secrets"
            );
            let env = Lab::for_config(data, config).desired(data, config).env;
            assert_eq!(
                env["data"]["JUPYTERLAB_CONFIG_DIR"],
                "/usr/local/share/jupyterlab"
            );
        }
        _ => {}
    }
    let volumes = pod["spec"]["volumes"].as_array().expect("volumes");
    let tmp = volumes
        .iter()
        .find(|volume| volume["name"] == "tmp")
        .expect("a volume");
    let text = data.text(&format!("config/{name}.yaml")).to_lowercase();
    let is_disk = text.contains("source: disk");
    assert_eq!(tmp["emptyDir"].get("medium").is_none(), is_disk, "{name}");
}

/// The request of the data.
pub(crate) struct Lab {
    specification: LabSpecification,
    image: LabImage,
    secrets: SourceSecrets,
}

impl Lab {
    fn new(data: &Data) -> Lab {
        let body = data.json("base/lab-specification.json");
        let specification = LabSpecification::parse(&body, NUBLADO).expect("a valid body");
        let catalog = data.catalog("standard", "standard", "standard");
        let resolution = catalog.resolve(&specification.options.image, NUBLADO);
        let ImageResolution::Image(image) = resolution.expect("a known image") else {
            panic!("the digest is in the reference");
        };
        Lab {
            specification,
            image: *image,
            secrets: secrets(data),
        }
    }

    /// A lab of the first size of a configuration, with all Secrets that it names.
    pub(crate) fn for_config(data: &Data, config: &LabsConfig) -> Lab {
        let mut lab = Lab::new(data);
        let config = &config.lab;
        lab.specification.options.size = config.sizes.first().expect("a size").size;
        for secret in &config.secrets {
            let source = lab.secrets.entry(secret.secret.clone()).or_default();
            let value = || STANDARD.encode("a value");
            source.data.entry(secret.key.clone()).or_insert_with(value);
        }
        if let Some(name) = &config.pull_secret {
            lab.secrets.entry(name.clone()).or_default();
        }
        lab
    }

    pub(crate) fn desired(&self, data: &Data, config: &LabsConfig) -> DesiredLab {
        let (urls, helper) = (urls(), helper_image());
        let discovery = discovery(data);
        let context = LabContext {
            config: &config.lab,
            dialect: NUBLADO,
            urls: &urls,
            discovery: Some(&discovery),
            peers: &[],
            helper_image: Some(&helper),
        };
        let user = data.user("rachel");
        let request = LabRequest {
            user: &user,
            token: TOKEN,
            specification: &self.specification,
            image: &self.image,
            is_provisioned: false,
            secrets: &self.secrets,
        };
        desired(context, request).expect("objects")
    }
}

pub(crate) const TOKEN: &str = "gt-some-token";

/// Another service makes this document, so the expected object has the input.
fn discovery(data: &Data) -> Value {
    let objects = data.json("objects/lab.json");
    let objects = objects.as_array().expect("a list");
    let files = objects
        .iter()
        .find(|object| object["metadata"]["name"] == "rachel-nb-files");
    let text = files.expect("a ConfigMap")["data"]["discovery-v1-json"].as_str();
    serde_json::from_str(text.expect("a text")).expect("JSON")
}

fn secrets(data: &Data) -> SourceSecrets {
    let secrets: BTreeMap<String, BTreeMap<String, String>> =
        serde_json::from_value(data.json("base/secrets.json")).expect("texts");
    let secret = |(name, data): (String, BTreeMap<String, String>)| {
        let kind = match data.contains_key(".dockerconfigjson") {
            true => "kubernetes.io/dockerconfigjson",
            false => "Opaque",
        };
        let encoded = data
            .into_iter()
            .map(|(key, value)| (key, STANDARD.encode(value)));
        let data = encoded.collect();
        (
            name,
            SourceSecret {
                kind: kind.to_owned(),
                data,
            },
        )
    };
    secrets.into_iter().map(secret).collect()
}

pub(crate) fn objects_are_built(data: &Data) -> usize {
    let files = data.files("objects");
    for file in &files {
        let built = match stem(file) {
            "lab" => lab_objects(data, "standard"),
            "prepull" | "prepull-conflict" => prepull_objects(data),
            "fileserver" => fileserver_objects(data),
            "fsadmin" => fsadmin_objects(data),
            other => {
                let name = other.strip_prefix("lab-").expect("objects of a lab");
                lab_objects(data, &data.config_for(name))
            }
        };
        let expected = data.json(&format!("objects/{file}"));
        let expected = expected
            .as_array()
            .expect("a list")
            .iter()
            .filter(|o| is_ours(o));
        let expected: Vec<Value> = expected.cloned().collect();
        compare(file, built, expected);
    }
    files.len()
}

/// Not what the cluster makes itself: accounts, the Ingress of a proxy, the Pod of a Job, and the
/// namespace of all file servers.
fn is_ours(object: &Value) -> bool {
    let metadata = &object["metadata"];
    object["kind"] != "ServiceAccount"
        && object["kind"] != "Ingress"
        && metadata["labels"].get("job-name").is_none()
        && !(object["kind"] == "Namespace" && metadata.get("labels").is_none())
}

fn compare(file: &str, mut built: Vec<Value>, mut expected: Vec<Value>) {
    let key = |object: &Value| {
        (
            object["kind"].to_string(),
            object["metadata"]["name"].to_string(),
        )
    };
    built.sort_by_key(key);
    expected.sort_by_key(key);
    let names = |objects: &[Value]| objects.iter().map(key).collect::<Vec<_>>();
    assert_eq!(names(&built), names(&expected), "{file}");
    for (object, mut expected) in built.into_iter().zip(expected) {
        expected
            .as_object_mut()
            .expect("an object")
            .remove("status");
        if expected["data"]["token"] == "<ANY>" {
            expected["data"]["token"] = STANDARD.encode(TOKEN).into();
        }
        assert_eq!(object, expected, "{file}: {:?}", key(&expected));
    }
}

fn lab_objects(data: &Data, config: &str) -> Vec<Value> {
    let config = data.config(config);
    let lab = Lab::for_config(data, &config).desired(data, &config);
    let order = [
        "Namespace",
        "PersistentVolumeClaim",
        "ConfigMap",
        "Secret",
        "ResourceQuota",
        "NetworkPolicy",
        "Service",
        "Pod",
    ];
    let place = |object: &Value| order.iter().position(|kind| object["kind"] == *kind);
    let places: Vec<Option<usize>> = lab.in_order().map(place).collect();
    assert!(places.is_sorted() && !places.contains(&None), "{places:?}");
    lab.in_order().cloned().collect()
}

fn prepull_objects(data: &Data) -> Vec<Value> {
    let config = data.config("standard");
    let owner = PodOwner {
        name: "nublado-controller".to_owned(),
        namespace: "nublado".to_owned(),
        uid: "12720beb-ecae-452e-982e-2f0a0a2fbaf1".to_owned(),
    };
    let plan = data
        .catalog("standard", "standard", "standard")
        .prepull_plan();
    plan.iter()
        .map(|task| prepull_pod(task, &config.lab, &owner))
        .collect()
}

fn fileserver_objects(data: &Data) -> Vec<Value> {
    let config = data.config("fileserver");
    let image: ContainerImage = helper_image();
    let context = FileServerContext {
        config: config.fileserver.as_ref().expect("file servers"),
        lab: &config.lab,
        base_url: &config.base_url,
        host: "127.0.0.1",
        image: &image,
        peers: &[],
    };
    file_server(context, &data.user("rachel"))
        .in_order()
        .cloned()
        .collect()
}

fn fsadmin_objects(data: &Data) -> Vec<Value> {
    let config = data.config("fsadmin");
    let objects = filesystem_admin(&config.fsadmin, &config.lab, &helper_image(), "nublado");
    objects.claims.into_iter().chain([objects.pod]).collect()
}

/// After a restart the state of a lab is that of its objects.
pub(crate) fn a_lab_is_read_back(data: &Data) {
    let objects = data.json("objects/lab.json");
    let find = |kind: &str, name: &str| {
        let mut objects = objects.as_array().expect("a list").iter();
        objects.find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
    };
    let found = FoundObjects {
        env: find("ConfigMap", "rachel-nb-env").expect("variables"),
        pod: find("Pod", "rachel-nb").expect("a pod"),
        quota: find("ResourceQuota", "rachel-nb"),
    };
    let state = rebuild("rachel", found, &data.config("standard").lab, NUBLADO);
    let state = state.expect("a whole lab").to_json(&[], NUBLADO);
    assert_eq!(state, data.json("spawn/lab-status.json"));
}
