//! Tests of the objects of labs: names, secrets and networks, in both dialects.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::{
    config::LabsConfig,
    dialect::Dialect,
    environment::SiteUrls,
    images::{ImageCatalog, ImageResolution, LabImage},
    names::LabNames,
    options::LabSpecification,
    quantity::{CpuCores, MemoryBytes},
    rebuild::{FoundObjects, rebuild},
    size::{LabSize, NotebookQuota},
    state::LabStatus,
    user::{LabGroup, LabUser},
};

const CONFIG: &str = r"
lab:
  env: { CLIENT_SECRET: public }
  homedirPrefix: /u/
  homedirSchema: initialThenUsername
  homedirSuffix: nublado
  extraAnnotations: { k8s.v1.cni.cncf.io/networks: kube-system/dds }
  namespaceAnnotations: { example.org/owner: '{{uid}}:{{ gid }}' }
  initContainers:
    - name: provision
      image: { repository: example.org/provision, tag: '1' }
      privileged: true
      volumeMounts: [{ containerPath: /scratch, volumeName: scratch }]
  secrets:
    - { secretName: source, secretKey: JPY_API_TOKEN }
  sizes:
    - size: small
      resources:
        limits: { cpu: 1, memory: 3Gi }
        requests: { cpu: 250m, memory: 1Gi }
  volumes:
    - name: home
      source: { type: hostPath, path: /share }
    - name: scratch
      source:
        type: persistentVolumeClaim
        storageClassName: fast
        accessModes: [ReadWriteOnce]
        resources: { requests: { storage: 1Gi } }
    - name: unused
      source:
        type: persistentVolumeClaim
        storageClassName: fast
        accessModes: [ReadWriteOnce]
        resources: { requests: { storage: 1Gi } }
  egress:
    clusterNetworks: [10.0.0.0/8, 'fc00::/7']
    allowedNetworks: [10.1.2.3/32]
images:
  source: { type: docker, repository: example/lab }
";

struct Fixture {
    config: LabsConfig,
    user: LabUser,
    specification: LabSpecification,
    image: LabImage,
    secrets: SourceSecrets,
    is_provisioned: bool,
    peers: Vec<Value>,
}

impl Fixture {
    fn new() -> Fixture {
        let config = LabsConfig::from_yaml(CONFIG).unwrap();
        let body = json!({
            "options": { "image_tag": "w_2022_37", "size": "small", "enable_debug": true },
            "env": {
                "JUPYTERHUB_SERVICE_PREFIX": "/nb/user/rra/",
                "JUPYTERHUB_API_TOKEN": "hub-token",
                "JPY_API_TOKEN": "hub-token",
                "CLIENT_SECRET": "hidden",
                "MEM_LIMIT": "1",
                "RESET_USER_ENV": "TRUE",
            },
        });
        let specification = LabSpecification::parse(&body, Dialect::Nublado).unwrap();
        let tags = ["w_2022_37".to_owned()];
        let catalog = ImageCatalog::from_tags(&config.images, &tags, &BTreeMap::new());
        let choice = &specification.options.image;
        let ImageResolution::NeedsDigest(image) =
            catalog.resolve(choice, Dialect::Nublado).unwrap()
        else {
            panic!("no digest is known");
        };
        let group = |name: &str, id| LabGroup {
            name: name.to_owned(),
            id,
        };
        let source = SourceSecret {
            kind: "Opaque".to_owned(),
            data: [("JPY_API_TOKEN".to_owned(), "b3du".to_owned())].into(),
        };
        Fixture {
            image: image.with_digest("sha256:37".to_owned()),
            config,
            user: LabUser {
                username: "rra".to_owned(),
                name: Some("R: A\nroot".to_owned()),
                uid: 1000,
                gid: 100,
                groups: vec![group("rra", 100), group("lsst", 200)],
                quota: Some(NotebookQuota {
                    cpu: CpuCores::new(4.0).unwrap(),
                    memory: MemoryBytes(1 << 33),
                    may_spawn: true,
                }),
            },
            specification,
            secrets: [("source".to_owned(), source)].into(),
            is_provisioned: false,
            peers: Vec::new(),
        }
    }

    fn desired(&self, dialect: Dialect) -> Result<DesiredLab, DesiredLabError> {
        let urls = SiteUrls::default();
        let context = LabContext {
            config: &self.config.lab,
            dialect,
            urls: &urls,
            discovery: None,
            peers: &self.peers,
            helper_image: None,
        };
        let request = LabRequest {
            user: &self.user,
            token: "token-of-rra",
            specification: &self.specification,
            image: &self.image,
            is_provisioned: self.is_provisioned,
            secrets: &self.secrets,
        };
        desired(context, request)
    }
}

