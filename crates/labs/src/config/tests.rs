//! Tests of the configuration: both forms, and errors with their paths.

use super::*;

const MINIMAL: &str = r"
lab:
  namespacePrefix: userlabs
  sizes:
    - size: small
      resources:
        limits: { cpu: 1.0, memory: 3Gi }
        requests: { cpu: 250m, memory: 0.75Gi }
  volumes:
    - name: home
      source: { type: nfs, server: 10.13.105.122, serverPath: /share1 }
images:
  source: { type: docker, registry: lighthouse.ceres, repository: library/sketchbook }
";

fn with_images(images: &str) -> Result<LabsConfig, LabsConfigError> {
    let (start, _) = MINIMAL.split_once("images:").unwrap();
    LabsConfig::from_yaml(&format!("{start}images:\n{images}"))
}

fn problems(text: &str) -> Vec<String> {
    let error = LabsConfig::from_yaml(text).unwrap_err();
    error.0.iter().map(ToString::to_string).collect()
}

#[test]
fn all_but_a_few_keys_have_defaults() {
    let config = LabsConfig::from_yaml(MINIMAL).unwrap();
    assert_eq!(config.lab.spawn_timeout, Duration::from_secs(600));
    assert_eq!(config.lab.sizes[0].to_string(), "Small (1.0 CPU, 3Gi RAM)");
    assert_eq!(config.images.recommended_tag, "recommended");
    assert_eq!((config.images.releases, config.images.dailies), (1, 3));
    assert_eq!(config.fileserver, None);
    assert_eq!(
        config.lab.home.directory("rachel"),
        concat!("/home", "/rachel")
    );
}

#[test]
fn keys_may_have_underscores() {
    let text = MINIMAL.replace("namespacePrefix", "namespace_prefix");
    assert_eq!(LabsConfig::from_yaml(&text), LabsConfig::from_yaml(MINIMAL));
}

#[test]
fn images_may_be_written_as_in_the_design_document() {
    let config = with_images(
        "  registry: registry.hub.docker.com
  docker:
    repository: lsstsqre/sciplat-lab
  recommendedTag: recommended
  numReleases: 1
  numWeeklies: 2
  numDailies: 3
",
    );
    let images = config.unwrap().images;
    assert_eq!(images.source.registry(), "registry.hub.docker.com");
    assert_eq!(images.source.repository(), "lsstsqre/sciplat-lab");
    let config = with_images(
        "  registry: us-central1-docker.pkg.dev
  gar:
    repository: sciplat
    image: sciplat-lab
    projectId: rubin-shared-services-71ec
    location: us-central1
  pins:
  - w_2022_22
  - w_2022_04
",
    );
    let images = config.unwrap().images;
    assert_eq!(
        images.source.repository(),
        "rubin-shared-services-71ec/sciplat/sciplat-lab"
    );
    assert_eq!(images.pins, ["w_2022_22", "w_2022_04"]);
    let config = with_images(
        "  registry: ts-dockerhub.lsst.org
  docker:
    repository: sal-sciplat-lab
  recommendedTag: recommended_c0026
  numReleases: 0
  numWeeklies: 3
  numDailies: 2
  cycle: 26
  aliasTags:
    - latest
    - latest_daily
    - latest_weekly
",
    );
    let images = config.unwrap().images;
    assert_eq!((images.cycle, images.alias_tags.len()), (Some(26), 3));
}

#[test]
fn unknown_keys_are_named_with_their_paths() {
    let text = MINIMAL
        .replace("cpu: 250m", "cpus: 250m")
        .replace("images:\n", "images:\n  numWeekly: 2\n")
        + "labs: {}\n";
    assert_eq!(
        problems(&text),
        [
            "lab.sizes[0].resources.requests.cpu: is missing",
            "lab.sizes[0].resources.requests.cpus: unknown key; did you mean cpu?",
            "images.numWeekly: unknown key; did you mean numWeeklies?",
            "labs: unknown key; did you mean lab?",
        ]
    );
}

#[test]
fn values_of_the_wrong_kind_are_named() {
    let text = MINIMAL.replace("cpu: 1.0", "cpu: 0.2") + "logLevel: LOUD\nname: 5\n";
    assert_eq!(
        problems(&text),
        [
            "name: expected a text, found 5; put it in quotes",
            "logLevel: expected one of DEBUG, INFO, WARNING, ERROR, CRITICAL, found \"LOUD\"",
            "lab.sizes[0].resources: requests.cpu must be less than or equal to limits.cpu",
        ]
    );
    assert_eq!(problems("lab: 1\nimages: []\n").len(), 2);
    assert!(LabsConfig::from_yaml("a: b: c").is_err());
}

#[test]
fn a_lab_config_is_checked_as_a_whole() {
    let text = MINIMAL.replace(
        "  volumes:\n    - name: home",
        "  defaultSize: huge
  env:
    JUPYTERHUB_URL: x
    DEBUG: x
  files:
    /etc/passwd: x
    /a/b.c: x
    /b/b_c: x
  secrets:
    - { secretName: a, secretKey: token }
  namespaceAnnotations:
    owner: '{{ uid }}-{{ name }}'
  volumeMounts:
    - { containerPath: /scratch, volumeName: scratch }
  affinity:
    nodeAfinity: {}
  tolerations:
    - { operator: Equal, value: x }
  volumes:
    - name: houses",
    );
    let problems = problems(&text);
    for expected in [
        "lab.affinity.nodeAfinity: unknown key; did you mean nodeAffinity?",
        "lab.defaultSize: huge is not among the sizes",
        "lab.env.DEBUG: the controller or the hub sets this variable",
        "lab.env.JUPYTERHUB_URL: the controller or the hub sets this variable",
        "lab.files./etc/passwd: labs use /etc/passwd themselves",
        "lab.files./etc/passwd: there is a volume named passwd; give the file another name",
        "lab.files./b/b_c: another file has this name",
        "lab.secrets: the key \"token\" is reserved for the token of the person",
        "lab.namespaceAnnotations.owner: unknown variable name; there are uid and gid",
        "lab.volumeMounts: unknown volume scratch",
        "lab.volumes: a volume for home directories is needed, named home",
        "lab.tolerations[0].key: is needed with the operator Equal",
    ] {
        assert!(
            problems.contains(&expected.to_owned()),
            "{expected}: {problems:#?}"
        );
    }
    assert_eq!(problems.len(), 12, "{problems:#?}");
}

#[test]
fn the_path_of_file_servers_is_outside_of_the_api() {
    let servers = |path: &str| {
        format!("{MINIMAL}fileserver:\n  enabled: true\n  namespace: files\n  pathPrefix: {path}\n")
    };
    for path in ["/files", "/a/b", "/nublado-files", "/discovery-files"] {
        assert!(LabsConfig::from_yaml(&servers(path)).is_ok(), "{path}");
    }
    for path in [
        "files",
        "/",
        "/files/",
        "/a//b",
        "/{a}",
        "/nublado",
        "/nublado/files",
        "/discovery",
    ] {
        let found = problems(&servers(path));
        assert!(
            found
                .iter()
                .any(|it| it.starts_with("fileserver.pathPrefix: ")),
            "{path}: {found:?}"
        );
    }
}

#[test]
fn the_pod_for_administrators_is_switched_on_by_its_section() {
    let config = LabsConfig::from_yaml(MINIMAL).expect("valid");
    assert!(!config.fsadmin.is_enabled);
    let config = LabsConfig::from_yaml(&format!("{MINIMAL}fsadmin: {{}}\n")).expect("valid");
    assert!(config.fsadmin.is_enabled);
}
