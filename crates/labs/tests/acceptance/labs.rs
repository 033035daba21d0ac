//! Configurations, objects, events, states and errors of labs.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use ludgate_labs::{
    config::{ContainerImage, LabsConfig},
    dialect::Dialect,
    error::LabError,
    events::LabEvent,
    images::{ImageResolution, LabImage, PodOwner, prepull_pod},
    names::LabNames,
    objects::{
        FileServerContext, LabContext, LabRequest, SourceSecret, SourceSecrets, desired,
        file_server, filesystem_admin,
    },
    options::{LabSpecification, SERVICE_PREFIX},
    size::LabSize,
    state::{LabState, LabStatus},
};
use serde_json::{Value, json};

use crate::data::{Data, helper_image, stem, urls};

const NUBLADO: Dialect = Dialect::Nublado;

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
    let lab = Lab::new(data);
    let pod = lab.desired(data, config).pod;
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
        }
        _ => {}
    }
    let volumes = pod["spec"]["volumes"].as_array().expect("volumes");
    let tmp = volumes
        .iter()
        .find(|volume| volume["name"] == "tmp")
        .expect("a volume");
    let is_disk = data
        .text(&format!("config/{name}.yaml"))
        .contains("emptyDirSource: disk");
    assert_eq!(tmp["emptyDir"].get("medium").is_none(), is_disk, "{name}");
}

/// The request of the data.
struct Lab {
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

    fn desired(&self, data: &Data, config: &LabsConfig) -> ludgate_labs::objects::DesiredLab {
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

const TOKEN: &str = "gt-some-token";

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
            "lab" => lab_objects(data),
            "prepull" | "prepull-conflict" => prepull_objects(data),
            "fileserver" => fileserver_objects(data),
            "fsadmin" => fsadmin_objects(data),
            other => panic!("{other}: what is it?"),
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

fn lab_objects(data: &Data) -> Vec<Value> {
    let config = data.config("standard");
    let lab = Lab::new(data).desired(data, &config);
    let kinds: Vec<&str> = lab
        .in_order()
        .map(|object| object["kind"].as_str().expect("a kind"))
        .collect();
    let in_order = [
        "Namespace",
        "PersistentVolumeClaim",
        "PersistentVolumeClaim",
        "ConfigMap",
        "ConfigMap",
        "ConfigMap",
        "Secret",
        "Secret",
        "ResourceQuota",
        "NetworkPolicy",
        "Service",
        "Pod",
    ];
    assert_eq!(kinds, in_order);
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

pub(crate) fn spawns_are_told(data: &Data) -> usize {
    let start = LabEvent::spawn_started("rachel", NUBLADO);
    let end = [
        LabEvent::objects_created(),
        LabEvent::spawn_complete("rachel", NUBLADO),
    ];
    let usual = [vec![start.clone()], end.to_vec()].concat();
    let again = [
        vec![start],
        LabEvent::replacement_steps("rachel").to_vec(),
        end.to_vec(),
    ];
    for (file, events) in [("events", usual), ("events-recreate", again.concat())] {
        let expected = data.json(&format!("spawn/{file}.json"));
        let expected = expected.as_array().expect("a list").iter().map(|event| {
            let text = |name: &str| event[name].as_str().expect("a text").to_owned();
            format!("event: {}\r\ndata: {}\r\n\r\n", text("event"), text("data"))
        });
        let frames = events.iter().map(|event| event.to_frames(None, NUBLADO));
        assert_eq!(
            frames.collect::<Vec<_>>(),
            expected.collect::<Vec<_>>(),
            "{file}"
        );
    }
    let config = data.config("standard");
    let lab = Lab::new(data);
    let names = LabNames::new("rachel", &config.lab, NUBLADO);
    let user = data.user("rachel");
    let state = LabState {
        options: lab.specification.options.clone(),
        image: lab.image.pinned_reference(),
        status: LabStatus::Running,
        has_pod: true,
        internal_url: Some(names.internal_url(&lab.specification.env[SERVICE_PREFIX])),
        resources: config.lab.size(LabSize::Small).expect("a size").resources,
        quota: user.quota.map(|quota| quota.amounts()),
        env: lab.specification.env,
        user,
    };
    let expected = data.json("spawn/lab-status.json");
    assert_eq!(state.to_json(&[], NUBLADO), expected);
    data.files("spawn").len()
}

/// The table of the data's own tests. Returns the number of its rows.
pub(crate) fn errors_are_answered(data: &Data) -> usize {
    let config = data.config("standard");
    let catalog = data.catalog("standard", "standard", "standard");
    let sketchbook = "lighthouse.ceres/library/sketchbook";
    let cases = [
        (
            json!({ "image_list": sketchbook, "size": "small" }),
            (422, "image_list", "invalid_docker_reference"),
        ),
        (
            json!({
                "image_list": "use_image_from_dropdown",
                "image_dropdown": sketchbook,
                "size": "small",
            }),
            (422, "image_dropdown", "invalid_docker_reference"),
        ),
        (
            json!({ "image_tag": "unknown", "size": "small" }),
            (400, "image_tag", "unknown_image"),
        ),
        (
            json!({ "image_class": "latest-release", "size": "small" }),
            (400, "image_class", "unknown_image"),
        ),
        (
            json!({ "image_tag": "recommended", "size": "gargantuan" }),
            (422, "size", "invalid_lab_size"),
        ),
        (
            json!({ "image_tag": "recommended", "size": "huge" }),
            (403, "size", "insufficient_quota"),
        ),
    ];
    let user = data.user("rachel");
    for (options, (status, field, kind)) in &cases {
        let body = json!({ "options": options, "env": { SERVICE_PREFIX: "/" } });
        let specification = LabSpecification::parse(&body, NUBLADO).expect("a valid body");
        let error = catalog
            .resolve(&specification.options.image, NUBLADO)
            .and_then(|_| {
                config
                    .lab
                    .checked_size(&specification.options, user.quota.as_ref())
            })
            .expect_err("an error");
        assert_eq!(error.status(), *status, "{options}");
        let detail = error.body()["detail"][0].clone();
        assert_eq!(detail["loc"], json!(["body", "options", field]));
        assert_eq!(detail["type"], *kind);
    }
    let tag = LabError::UnknownImage {
        field: "image_tag",
        message: "Docker tag \"unknown\" not found".to_owned(),
    };
    assert_eq!(
        tag.body()["detail"][0]["msg"],
        "Docker tag \"unknown\" not found"
    );
    cases.len()
}
