//! Reads the folder of the data.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
};

use ludgate_labs::{
    config::{ContainerImage, LabsConfig, LabsConfigError, PullPolicy},
    environment::SiteUrls,
    images::{CachedImage, ClusterNode, ImageCatalog, NodeTaint, RegistryImage},
    quantity::{CpuCores, MemoryBytes},
    size::NotebookQuota,
    user::LabUser,
};
use serde_json::Value;

pub(crate) struct Data {
    folder: PathBuf,
    /// Paths of the files that were read.
    read: RefCell<BTreeSet<String>>,
}

impl Data {
    pub(crate) fn from_environment() -> Option<Data> {
        let folder = PathBuf::from(env::var_os("LUDGATE_ACCEPTANCE")?);
        let labs = folder.join("labs");
        let folder = if labs.is_dir() { labs } else { folder };
        assert!(
            folder.is_dir(),
            "LUDGATE_ACCEPTANCE names no folder: {}",
            folder.display()
        );
        Some(Data {
            folder,
            read: RefCell::default(),
        })
    }

    /// Paths of all files with what is in folders, sorted, and whether each was read.
    pub(crate) fn all_files(&self) -> Vec<(String, bool)> {
        let mut paths = Vec::new();
        for folder in names_in(&self.folder) {
            let path = self.folder.join(&folder);
            if path.is_dir() {
                paths.extend(
                    names_in(&path)
                        .iter()
                        .map(|name| format!("{folder}/{name}")),
                );
            }
        }
        let read = self.read.borrow();
        let with_use = paths.into_iter().map(|path| {
            let is_read = read.contains(&path);
            (path, is_read)
        });
        with_use.collect()
    }

    /// Names of the files of a folder, sorted.
    pub(crate) fn files(&self, folder: &str) -> Vec<String> {
        names_in(&self.folder.join(folder))
    }

    /// The configuration that other files name by the start of its name.
    pub(crate) fn config_for(&self, start: &str) -> String {
        let files = self.files("config");
        let mut names = files.iter().map(|file| stem(file));
        let name = names.find(|name| name.starts_with(start));
        name.unwrap_or_else(|| panic!("{start}: no such configuration"))
            .to_owned()
    }

