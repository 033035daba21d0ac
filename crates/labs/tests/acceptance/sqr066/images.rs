//! The three configurations of images, and what is answered about images and prepulling.

use std::collections::BTreeMap;

use ludgate_labs::{
    dialect::Dialect,
    images::{ImageCatalog, RegistryImage},
};
use serde_json::{Value, json};

use super::{config, node, parsed, site};
use crate::{
    memory::Site,
    routes::{TestRoutes, wait_for},
};

/// Google Artifact Registry, and tags that are always pulled.
const GOOGLE: &str = "  registry: europe-west1-docker.pkg.dev
  gar:
    repository: labs
    image: lab
    projectId: stars-1234
    location: europe-west1
  recommendedTag: recommended
  numReleases: 1
  numWeeklies: 2
  numDailies: 3
  pins:
  - w_2024_02
  - w_2024_01
";

/// Images of one cycle.
const CYCLE: &str = "  registry: registry.summit.example
  docker:
    repository: telescope-lab
  recommendedTag: recommended_c0031
  numReleases: 0
  numWeeklies: 3
  numDailies: 2
  cycle: 31
  aliasTags:
    - latest
    - latest_daily
    - latest_weekly
";

/// What the hub, which has no headers here, is answered.
fn answer(site: &Site, path: &str) -> Value {
    let routes = TestRoutes::new(site, &[], true);
    wait_for(async {
        let answer = routes.get(path, "").await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.headers["content-type"], "application/json");
        answer.json()
    })
}

const IMAGES: &str = r#"{
    "recommended": {
        "reference": "registry.example.com/people/lab:recommended",
        "tag": "recommended",
        "aliases": ["w_2024_09"],
        "name": "Recommended (Weekly 2024_09)",
        "digest": "sha256:09",
        "prepulled": true
    },
    "latest-weekly": {
        "reference": "registry.example.com/people/lab:w_2024_10",
        "tag": "w_2024_10",
        "aliases": [],
        "name": "Weekly 2024_10",
        "digest": "sha256:10",
        "prepulled": false
    },
    "latest-daily": {
        "reference": "registry.example.com/people/lab:d_2024_03_08",
        "tag": "d_2024_03_08",
        "aliases": [],
        "name": "Daily 2024_03_08",
        "digest": "sha256:d8",
        "prepulled": false
    },
    "latest-release": {
        "reference": "registry.example.com/people/lab:r24_0_0",
        "tag": "r24_0_0",
        "aliases": [],
        "name": "Release r24.0.0",
        "digest": "sha256:24",
        "prepulled": true
    },
    "all": [
        {
            "reference": "registry.example.com/people/lab:recommended",
            "tag": "recommended",
            "aliases": ["w_2024_09"],
            "name": "Recommended (Weekly 2024_09)",
            "digest": "sha256:09",
            "prepulled": true
        },
        {
            "reference": "registry.example.com/people/lab:r24_0_0",
            "tag": "r24_0_0",
            "aliases": [],
            "name": "Release r24.0.0",
            "digest": "sha256:24",
            "prepulled": true
        },
        {
            "reference": "registry.example.com/people/lab:w_2024_10",
            "tag": "w_2024_10",
            "aliases": [],
            "name": "Weekly 2024_10",
            "digest": "sha256:10",
            "prepulled": false
        },
        {
            "reference": "registry.example.com/people/lab:w_2024_09",
            "tag": "w_2024_09",
            "aliases": ["recommended"],
            "name": "Weekly 2024_09",
            "digest": "sha256:09",
            "prepulled": true
        },
        {
            "reference": "registry.example.com/people/lab:w_2024_08",
            "tag": "w_2024_08",
            "aliases": [],
            "name": "Weekly 2024_08",
            "digest": null,
            "prepulled": false
        },
        {
            "reference": "registry.example.com/people/lab:d_2024_03_08",
            "tag": "d_2024_03_08",
            "aliases": [],
            "name": "Daily 2024_03_08",
            "digest": "sha256:d8",
            "prepulled": false
        },
        {
            "reference": "registry.example.com/people/lab:exp_w_2024_07_new",
            "tag": "exp_w_2024_07_new",
            "aliases": [],
            "name": "Experimental Weekly 2024_07 [new]",
            "digest": null,
            "prepulled": false
        }
    ]
}"#;

