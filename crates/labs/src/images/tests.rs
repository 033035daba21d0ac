//! Tests of the answers about images and prepulling, as the design document shows them.

use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::{
    config::LabsConfig,
    dialect::Dialect,
    options::{ImageChoice, ImageClass},
};

const CONFIG: &str = r"
lab:
  sizes:
    - size: small
      resources:
        limits: { cpu: 1, memory: 3Gi }
        requests: { cpu: 1, memory: 1Gi }
  volumes:
    - name: home
      source: { type: hostPath, path: /share }
images:
  registry: registry.hub.docker.com
  docker:
    repository: lsstsqre/sciplat-lab
  recommendedTag: recommended
  numReleases: 1
  numWeeklies: 2
  numDailies: 3
  pins:
    - w_2022_04
";

fn catalog() -> (LabsConfig, ImageCatalog) {
    let config = LabsConfig::from_yaml(CONFIG).unwrap();
    let tags = [
        "recommended",
        "w_2022_37",
        "w_2022_36",
        "w_2022_35",
        "w_2022_04",
        "latest",
    ];
    let tags = tags.map(str::to_owned);
    let mut wanted = ImageCatalog::tags_to_look_up(&config.images, &tags);
    wanted.sort();
    assert_eq!(
        wanted,
        ["recommended", "w_2022_04", "w_2022_36", "w_2022_37"]
    );
    let digests: BTreeMap<String, String> = [
        ("recommended", "sha256:37"),
        ("w_2022_37", "sha256:37"),
        ("w_2022_36", "sha256:36"),
        ("w_2022_04", "sha256:04"),
    ]
    .map(|(tag, digest)| (tag.to_owned(), digest.to_owned()))
    .into();
    let node = |name: &str, digests: &[&str], is_tainted: bool| {
        ClusterNode::from_object(&json!({
            "metadata": { "name": name },
            "spec": {
                "taints": if is_tainted {
                    json!([{ "key": "gpu", "effect": "NoSchedule" }])
                } else {
                    json!([])
                },
            },
            "status": {
                "images": digests.iter().map(|digest| json!({
                    "names": [format!("registry.hub.docker.com/lsstsqre/sciplat-lab@{digest}")],
                    "sizeBytes": 1000,
                })).collect::<Vec<_>>(),
            },
        }))
    };
    let nodes = [
        node("node1", &["sha256:37", "sha256:36"], false),
        node("node2", &["sha256:37"], false),
        node("node3", &[], true),
    ];
    let catalog = ImageCatalog::from_tags(&config.images, &tags, &digests);
    let catalog = catalog.with_nodes(&nodes, &BTreeMap::new(), &[]);
    (config, catalog)
}

const PREFIX: &str = "registry.hub.docker.com/lsstsqre/sciplat-lab";

#[test]
fn the_document_has_hyphens_and_nulls_in_its_answer_about_images() {
    let (_, catalog) = catalog();
    let answer = catalog.spawner_images().to_json(Dialect::Sqr066);
    let weekly = json!({
        "reference": format!("{PREFIX}:w_2022_37"),
        "tag": "w_2022_37",
        "aliases": ["recommended"],
        "name": "Weekly 2022_37",
        "digest": "sha256:37",
        "prepulled": true,
    });
    assert_eq!(answer["latest-weekly"], weekly);
    assert_eq!(
        answer["recommended"]["name"],
        "Recommended (Weekly 2022_37)"
    );
    assert_eq!(
        (&answer["latest-daily"], &answer["latest-release"]),
        (&json!(null), &json!(null))
    );
    let all = answer["all"].as_array().unwrap();
    let latest = all.iter().find(|image| image["tag"] == "latest").unwrap();
    assert_eq!(
        (&latest["digest"], &latest["prepulled"]),
        (&json!(null), &json!(false))
    );
    let keys: Vec<&String> = answer.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        [
            "all",
            "latest-daily",
            "latest-release",
            "latest-weekly",
            "recommended"
        ]
    );
}