fn names(lab: &DesiredLab) -> Vec<String> {
    let names = lab.in_order().map(|object| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        format!(
            "{} {}",
            text(&object["kind"]),
            text(&object["metadata"]["name"])
        )
    });
    names.collect()
}

#[test]
fn the_document_has_names_that_start_with_nb() {
    let lab = Fixture::new().desired(Dialect::Sqr066).unwrap();
    let expected = [
        "Namespace nublado-rra",
        "PersistentVolumeClaim nb-rra-pvc-scratch",
        "ConfigMap nb-rra-env",
        "ConfigMap nb-rra-nss",
        "Secret nb-rra",
        "ResourceQuota nb-rra",
        "NetworkPolicy nb-rra",
        "Service nb-rra",
        "Pod nb-rra",
    ];
    assert_eq!(names(&lab), expected);
    let instance = "argocd.argoproj.io/instance";
    for object in lab.in_order() {
        assert_eq!(object["metadata"]["labels"][instance], "nublado-users");
    }
}

#[test]
fn the_document_limits_where_labs_connect_to() {
    let spec = Fixture::new()
        .desired(Dialect::Sqr066)
        .unwrap()
        .network_policy["spec"]
        .clone();
    let hub = json!({
        "namespaceSelector": {},
        "podSelector": { "matchLabels": { "app": "jupyterhub" } },
    });
    assert_eq!(spec["policyTypes"], json!(["Ingress", "Egress"]));
    assert_eq!(spec["ingress"][0]["from"], json!([hub]));
    assert_eq!(spec["egress"][0]["to"], json!([hub]));
    let outside = json!([
        { "ipBlock": { "cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"] } },
        { "ipBlock": { "cidr": "::/0", "except": ["fc00::/7"] } },
        { "ipBlock": { "cidr": "10.1.2.3/32" } },
    ]);
    assert_eq!(spec["egress"][2]["to"], outside);
    let nublado = Fixture::new().desired(Dialect::Nublado).unwrap();
    assert_eq!(nublado.network_policy["spec"].get("egress"), None);
}

#[test]
fn the_gateway_may_connect_to_labs_if_it_is_named() {
    let mut fixture = Fixture::new();
    let gateway = json!({ "podSelector": { "matchLabels": { "app": "ludgate" } } });
    fixture.peers.push(gateway.clone());
    for dialect in [Dialect::Sqr066, Dialect::Nublado] {
        let policy = fixture.desired(dialect).unwrap().network_policy;
        let peers = policy["spec"]["ingress"][0]["from"].as_array().unwrap();
        assert_eq!(peers.last(), Some(&gateway));
    }
}

#[test]
fn the_document_provisions_once_and_leaves_out_the_primary_group() {
    let mut fixture = Fixture::new();
    let groups =
        |lab: &DesiredLab| lab.pod["spec"]["securityContext"]["supplementalGroups"].clone();
    let first = fixture.desired(Dialect::Sqr066).unwrap();
    assert_eq!(first.pod["spec"]["initContainers"][0]["name"], "provision");
    assert_eq!(groups(&first), json!([200]));
    fixture.is_provisioned = true;
    let second = fixture.desired(Dialect::Sqr066).unwrap();
    assert_eq!(second.pod["spec"].get("initContainers"), None);
    // Its volume goes with it.
    assert!(second.claims.is_empty());
    let nublado = fixture.desired(Dialect::Nublado).unwrap();
    assert_eq!(
        nublado.pod["spec"]["initContainers"][0]["name"],
        "provision"
    );
    assert_eq!(groups(&nublado), json!([100, 200]));
}

#[test]
fn secrets_of_the_hub_are_in_no_config_map() {
    let lab = Fixture::new().desired(Dialect::Nublado).unwrap();
    let env = &lab.env["data"];
    assert_eq!(env.get("JUPYTERHUB_API_TOKEN"), None);
    assert_eq!(env.get("JPY_API_TOKEN"), None);
    let data = &lab.secrets[0]["data"];
    assert_eq!(data["JUPYTERHUB_API_TOKEN"], "aHViLXRva2Vu");
    // The configuration has this key for a secret of its own.
    assert_eq!(data["JPY_API_TOKEN"], "b3du");
    assert_eq!(data["env.JPY_API_TOKEN"], "aHViLXRva2Vu");
    assert_eq!(data["token"], "dG9rZW4tb2YtcnJh");
    let variables = lab.pod["spec"]["containers"][0]["env"].as_array().unwrap();
    let key = |name: &str| {
        let variable = variables
            .iter()
            .find(|variable| variable["name"] == name)
            .unwrap();
        variable["valueFrom"]["secretKeyRef"]["key"].clone()
    };
    assert_eq!(key("JUPYTERHUB_API_TOKEN"), "JUPYTERHUB_API_TOKEN");
    assert_eq!(key("JPY_API_TOKEN"), "env.JPY_API_TOKEN");
    assert_eq!(key("ACCESS_TOKEN"), "token");
    assert!(!lab.env.to_string().contains("hub-token"));
}