const PREPULLS: &str = r#"{
    "config": {
        "registry": "registry.example.com",
        "docker": { "repository": "people/lab" },
        "recommended_tag": "recommended",
        "num_releases": 1,
        "num_weeklies": 2,
        "num_dailies": 3
    },
    "images": {
        "prepulled": [
            {
                "reference": "registry.example.com/people/lab:r24_0_0",
                "tag": "r24_0_0",
                "name": "Release r24.0.0",
                "digest": "sha256:24",
                "size": 700,
                "nodes": ["node-a", "node-b"]
            },
            {
                "reference": "registry.example.com/people/lab:w_2024_09",
                "tag": "w_2024_09",
                "name": "Weekly 2024_09",
                "digest": "sha256:09",
                "size": 700,
                "nodes": ["node-a", "node-b", "node-c"]
            }
        ],
        "pending": [
            {
                "reference": "registry.example.com/people/lab:w_2024_10",
                "tag": "w_2024_10",
                "name": "Weekly 2024_10",
                "digest": "sha256:10",
                "size": 700,
                "nodes": ["node-a"],
                "missing": ["node-b"]
            },
            {
                "reference": "registry.example.com/people/lab:d_2024_03_08",
                "tag": "d_2024_03_08",
                "name": "Daily 2024_03_08",
                "digest": "sha256:d8",
                "size": 700,
                "nodes": ["node-a"],
                "missing": ["node-b"]
            }
        ]
    },
    "nodes": [
        {
            "name": "node-a",
            "eligible": true,
            "cached": [
                "registry.example.com/people/lab:r24_0_0",
                "registry.example.com/people/lab:w_2024_10",
                "registry.example.com/people/lab:w_2024_09",
                "registry.example.com/people/lab:d_2024_03_08"
            ]
        },
        {
            "name": "node-b",
            "eligible": true,
            "cached": [
                "registry.example.com/people/lab:r24_0_0",
                "registry.example.com/people/lab:w_2024_09"
            ]
        },
        {
            "name": "node-c",
            "eligible": false,
            "comment": "Node is tainted (NoSchedule, gpu = a100)",
            "cached": ["registry.example.com/people/lab:w_2024_09"]
        }
    ]
}"#;

#[test]
fn images_have_their_class_their_aliases_and_whether_they_are_prepulled() {
    assert_eq!(answer(&site(), "images"), parsed(IMAGES));
}

#[test]
fn prepulling_has_its_configuration_its_images_and_its_nodes() {
    assert_eq!(answer(&site(), "prepulls"), parsed(PREPULLS));
}