#[test]
fn the_document_has_the_block_of_the_configuration_in_its_answer_about_prepulling() {
    let (config, catalog) = catalog();
    let answer = catalog
        .prepull_answer()
        .to_json(&config.images, Dialect::Sqr066);
    let expected = json!({
        "config": {
            "registry": "registry.hub.docker.com",
            "docker": { "repository": "lsstsqre/sciplat-lab" },
            "recommended_tag": "recommended",
            "num_releases": 1,
            "num_weeklies": 2,
            "num_dailies": 3,
            "pins": ["w_2022_04"],
        },
        "images": {
            "prepulled": [{
                "reference": format!("{PREFIX}:w_2022_37"),
                "tag": "w_2022_37",
                "name": "Weekly 2022_37",
                "digest": "sha256:37",
                "size": 1000,
                "nodes": ["node1", "node2"],
            }],
            "pending": [
                {
                    "reference": format!("{PREFIX}:w_2022_36"),
                    "tag": "w_2022_36",
                    "name": "Weekly 2022_36",
                    "digest": "sha256:36",
                    "size": 1000,
                    "nodes": ["node1"],
                    "missing": ["node2"],
                },
                {
                    "reference": format!("{PREFIX}:w_2022_04"),
                    "tag": "w_2022_04",
                    "name": "Weekly 2022_04",
                    "digest": "sha256:04",
                    "nodes": [],
                    "missing": ["node1", "node2"],
                },
            ],
        },
        "nodes": [
            {
                "name": "node1",
                "eligible": true,
                "cached": [format!("{PREFIX}:w_2022_37"), format!("{PREFIX}:w_2022_36")],
            },
            { "name": "node2", "eligible": true, "cached": [format!("{PREFIX}:w_2022_37")] },
            {
                "name": "node3",
                "eligible": false,
                "comment": "Node is tainted (NoSchedule, gpu)",
                "cached": [],
            },
        ],
    });
    assert_eq!(answer, expected);
}

#[test]
fn images_are_only_pulled_to_nodes_on_which_labs_can_run() {
    let (_, catalog) = catalog();
    let plan = catalog.prepull_plan();
    let tasks: Vec<(&str, &str)> = plan
        .iter()
        .map(|task| (task.node.as_str(), task.image.tag.tag.as_str()))
        .collect();
    let expected = [
        ("node1", "w_2022_04"),
        ("node2", "w_2022_36"),
        ("node2", "w_2022_04"),
    ];
    assert_eq!(tasks, expected);
}

#[test]
fn a_choice_leads_to_an_image_or_to_a_tag_to_look_up() {
    let (_, catalog) = catalog();
    let resolve = |choice: ImageChoice| catalog.resolve(&choice, Dialect::Sqr066);
    let tag_of = |choice: ImageChoice| match resolve(choice).unwrap() {
        ImageResolution::Image(image) => image.pinned_reference(),
        ImageResolution::NeedsDigest(image) => format!("? {}", image.tag()),
    };
    let weekly = format!("{PREFIX}:w_2022_37@sha256:37");
    let reference = |text: &str| ImageChoice::List(format!("{PREFIX}{text}"));
    assert_eq!(tag_of(ImageChoice::Class(ImageClass::LatestWeekly)), weekly);
    // The image itself, not the name that it was chosen by.
    assert_eq!(tag_of(reference(":recommended@sha256:37")), weekly);
    assert_eq!(tag_of(reference("@sha256:37")), weekly);
    assert_eq!(tag_of(reference(":latest")), "? latest");
    let latest = format!("{PREFIX}:latest@sha256:99");
    assert_eq!(tag_of(reference(":latest@sha256:99")), latest);
    for (choice, status) in [
        (ImageChoice::Class(ImageClass::LatestDaily), 400),
        (ImageChoice::Tag("w_2022_99".to_owned()), 400),
        (
            ImageChoice::List("evil.example/lsstsqre/sciplat-lab:w_2022_37".to_owned()),
            400,
        ),
        (reference(""), 422),
        (reference(":w 1"), 422),
    ] {
        assert_eq!(
            resolve(choice.clone()).unwrap_err().status(),
            status,
            "{choice:?}"
        );
    }
    let error = resolve(ImageChoice::Class(ImageClass::LatestDaily)).unwrap_err();
    assert_eq!(
        error.body()["detail"][0]["loc"],
        json!(["body", "options", "image_type"])
    );
}

#[test]
fn a_tag_that_a_registry_lists_twice_has_one_image() {
    let config = LabsConfig::from_yaml(CONFIG).unwrap();
    let image = |digest: &str| RegistryImage {
        digest: digest.to_owned(),
        tags: vec!["w_2022_37".to_owned()],
    };
    let listing = [image("sha256:1"), image("sha256:2")];
    let catalog = ImageCatalog::from_listing(&config.images, &listing);
    assert_eq!(catalog.spawner_images().all.len(), 1);
}
