//! `[controller.installations]`: defaults, values and mistakes.

use std::{fs, path::Path, time::Duration};

use ludgate::{
    installs::{controller::settings::InstallationSettings, helm::command::ServerSideApply},
    settings,
};

fn load(
    kubernetes: &str,
    controller: &str,
) -> Result<settings::ControllerSettings, settings::ConfigErrors> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ludgate.toml");
    fs::write(folder.path().join("hosts"), "git.example ssh-ed25519 A\n").expect("written");
    let text = format!("[kubernetes]\n{kubernetes}\n{controller}");
    fs::write(&file, text).expect("written");
    settings::load_controller(&file)
}

fn table(keys: &str) -> Result<settings::ControllerSettings, settings::ConfigErrors> {
    let namespaces = "namespaces = [\"apps\", \"system-apps\"]";
    load(namespaces, &format!("[controller.installations]\n{keys}\n"))
}

fn installations(keys: &str) -> InstallationSettings {
    let loaded = table(keys).unwrap_or_else(|mistakes| panic!("{keys}: {mistakes}"));
    loaded.installations.expect("installations are on")
}

#[test]
fn installations_run_alone_and_have_defaults() {
    let on = load(
        "namespaces = [\"apps\", \"system-apps\"]",
        "[controller]\ninstallations = true\n",
    );
    let on = on.expect("valid");
    assert!(on.applications.is_none() && on.viewers.is_none());
    let on = on.installations.expect("installations are on");
    assert_eq!(on.helm, Path::new("/usr/local/bin/helm"));
    assert_eq!(on.path, "/usr/local/bin:/usr/bin:/bin");
    assert_eq!(on.source.git.path, on.path);
    assert_eq!(
        (on.home_namespace.as_str(), on.cluster_name.as_str()),
        ("apps", "self")
    );
    assert_eq!(on.cluster_role, "admin");
    assert!(!on.all_namespaces && !on.needs_nodes && on.default_namespace.is_none());
    assert_eq!(on.server_side, ServerSideApply::Auto);
    let protected = ["kube-system", "kube-public", "kube-node-lease"];
    assert!(
        protected
            .iter()
            .all(|name| on.protected_namespaces.contains(*name))
    );
    assert!(!on.protected_namespaces.contains("wiki"));
    assert!(!on.source.hosts.plain_http && on.source.known_hosts.is_none());
    assert_eq!(format!("{:?}", installations("")), format!("{on:?}"));
    let off = load("namespace = \"apps\"", "[controller]\nviewers = true\n");
    assert!(off.expect("valid").installations.is_none());
}

#[test]
fn every_key_of_installations_has_its_effect() {
    let all = installations(
        "helm = \"/opt/helm\"\npath = \"/opt\"\nfolder = \"work\"\nall_namespaces = true\n\
         cluster_name = \"hub\"\ndefault_namespace = \"defaults\"\ncluster_role = \"apps\"\n\
         protected_namespaces = [\"monitoring\"]\nwait_for_nodes = true\n\
         server_side_apply = \"client\"\nallowed_hosts = [\"*.example.org\"]\n\
         denied_hosts = [\"old.example.org\"]\nallowed_networks = [\"10.0.0.0/8\"]\n\
         denied_networks = [\"203.0.113.0/24\"]\nplain_http = true\n\
         known_hosts_file = \"hosts\"\ndownload_timeout = \"1m\"\nmax_chart = \"1MiB\"\n\
         max_chart_content = \"2MiB\"\nmax_index = \"3MiB\"\nmax_repository = \"4MiB\"",
    );
    assert_eq!(all.helm, Path::new("/opt/helm"));
    assert_eq!(
        (all.path.as_str(), all.source.git.path.as_str()),
        ("/opt", "/opt")
    );
    assert!(all.work_folder().ends_with("work"));
    assert!(all.all_namespaces && all.needs_nodes);
    assert_eq!(all.cluster_name, "hub");
    assert_eq!(all.default_namespace.as_deref(), Some("defaults"));
    assert_eq!(all.cluster_role, "apps");
    assert!(all.protected_namespaces.iter().eq(["monitoring"]));
    assert_eq!(all.server_side, ServerSideApply::Client);
    let hosts = &all.source.hosts;
    assert_eq!(
        (hosts.allowed_hosts.len(), hosts.denied_hosts.len()),
        (1, 1)
    );
    assert_eq!(
        (hosts.allowed_networks.len(), hosts.denied_networks.len()),
        (1, 1)
    );
    assert!(hosts.plain_http);
    let known_hosts = all.source.known_hosts.as_deref();
    assert_eq!(known_hosts, Some("git.example ssh-ed25519 A\n"));
    let limits = &all.source.limits;
    assert_eq!(limits.deadline, Duration::from_secs(60));
    assert_eq!(
        (limits.packed_bytes, limits.index_bytes),
        (1 << 20, 3 << 20)
    );
    assert_eq!(
        (limits.unpacked_bytes, limits.repository_bytes),
        (2 << 20, 4 << 20)
    );
    let own = installations("default_namespace = \"system-apps\"");
    assert_eq!(own.default_namespace.as_deref(), Some("system-apps"));
}

#[test]
fn a_mistake_names_its_key_and_what_is_wrong() {
    for (keys, key, part) in [
        ("helm = \"helm\"", "helm", "no absolute path"),
        (
            "default_namespace = \"defaults\"",
            "default_namespace",
            "is not watched",
        ),
        (
            "server_side_apply = \"never\"",
            "server_side_apply",
            "is not understood",
        ),
        (
            "known_hosts_file = \"none\"",
            "known_hosts_file",
            "cannot be read",
        ),
        (
            "download_timeout = \"0s\"",
            "download_timeout",
            "longer than nothing",
        ),
        ("colour = \"red\"", "colour", "unknown"),
    ] {
        let mistakes = table(keys).expect_err(keys);
        let [mistake] = mistakes.0.as_slice() else {
            panic!("{keys}: {mistakes}");
        };
        let wanted = format!("controller.installations.{key}");
        assert_eq!(mistake.key, wanted, "{keys}");
        assert!(mistake.what.contains(part), "{keys}: {}", mistake.what);
    }
}
