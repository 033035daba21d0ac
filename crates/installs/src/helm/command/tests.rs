//! Command lines, word by word.

use super::*;

const V3: HelmVersion = HelmVersion::new(3, 18, 0);
const V4: HelmVersion = HelmVersion::new(4, 3, 0);
const RELEASE: ReleaseName<'_> = ReleaseName {
    namespace: "target",
    name: "apps-app.1",
};

fn line(arguments: Vec<OsString>) -> String {
    let words = arguments.iter().map(|word| word.to_str().expect("UTF-8"));
    words.collect::<Vec<_>>().join(" ")
}

fn upgrade_line(version: HelmVersion, options: &UpgradeOptions) -> String {
    let (chart, values) = (Path::new("/c/x.tgz"), Path::new("/t/values.yaml"));
    line(upgrade(version, RELEASE, chart, values, options))
}

/// What stands behind the words that all upgrades have.
fn options_of(version: HelmVersion, options: &UpgradeOptions) -> String {
    let whole = upgrade_line(version, options);
    let common = "upgrade apps-app.1 /c/x.tgz --install --namespace target --values \
                  /t/values.yaml --reset-values --history-max 1 --timeout ";
    let rest = whole.strip_prefix(common);
    rest.unwrap_or_else(|| panic!("{whole}")).to_owned()
}

#[test]
fn each_option_of_an_upgrade_has_the_flag_of_its_version() {
    let set = |change: fn(&mut UpgradeOptions)| {
        let mut options = UpgradeOptions::default();
        change(&mut options);
        options
    };
    for (options, v3, v4) in [
        (set(|_| {}), "300s", "300s --server-side=auto"),
        (
            set(|it| it.wait = true),
            "300s --wait",
            "300s --wait=watcher --server-side=auto",
        ),
        (
            set(|it| {
                it.wait = true;
                it.wait_for_jobs = true;
            }),
            "300s --wait --wait-for-jobs",
            "300s --wait=watcher --wait-for-jobs --server-side=auto",
        ),
        (
            set(|it| it.atomic = true),
            "300s --wait --atomic",
            "300s --wait=watcher --rollback-on-failure --server-side=auto",
        ),
        (
            set(|it| it.timeout = Duration::from_nanos(5)),
            "1s",
            "1s --server-side=auto",
        ),
        (
            set(|it| it.timeout = Duration::from_millis(61_001)),
            "62s",
            "62s --server-side=auto",
        ),
        (
            set(|it| it.enable_dns = true),
            "300s --enable-dns",
            "300s --enable-dns --server-side=auto",
        ),
        (
            set(|it| it.take_ownership = true),
            "300s --take-ownership",
            "300s --take-ownership --server-side=auto",
        ),
        (
            set(|it| it.server_side = ServerSideApply::Server),
            "300s",
            "300s --server-side=true",
        ),
        (
            set(|it| it.server_side = ServerSideApply::Client),
            "300s",
            "300s --server-side=false",
        ),
        (
            set(|it| {
                let labels = [("ludgate.dev/owner", "u-1"), ("a", "b")];
                it.labels = labels
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .into();
            }),
            "300s --labels=a=b,ludgate.dev/owner=u-1",
            "300s --server-side=auto --labels=a=b,ludgate.dev/owner=u-1",
        ),
        (
            set(|it| it.description = Some("--x".to_owned())),
            "300s --description=--x",
            "300s --server-side=auto --description=--x",
        ),
    ] {
        assert_eq!(options_of(V3, &options), v3, "{options:?}");
        assert_eq!(options_of(V4, &options), v4, "{options:?}");
    }
    let kept = set(|it| it.history_max = 7);
    assert!(upgrade_line(V4, &kept).contains(" --history-max 7 "));
}

#[test]
fn the_other_commands_are_the_same_but_for_three_flags() {
    let minute = Duration::from_secs(60);
    let both = |build: &dyn Fn(HelmVersion) -> Vec<OsString>| [line(build(V3)), line(build(V4))];
    let same = |text: &str| [text.to_owned(), text.to_owned()];
    for (built, expected) in [
        (
            both(&|_| rollback(RELEASE, 2, minute)),
            same("rollback apps-app.1 2 --namespace target --timeout 60s"),
        ),
        (
            both(&|version| uninstall(version, RELEASE, minute, false)),
            same("uninstall apps-app.1 --namespace target --ignore-not-found --timeout 60s"),
        ),
        (
            both(&|version| uninstall(version, RELEASE, minute, true)),
            ["--wait", "--wait=watcher"].map(|wait| {
                format!(
                    "uninstall apps-app.1 --namespace target --ignore-not-found --timeout 60s \
                     {wait} --cascade foreground"
                )
            }),
        ),
        (
            both(&|_| version()),
            same("version --template {{.Version}}"),
        ),
    ] {
        assert_eq!(built, expected);
    }
}

#[test]
fn names_that_could_be_flags_or_paths_are_not_valid() {
    let long = "a".repeat(54);
    for (namespace, name, is_valid) in [
        ("target", "a", true),
        ("0-a.b", "app-1.x", true),
        ("target", &long, false),
        ("target", &long[1..], true),
        ("target", "", false),
        ("", "a", false),
        ("target", "-a", false),
        ("--all-namespaces", "a", false),
        ("target", "a b", false),
        ("target", "A", false),
        ("a/b", "a", false),
        ("target", "ä", false),
    ] {
        let release = ReleaseName { namespace, name };
        assert_eq!(release.is_valid(), is_valid, "{release:?}");
    }
}
