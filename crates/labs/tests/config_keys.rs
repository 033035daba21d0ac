//! Every key of the configuration has its effect, and a key that there is not is named.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test's helper fails the test"
)]

use std::time::Duration;

use chrono::{TimeDelta, TimeZone, Utc};
use ludgate_labs::{
    config::{EmptyDirMedium, ImageSource, LabsConfig, PullPolicy, VolumeSource},
    images::ImageFilter,
    size::LabSize,
    tag::TagVersion,
};
use serde_json::json;

/// All keys, each with a value that is not its default.
const ALL: &str = include_str!("config_keys.yaml");

fn read(text: &str) -> LabsConfig {
    LabsConfig::from_yaml(text).unwrap_or_else(|error| panic!("{error}"))
}

fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

#[test]
fn keys_of_the_service_are_honoured() {
    let config = read(ALL);
    assert_eq!(config.base_url, "https://stars.example.com");
    assert_eq!(config.name, "Stars");
    assert_eq!(config.path_prefix, "/stars/labs");
    assert!(config.log_debug);
    assert_eq!(config.watch_reconnect, minutes(4));
    let filter = &config.dropdown_menu;
    let version = TagVersion {
        major: 28,
        minor: 0,
        patch: 1,
        candidate: None,
    };
    let release = ImageFilter {
        number: Some(5),
        cutoff_build: Some(2600),
        cutoff_version: Some(version),
        ..ImageFilter::default()
    };
    assert_eq!(filter.release, release);
    assert_eq!(filter.weekly.age, Some(TimeDelta::weeks(78)));
    let day = Utc.with_ymd_and_hms(2025, 2, 7, 0, 0, 0).single();
    assert_eq!(filter.daily.cutoff_date, day);
    assert_eq!(filter.release_candidate.number, Some(1));
    assert_eq!(filter.experimental.age, Some(TimeDelta::days(30)));
}

#[test]
fn keys_of_images_are_honoured() {
    let images = read(ALL).images;
    let source = ImageSource::Docker {
        registry: "registry.example.com:5000".to_owned(),
        repository: "stars/lab".to_owned(),
    };
    assert_eq!(images.source, source);
    assert_eq!(images.refresh_interval, minutes(7));
    assert_eq!(images.prepull_timeout, minutes(25));
    assert_eq!(images.recommended_tag, "recommended_c0031");
    assert_eq!(
        (images.releases, images.weeklies, images.dailies),
        (2, 4, 0)
    );
    assert_eq!(images.cycle, Some(31));
    assert_eq!(images.pins, ["w_2024_42"]);
    assert_eq!(images.alias_tags, ["latest", "latest_c0031"]);
    let path = "/etc/secrets/docker.json";
    assert_eq!(images.credentials_path.as_deref(), Some(path));
    // Older versions have the path with the source.
    let text = ALL.replace(&format!("  dockerCredentialsPath: {path}\n"), "");
    let repository = "    repository: stars/lab\n";
    let older = format!("{repository}    credentialsPath: /etc/older.json\n");
    let images = read(&text.replace(repository, &older)).images;
    assert_eq!(images.credentials_path.as_deref(), Some("/etc/older.json"));
}