    pub(crate) fn text(&self, file: &str) -> String {
        let path = self.folder.join(file);
        self.read.borrow_mut().insert(file.to_owned());
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    pub(crate) fn json(&self, file: &str) -> Value {
        serde_json::from_str(&self.text(file)).expect("JSON")
    }

    pub(crate) fn config(&self, name: &str) -> LabsConfig {
        self.read_config(name)
            .unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) fn read_config(&self, name: &str) -> Result<LabsConfig, LabsConfigError> {
        LabsConfig::from_yaml(&self.text(&format!("config/{name}.yaml")))
    }

    /// Nodes by name, in the short form of the data.
    pub(crate) fn nodes(&self, name: &str) -> Vec<ClusterNode> {
        let nodes = self.json(&format!("nodes/{name}.json"));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let node = |(name, node): (&String, &Value)| ClusterNode {
            name: name.clone(),
            labels: serde_json::from_value(node["labels"].clone()).unwrap_or_default(),
            taints: list(&node["taints"])
                .iter()
                .map(|taint| NodeTaint {
                    key: text(&taint["key"]),
                    value: text(&taint["value"]),
                    effect: text(&taint["effect"]),
                })
                .collect(),
            images: list(&node["images"])
                .iter()
                .map(|image| CachedImage {
                    names: list(&image["names"]).iter().map(text).collect(),
                    size: image["size_bytes"].as_u64(),
                })
                .collect(),
        };
        nodes
            .as_object()
            .expect("nodes by name")
            .iter()
            .map(node)
            .collect()
    }

    pub(crate) fn user(&self, name: &str) -> LabUser {
        let user = self.json(&format!("users/{name}.json"));
        let number = |value: &Value| {
            u32::try_from(value.as_u64().expect("a number")).expect("a small number")
        };
        let quota = &user["quota"]["notebook"];
        LabUser {
            username: user["username"].as_str().expect("a name").to_owned(),
            name: user["name"].as_str().map(str::to_owned),
            uid: number(&user["uid"]),
            gid: number(&user["gid"]),
            groups: serde_json::from_value(user["groups"].clone()).expect("groups"),
            quota: Some(NotebookQuota {
                cpu: CpuCores::new(quota["cpu"].as_f64().expect("cores")).expect("cores"),
                memory: MemoryBytes::from_gib(quota["memory"].as_f64().expect("GiB")).expect("GiB"),
                may_spawn: true,
            }),
        }
    }

    /// Tags and known digests of the registry from which an answer was made. Tags of one
    /// architecture and of other cycles are in no answer, so some are added.
    pub(crate) fn registry(&self, images: &str) -> BTreeMap<String, Option<String>> {
        let answer = self.json(&format!("images/{images}.json"));
        let all = answer["all"].as_array().expect("a list");
        let mut registry: BTreeMap<String, Option<String>> = all
            .iter()
            .map(|image| {
                let tag = image["tag"].as_str().expect("a tag").to_owned();
                (tag, image["digest"].as_str().map(str::to_owned))
            })
            .collect();
        registry.insert("w_2077_43-amd64".to_owned(), None);
        if images == "cycle" {
            registry.insert("w_2078_01_c0049.001".to_owned(), None);
            registry.insert("r99_0_0".to_owned(), None);
        }
        registry
    }

    /// The catalogue of a configuration with the registry of an answer.
    pub(crate) fn catalog(&self, config: &str, images: &str, nodes: &str) -> ImageCatalog {
        let LabsConfig {
            images: config,
            lab,
            ..
        } = self.config(config);
        let nodes = self.nodes(nodes);
        let registry = self.registry(images);
        let catalog = if images.starts_with("gar") {
            let mut listing: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for (tag, digest) in registry {
                let digest = digest.unwrap_or_else(|| "sha256:0a".to_owned());
                listing.entry(digest).or_default().push(tag);
            }
            let listing: Vec<RegistryImage> = listing
                .into_iter()
                .map(|(digest, tags)| RegistryImage { digest, tags })
                .collect();
            ImageCatalog::from_listing(&config, &listing)
        } else {
            let tags: Vec<String> = registry.keys().cloned().collect();
            // Every tag that has to be looked up has its digest in the answer.
            let digests = ImageCatalog::tags_to_look_up(&config, &tags)
                .into_iter()
                .map(|tag| {
                    let digest = registry[&tag].clone();
                    let digest = digest.unwrap_or_else(|| panic!("{tag} is looked up"));
                    (tag, digest)
                });
            ImageCatalog::from_tags(&config, &tags, &digests.collect())
        };
        catalog.with_nodes(&nodes, &lab.node_selector, &lab.tolerations)
    }
}

/// The site of the data.
pub(crate) fn urls() -> SiteUrls {
    SiteUrls {
        base: "http://127.0.0.1:8080".to_owned(),
        discovery: Some("https://example.com/repertoire".to_owned()),
    }
}

/// The controller's own image in the data.
pub(crate) fn helper_image() -> ContainerImage {
    ContainerImage {
        repository: "ghcr.io/lsst-sqre/nublado".to_owned(),
        tag: "11.1.1".to_owned(),
        pull_policy: PullPolicy::IfNotPresent,
    }
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder of the data");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = names
        .map(|name| name.into_string().expect("a name in UTF-8"))
        .collect();
    names.sort();
    names
}

/// The name of a file without its ending.
pub(crate) fn stem(file: &str) -> &str {
    Path::new(file)
        .file_stem()
        .and_then(|stem| stem.to_str())
        .expect("a name")
}
