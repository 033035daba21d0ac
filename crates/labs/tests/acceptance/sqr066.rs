//! The examples of SQR-066: its routes with their bodies, its configurations of images, and its
//! objects. Names and numbers are other ones, the shapes are those of the document.

mod images;
mod labs;
mod objects;

use std::collections::BTreeMap;

use ludgate_labs::{
    config::LabsConfig,
    dialect::Dialect,
    images::{CachedImage, ClusterNode, ImageCatalog, NodeTaint},
    user::{LabGroup, LabUser},
};
use serde_json::{Value, json};

use crate::memory::Site;

const LAB: &str = "
lab:
  env:
    TAP_ROUTE: /api/tap
  initContainers:
    - name: provision
      image:
        repository: registry.example.com/provision
        tag: '2'
      privileged: true
      volumeMounts:
        - containerPath: /home
          volumeName: home
  nss:
    basePasswd: |
      root:x:0:0::/root:/bin/sh
    baseGroup: |
      root:x:0:
  pullSecret: pull
  secrets:
    - secretName: source
      secretKey: butler
      env: BUTLER
      path: /etc/butler
  sizes:
    - size: small
      resources:
        limits: { cpu: 1, memory: 3Gi }
        requests: { cpu: 1, memory: 1Gi }
    - size: large
      resources:
        limits: { cpu: 4, memory: 12Gi }
        requests: { cpu: 4, memory: 1Gi }
  volumes:
    - name: home
      source:
        type: nfs
        server: 10.9.8.7
        serverPath: /homes
  volumeMounts:
    - containerPath: /home
      volumeName: home
  egress:
    clusterNetworks: [10.0.0.0/8, 'fc00::/7']
    allowedNetworks: [10.9.8.7/32]
images:
";

/// A registry with the API of Docker.
const DOCKER: &str = "  registry: registry.example.com
  docker:
    repository: people/lab
  recommendedTag: recommended
  numReleases: 1
  numWeeklies: 2
  numDailies: 3
";

fn config(images: &str) -> LabsConfig {
    let text = format!("{LAB}{images}");
    LabsConfig::from_yaml(&text).unwrap_or_else(|error| panic!("{error}"))
}

/// A node with images by their digests, each of 700 bytes.
fn node(name: &str, image: &str, digests: &[&str]) -> ClusterNode {
    let images = digests.iter().map(|digest| CachedImage {
        names: vec![format!("{image}@{digest}")],
        size: Some(700),
    });
    ClusterNode {
        name: name.to_owned(),
        labels: BTreeMap::new(),
        taints: Vec::new(),
        images: images.collect(),
    }
}

/// The site of the first configuration: one node has all but one image, one has two, and one is
/// tainted.
fn site() -> Site {
    let config = config(DOCKER);
    let digests = [
        ("recommended", "sha256:09"),
        ("r24_0_0", "sha256:24"),
        ("w_2024_10", "sha256:10"),
        ("w_2024_09", "sha256:09"),
        ("d_2024_03_08", "sha256:d8"),
    ];
    let digests: BTreeMap<String, String> = digests
        .map(|(tag, digest)| (tag.to_owned(), digest.to_owned()))
        .into();
    let others = ["w_2024_08", "exp_w_2024_07_new", "w_2024_10-arm64"];
    let tags = digests.keys().cloned();
    let tags: Vec<String> = tags.chain(others.map(str::to_owned)).collect();
    let image = "registry.example.com/people/lab";
    let mut tainted = node("node-c", image, &["sha256:09"]);
    tainted.taints.push(NodeTaint {
        key: "gpu".to_owned(),
        value: "a100".to_owned(),
        effect: "NoSchedule".to_owned(),
    });
    let nodes = [
        node(
            "node-a",
            image,
            &["sha256:09", "sha256:10", "sha256:24", "sha256:d8"],
        ),
        node("node-b", image, &["sha256:09", "sha256:24"]),
        tainted,
    ];
    let catalog = ImageCatalog::from_tags(&config.images, &tags, &digests);
    let catalog = catalog.with_nodes(&nodes, &BTreeMap::new(), &[]);
    Site {
        config: config.into(),
        catalog: catalog.into(),
        dialect: Dialect::Sqr066,
    }
}

/// A person with a primary group and another one.
fn person(username: &str) -> LabUser {
    let group = |name: &str, id| LabGroup {
        name: name.to_owned(),
        id,
    };
    LabUser {
        username: username.to_owned(),
        name: Some("Nina Sky".to_owned()),
        uid: 40001,
        gid: 40001,
        groups: vec![group("observers", 50010), group(username, 40001)],
        quota: None,
    }
}

/// The body of a request, as a form of JupyterHub has it.
fn form() -> Value {
    json!({
        "options": {
            "enable_debug": ["true"],
            "image_list": ["registry.example.com/people/lab:w_2024_10"],
            "reset_user_env": ["true"],
            "size": ["large"],
        },
        "env": {
            "JUPYTERHUB_API_URL": "http://hub.example:8081/nb/hub/api",
            "JUPYTERHUB_API_TOKEN": "hub-secret",
        },
    })
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}