#[test]
fn keys_of_labs_are_honoured() {
    let lab = read(ALL).lab;
    assert_eq!(lab.activity_interval, minutes(120));
    assert_eq!(lab.application.as_deref(), Some("stars-labs"));
    assert_eq!(lab.default_size, Some(LabSize::Medium));
    assert_eq!(lab.delete_timeout, Duration::from_secs(90));
    assert_eq!(lab.empty_dir, EmptyDirMedium::Disk);
    assert_eq!(lab.env["HUB_ROUTE"], "/stars/hub");
    assert_eq!(
        lab.env["LSST_RESOURCES_S3_PROFILE_embargo"],
        "https://s3.example.com"
    );
    assert_eq!(
        lab.extra_annotations["k8s.v1.cni.cncf.io/networks"],
        "kube-system/dds"
    );
    let paths: Vec<&str> = lab.files.iter().map(|(path, _)| path.as_str()).collect();
    let client = "/opt/lsst/software/jupyterlab/panda/idds.cfg.client.template";
    assert_eq!(
        paths,
        [client, "/opt/lsst/software/jupyterlab/lsst_dask.yml"]
    );
    assert_eq!(lab.files[0].1, "[common]\nloglevel = INFO\n");
    assert_eq!(lab.home.directory("rachel"), "/sdf/homes/r/rachel/jhome");
    assert_eq!(lab.home.volume, "sdf-home");
    assert_eq!(lab.jupyterlab_config_dir, "/usr/local/share/jupyterlab");
    assert_eq!(lab.start_command, ["/usr/local/bin/runlab", "--quiet"]);
    assert_eq!(
        lab.namespace_annotations["example.com/owner"],
        "{{ uid }}:{{ gid }}"
    );
    assert_eq!(lab.namespace_prefix.as_deref(), Some("stars"));
    assert_eq!(
        lab.node_selector["edu.stanford.slac.sdf.project/rubin"],
        "true"
    );
    assert_eq!(lab.name_service.passwd, "root:x:0:0::/root:/bin/sh\n");
    assert_eq!(lab.name_service.group, "root:x:0:\nusers:x:4085:\n");
    assert_eq!(lab.pull_secret.as_deref(), Some("pull-secret"));
    assert_eq!(lab.reconcile_interval, minutes(6));
    assert_eq!(lab.runtime_dir, "/opt/lsst/software/jupyterlab");
    assert_eq!(lab.spawn_timeout, Duration::from_secs(450));
    assert!(lab.standard_inithome);
    let [credentials, kafka] = lab.secrets.as_slice() else {
        panic!("two secrets: {:?}", lab.secrets);
    };
    assert_eq!(credentials.secret, "nublado-lab-secret");
    assert_eq!(credentials.key, "aws-credentials.ini");
    assert_eq!((&credentials.variable, &credentials.path), (&None, &None));
    assert_eq!(kafka.variable.as_deref(), Some("KAFKA_PASSWORD"));
    assert_eq!(kafka.path.as_deref(), Some("/etc/kafka/password"));
    let sizes: Vec<String> = lab.sizes.iter().map(ToString::to_string).collect();
    assert_eq!(
        sizes,
        [
            "Fine (0.5 CPU, 512Mi RAM)",
            "Medium (2.0 CPU, 7.45058Gi RAM)",
            "Colossal (16.0 CPU, 64Gi RAM)"
        ]
    );
}

#[test]
fn containers_before_labs_and_tolerations_are_honoured() {
    let lab = read(ALL).lab;
    let [network, user] = lab.init_containers.as_slice() else {
        panic!("two containers: {:?}", lab.init_containers);
    };
    assert_eq!(
        (network.name.as_str(), network.is_privileged),
        ("multus-init", true)
    );
    assert_eq!(network.image.repository, "docker.io/example/net");
    assert_eq!(network.image.tag, "1.4.2");
    assert_eq!(network.image.pull_policy, PullPolicy::Always);
    assert_eq!(
        network.command.as_deref(),
        Some(["init".to_owned()].as_slice())
    );
    assert!(network.volume_mounts.is_empty());
    assert_eq!((user.is_privileged, &user.command), (false, &None));
    assert_eq!(user.volume_mounts[0].path, "/home");
    let tolerations: Vec<_> = lab.tolerations.iter().map(|one| one.to_object()).collect();
    let expected = json!([
        { "operator": "Exists" },
        { "operator": "Equal", "key": "pool", "value": "labs", "effect": "NoExecute" },
        { "operator": "Exists", "key": "gpu", "effect": "NoSchedule", "tolerationSeconds": 60 },
    ]);
    assert_eq!(json!(tolerations), expected);
}