#[test]
fn variables_of_the_controller_and_the_configuration_win() {
    let env = Fixture::new().desired(Dialect::Nublado).unwrap().env["data"].clone();
    assert_eq!(env["MEM_LIMIT"], (3_u64 << 30).to_string());
    assert_eq!(env["DEBUG"], "TRUE");
    assert_eq!(env.get("RESET_USER_ENV"), None);
    assert_eq!(env["CLIENT_SECRET"], "public");
}

#[test]
fn a_person_does_not_choose_the_code_of_a_privileged_container() {
    let mut fixture = Fixture::new();
    let file = "/u/r/rra/nublado/file";
    let others = ["LD_PRELOAD", "PATH", "OPENSSL_CONF", "JAVA_TOOL_OPTIONS"];
    for name in others {
        let env = &mut fixture.specification.env;
        env.insert(name.to_owned(), file.to_owned());
    }
    let data = |fixture: &Fixture| {
        let lab = fixture.desired(Dialect::Nublado).unwrap();
        lab.env["data"].clone()
    };
    for name in others {
        assert_eq!(data(&fixture).get(name), None, "{name}");
    }
    assert!(data(&fixture).get("JUPYTERHUB_SERVICE_PREFIX").is_some());
    // Without such a container, all that the hub sends is for the lab.
    fixture.config.lab.standard_inithome = false;
    fixture.config.lab.init_containers.clear();
    for name in others {
        assert_eq!(data(&fixture)[name], file, "{name}");
    }
}

#[test]
fn home_directories_and_annotations_follow_the_configuration() {
    let lab = Fixture::new().desired(Dialect::Nublado).unwrap();
    let home = "/u/r/rra/nublado";
    assert_eq!(lab.pod["spec"]["containers"][0]["workingDir"], home);
    let passwd = lab.config_maps[0]["data"]["passwd"].as_str().unwrap();
    let line = format!("rra:x:1000:100:R  A root:{home}:/bin/bash\n");
    assert!(passwd.ends_with(&line), "{passwd}");
    let annotations = |object: &Value| object["metadata"]["annotations"].clone();
    assert_eq!(annotations(&lab.namespace)["example.org/owner"], "1000:100");
    assert_eq!(
        annotations(&lab.pod)["k8s.v1.cni.cncf.io/networks"],
        "kube-system/dds"
    );
}

#[test]
fn missing_secrets_and_long_names_are_errors() {
    let mut fixture = Fixture::new();
    fixture.secrets.get_mut("source").unwrap().data.clear();
    let error = fixture.desired(Dialect::Nublado).unwrap_err();
    assert_eq!(error.to_string(), "Secret source has no key JPY_API_TOKEN");
    fixture.secrets.clear();
    let error = fixture.desired(Dialect::Nublado).unwrap_err();
    assert_eq!(error.to_string(), "Secret source does not exist");
    fixture.user.username = "x".repeat(60);
    let error = fixture.desired(Dialect::Nublado).unwrap_err();
    assert!(matches!(error, DesiredLabError::NameTooLong(_)));
}

#[test]
fn a_lab_is_rebuilt_from_its_objects() {
    let fixture = Fixture::new();
    for dialect in [Dialect::Sqr066, Dialect::Nublado] {
        let lab = fixture.desired(dialect).unwrap();
        let mut pod = lab.pod.clone();
        pod["status"] = json!({ "phase": "Running" });
        let objects = FoundObjects {
            env: &lab.env,
            pod: &pod,
            quota: lab.quota.as_ref(),
        };
        let state = rebuild("rra", objects, &fixture.config.lab, dialect).unwrap();
        let user = LabUser {
            quota: None,
            ..fixture.user.clone()
        };
        assert_eq!((&state.user, state.status), (&user, LabStatus::Running));
        assert_eq!(state.options.size, LabSize::Small);
        assert!(state.options.enable_debug && !state.options.reset_user_env);
        assert_eq!(state.image, fixture.image.pinned_reference());
        assert_eq!(state.quota, fixture.user.quota.map(|quota| quota.amounts()));
        let names = LabNames::new("rra", &fixture.config.lab, dialect);
        assert_eq!(
            state.internal_url,
            Some(names.internal_url("/nb/user/rra/"))
        );
        let mut deleted = pod.clone();
        deleted["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
        let objects = FoundObjects {
            pod: &deleted,
            ..objects
        };
        let state = rebuild("rra", objects, &fixture.config.lab, dialect).unwrap();
        assert_eq!(state.status, LabStatus::Terminating);
        let empty = json!({});
        let objects = FoundObjects {
            pod: &empty,
            ..objects
        };
        assert!(rebuild("rra", objects, &fixture.config.lab, dialect).is_err());
    }
}