#[test]
fn a_registry_of_google_has_pins() {
    let config = config(GOOGLE);
    let image = |digest: &str, tags: &[&str]| RegistryImage {
        digest: digest.to_owned(),
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
    };
    let listing = [
        image("sha256:10", &["w_2024_10", "recommended"]),
        image("sha256:09", &["w_2024_09"]),
        image("sha256:08", &["w_2024_08"]),
        image("sha256:02", &["w_2024_02"]),
    ];
    let catalog = ImageCatalog::from_listing(&config.images, &listing);
    let path = "europe-west1-docker.pkg.dev/stars-1234/labs/lab";
    let nodes = [node("node-a", path, &["sha256:09"])];
    let catalog = catalog.with_nodes(&nodes, &BTreeMap::new(), &[]);
    let site = Site {
        config: config.into(),
        catalog: catalog.into(),
        dialect: Dialect::Sqr066,
    };
    let pending = |tag: &str, name: &str, digest: &str| {
        json!({
            "reference": format!("{path}:{tag}"),
            "tag": tag,
            "name": name,
            "digest": digest,
            "nodes": [],
            "missing": ["node-a"],
        })
    };
    let expected = json!({
        "config": {
            "registry": "europe-west1-docker.pkg.dev",
            "gar": {
                "repository": "labs",
                "image": "lab",
                "project_id": "stars-1234",
                "location": "europe-west1",
            },
            "recommended_tag": "recommended",
            "num_releases": 1,
            "num_weeklies": 2,
            "num_dailies": 3,
            "pins": ["w_2024_02", "w_2024_01"],
        },
        "images": {
            "prepulled": [{
                "reference": format!("{path}:w_2024_09"),
                "tag": "w_2024_09",
                "name": "Weekly 2024_09",
                "digest": "sha256:09",
                "size": 700,
                "nodes": ["node-a"],
            }],
            "pending": [
                pending("w_2024_10", "Weekly 2024_10", "sha256:10"),
                pending("w_2024_02", "Weekly 2024_02", "sha256:02"),
            ],
        },
        "nodes": [{
            "name": "node-a",
            "eligible": true,
            "cached": [format!("{path}:w_2024_09")],
        }],
    });
    assert_eq!(answer(&site, "prepulls"), expected);
    let images = answer(&site, "images");
    assert_eq!(images["recommended"]["aliases"], json!(["w_2024_10"]));
    assert_eq!(images["latest-daily"], json!(null));
}

#[test]
fn a_cycle_limits_the_images() {
    let config = config(CYCLE);
    let digests = [
        ("recommended_c0031", "sha256:a1"),
        ("w_2024_10_c0031.002", "sha256:a1"),
        ("w_2024_09_c0031.001", "sha256:a2"),
        ("d_2024_03_08_c0031.001", "sha256:a3"),
    ];
    let digests: BTreeMap<String, String> = digests
        .map(|(tag, digest)| (tag.to_owned(), digest.to_owned()))
        .into();
    let of_others = ["w_2024_10_c0030.001", "latest", "w_2024_11"];
    let tags = digests.keys().cloned();
    let tags: Vec<String> = tags.chain(of_others.map(str::to_owned)).collect();
    let catalog = ImageCatalog::from_tags(&config.images, &tags, &digests);
    let path = "registry.summit.example/telescope-lab";
    let nodes = [node("node-a", path, &["sha256:a1"])];
    let catalog = catalog.with_nodes(&nodes, &BTreeMap::new(), &[]);
    let site = Site {
        config: config.into(),
        catalog: catalog.into(),
        dialect: Dialect::Sqr066,
    };
    let prepulls = answer(&site, "prepulls");
    let block = json!({
        "registry": "registry.summit.example",
        "docker": { "repository": "telescope-lab" },
        "recommended_tag": "recommended_c0031",
        "num_releases": 0,
        "num_weeklies": 3,
        "num_dailies": 2,
        "cycle": 31,
        "alias_tags": ["latest", "latest_daily", "latest_weekly"],
    });
    assert_eq!(prepulls["config"], block);
    let names = |list: &Value| -> Vec<String> {
        let list = list.as_array().expect("a list").iter();
        list.map(|image| image["name"].as_str().expect("a name").to_owned())
            .collect()
    };
    assert_eq!(
        names(&prepulls["images"]["prepulled"]),
        ["Weekly 2024_10 (SAL Cycle 0031, Build 002)"]
    );
    assert_eq!(
        names(&prepulls["images"]["pending"]),
        [
            "Weekly 2024_09 (SAL Cycle 0031, Build 001)",
            "Daily 2024_03_08 (SAL Cycle 0031, Build 001)"
        ]
    );
    let images = answer(&site, "images");
    assert_eq!(
        names(&images["all"]),
        [
            "Recommended (Weekly 2024_10, SAL Cycle 0031, Build 002)",
            "Weekly 2024_10 (SAL Cycle 0031, Build 002)",
            "Weekly 2024_09 (SAL Cycle 0031, Build 001)",
            "Daily 2024_03_08 (SAL Cycle 0031, Build 001)"
        ]
    );
    assert_eq!(images["latest-release"], json!(null));
}