#[test]
fn volumes_of_every_source_are_honoured() {
    let lab = read(ALL).lab;
    let [home, project, data, scratch] = lab.volumes.as_slice() else {
        panic!("four volumes: {:?}", lab.volumes);
    };
    let VolumeSource::Claim {
        template,
        read_only,
    } = &home.source
    else {
        panic!("{home:?}");
    };
    assert!(!read_only);
    assert_eq!(template.storage_class, "sdf-home");
    assert_eq!(template.access_modes, ["ReadWriteMany", "ReadOnlyMany"]);
    assert_eq!(template.requests["storage"], "1Gi");
    let nfs = VolumeSource::Nfs {
        server: "nfs1.example.com".to_owned(),
        path: "/share1/project".to_owned(),
        read_only: true,
    };
    assert_eq!(project.source, nfs);
    assert_eq!(data.source, VolumeSource::HostPath("/data".to_owned()));
    assert!(matches!(
        scratch.source,
        VolumeSource::Claim {
            read_only: true,
            ..
        }
    ));
    let mounts: Vec<_> = lab
        .volume_mounts
        .iter()
        .map(|mount| (mount.path.as_str(), mount.volume.as_str(), mount.read_only))
        .collect();
    let expected = [
        ("/sdf/home", "sdf-home", false),
        ("/project", "project", true),
        ("/sdf/data", "data", false),
        ("/scratch", "scratch", false),
    ];
    assert_eq!(mounts, expected);
    assert_eq!(lab.volume_mounts[1].sub_path.as_deref(), Some("g"));
}

#[test]
fn affinity_has_the_keys_of_kubernetes_however_it_is_written() {
    let lab = read(ALL).lab;
    let expected = json!({
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{
                    "matchExpressions": [
                        { "key": "zone", "operator": "In", "values": ["a", "b"] },
                        { "key": "ssd", "operator": "Exists", "values": [] },
                    ],
                    "matchFields": [
                        { "key": "metadata.name", "operator": "NotIn", "values": ["node1"] },
                    ],
                }],
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [{
                "weight": 5,
                "preference": {
                    "matchExpressions": [
                        { "key": "memory", "operator": "Gt", "values": ["64"] },
                    ],
                },
            }],
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{
                "labelSelector": { "matchLabels": { "app": "noise" } },
                "namespaceSelector": {},
                "namespaces": ["other"],
                "topologyKey": "kubernetes.io/hostname",
            }],
        },
    });
    assert_eq!(lab.affinity, Some(expected));
    let empty = ALL.split_once("  affinity:\n").expect("an affinity").0;
    let rest = ALL
        .split_once("  application: stars-labs\n")
        .expect("more")
        .1;
    assert_eq!(
        read(&format!("{empty}  affinity: {{}}\n{rest}"))
            .lab
            .affinity,
        Some(json!({}))
    );
}

#[test]
fn keys_of_file_servers_and_their_administration_are_honoured() {
    let config = read(ALL);
    let servers = config.fileserver.expect("file servers");
    assert_eq!(servers.path_prefix, "/webdav");
    assert_eq!(servers.namespace, "fileservers");
    assert_eq!(servers.application.as_deref(), Some("stars-files"));
    assert_eq!(servers.creation_timeout, minutes(3));
    assert_eq!(servers.delete_timeout, minutes(2));
    assert_eq!(servers.idle_timeout, minutes(24 * 60));
    assert_eq!(servers.reconcile_interval, minutes(30));
    assert_eq!(servers.affinity, Some(json!({})));
    assert_eq!(servers.extra_annotations["some"], "value");
    assert_eq!(servers.node_selector["disktype"], "ssd");
    let resources = servers.resources.expect("resources");
    assert_eq!(resources.requests.cpu.cores(), 0.1);
    assert_eq!(servers.tolerations.len(), 1);
    assert_eq!(servers.volume_mounts[0].volume, "project");
    let admin = config.fsadmin;
    assert_eq!(admin.pod_name, "admin");
    assert_eq!(admin.mount_prefix, "/mnt/all");
    assert_eq!(admin.timeout, minutes(5));
    assert_eq!(admin.affinity, Some(json!({})));
    assert_eq!(admin.extra_annotations["some"], "value");
    assert_eq!(admin.extra_volumes[0].name, "firefly");
    assert_eq!(admin.extra_volume_mounts[0].path, "/firefly");
    assert_eq!(admin.node_selector["disktype"], "ssd");
    assert_eq!(admin.resources.expect("resources").limits.cpu.cores(), 1.0);
    assert_eq!(admin.tolerations.len(), 1);
}

/// Each section of the document, by a line of it.
#[test]
fn an_unknown_key_of_any_section_is_named_with_its_path() {
    let mut sections = 0;
    let lines: Vec<&str> = ALL.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let Some(path) = line.split_once("# section ").map(|(_, path)| path) else {
            continue;
        };
        let indent = line.len() - line.trim_start().len();
        let unknown = format!("{}madeUpKey: 1", " ".repeat(indent));
        let mut text = lines.clone();
        text.insert(at, &unknown);
        let error = LabsConfig::from_yaml(&text.join("\n")).expect_err(path);
        let path = match path {
            "-" => "madeUpKey".to_owned(),
            path => format!("{path}.madeUpKey"),
        };
        assert_eq!(error.to_string(), format!("{path}: unknown key"));
        sections += 1;
    }
    assert_eq!(sections, 34);
}

#[test]
fn keys_with_underscores_and_nulls_are_read_as_well() {
    let snake = |line: &str| {
        let Some((key, value)) = line.split_once(':') else {
            return line.to_owned();
        };
        let is_key = key.trim().trim_start_matches("- ").chars().all(|letter| {
            // Names of variables, labels and folders are none of the configuration's keys.
            letter.is_ascii_alphabetic()
        });
        let is_own = is_key
            && key
                .trim_start_matches([' ', '-'])
                .starts_with(char::is_lowercase);
        if !is_own {
            return line.to_owned();
        }
        let key: String = key
            .chars()
            .flat_map(|letter| {
                let underscore = letter.is_ascii_uppercase().then_some('_');
                underscore.into_iter().chain([letter.to_ascii_lowercase()])
            })
            .collect();
        format!("{key}:{value}")
    };
    let text: Vec<String> = ALL.lines().map(snake).collect();
    let text = text.join("\n");
    assert!(text.contains("num_releases: 2") && text.contains("match_expressions:"));
    assert_eq!(read(&text), read(ALL));
    let cycle = "  cycle: 31\n";
    assert_eq!(
        read(&ALL.replace(cycle, "  cycle: null\n")).images.cycle,
        None
    );
}

#[test]
fn what_only_nublado_needs_is_accepted_and_values_are_checked() {
    for (from, to) in [
        ("logLevel: debug", "logLevel: WARNING"),
        ("logProfile: production", "logProfile: development"),
        ("  emptyDirSource: disk", "  tmpSource: disk"),
        ("  enabled: true", "  enabled: false"),
    ] {
        assert!(ALL.contains(from), "{from}");
        read(&ALL.replace(from, to));
    }
    for (from, to, expected) in [
        (
            "path: /data",
            "path: data",
            "lab.volumes[2].source.path: must be an absolute path",
        ),
        (
            "type: hostPath",
            "type: ceph",
            "lab.volumes[2].source.type: expected one of",
        ),
        (
            "- ReadWriteMany",
            "- ReadMany",
            "lab.volumes[0].source.accessModes[0]: expected",
        ),
        (
            "volumeName: data",
            "volumeName: dat",
            "lab.volumeMounts: unknown volume dat",
        ),
        (
            "homedirPrefix: /sdf/homes/",
            "homedirPrefix: /",
            "lab.homedirPrefix: must be an",
        ),
        (
            "defaultSize: medium",
            "defaultSize: huge",
            "lab.defaultSize: huge is not among",
        ),
        (
            "size: fine",
            "size: custom",
            "lab.sizes[0].size: expected one of fine",
        ),
        (
            "spawnTimeout: 450",
            "spawnTimeout: soon",
            "lab.spawnTimeout: expected a duration",
        ),
        (
            "numWeeklies: 4",
            "numWeeklies: -4",
            "images.numWeeklies: expected a whole number",
        ),
        (
            "cutoffDate: 2025-02-07",
            "cutoffDate: today",
            "dropdownMenu.daily.cutoffDate: ",
        ),
        (
            "    HUB_ROUTE: ",
            "    JUPYTERHUB_X: ",
            "lab.env.JUPYTERHUB_X: the controller",
        ),
    ] {
        assert!(ALL.contains(from), "{from}");
        let error = LabsConfig::from_yaml(&ALL.replacen(from, to, 1)).expect_err(to);
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}
