//! The table of placements: access modes, pods, and where the viewer may run.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::viewer::samples::{self, PodOf, creating, running};

const RWO: &[&str] = &["ReadWriteOnce"];
const RWOP: &[&str] = &["ReadWriteOncePod"];

/// The name of a pod, whose it is, its node and status.
type Row<'a> = (&'a str, PodOf, Option<&'a str>, Value);

fn placed(
    settings: &ViewerSettings,
    rwo_scheduling: bool,
    modes: Option<&[&str]>,
    rows: &[Row<'_>],
) -> Placement {
    let viewer = samples::viewer(json!({ "pvc": "data", "rwoScheduling": rwo_scheduling }));
    let modes: Option<Vec<String>> =
        modes.map(|modes| modes.iter().copied().map(str::to_owned).collect());
    let pods: Vec<Pod> = rows
        .iter()
        .map(|(name, of, node, status)| samples::pod(name, *of, *node, status.clone()))
        .collect();
    let pods: Vec<&Pod> = pods.iter().collect();
    let claim = ClaimUse {
        access_modes: modes.as_deref(),
        pods: &pods,
    };
    Placement::new(&viewer, settings, claim)
}

fn check(modes: Option<&[&str]>, rows: &[Row<'_>], wanted: Placement) {
    let placement = placed(&samples::settings(), true, modes, rows);
    assert_eq!(placement, wanted, "{modes:?} {rows:?}");
}

fn user(pod: &str, node: Option<&str>) -> ClaimUser {
    ClaimUser {
        pod: pod.to_owned(),
        node: node.map(str::to_owned),
    }
}

fn on(node: &str) -> Placement {
    Placement::Node(node.to_owned())
}

fn notebook<'a>(name: &'a str, node: Option<&'a str>, status: Value) -> Row<'a> {
    (name, PodOf::Notebook, node, status)
}

#[test]
fn a_viewer_follows_the_pods_of_a_claim_that_one_node_mounts() {
    let one = |node| [notebook("a", Some(node), running())];
    let two = |node| {
        let second = notebook("b", Some(node), running());
        [second, notebook("a", Some("n3"), running())]
    };
    check(Some(RWO), &[], Placement::Anywhere);
    check(None, &one("n3"), Placement::Anywhere);
    check(Some(&["ReadWriteMany"]), &one("n3"), Placement::Anywhere);
    let modes = ["ReadWriteOnce", "ReadOnlyMany"];
    check(Some(&modes), &one("n3"), Placement::Anywhere);
    check(Some(RWO), &one("n3"), on("n3"));
    check(Some(RWO), &one("n5"), on("n5"));
    check(Some(RWO), &two("n3"), on("n3"));
    let both = vec![user("a", Some("n3")), user("b", Some("n4"))];
    check(Some(RWO), &two("n4"), Placement::InUse(both));
    let unbound = notebook("a", None, json!({ "phase": "Pending" }));
    check(Some(RWO), &[unbound], Placement::Anywhere);
    for phase in ["Succeeded", "Failed"] {
        let finished = notebook("a", Some("n3"), json!({ "phase": phase }));
        check(
            Some(RWO),
            std::slice::from_ref(&finished),
            Placement::Anywhere,
        );
        let other = notebook("b", Some("n5"), running());
        check(Some(RWO), &[finished, other], on("n5"));
    }
    for of in [PodOf::Viewer, PodOf::OtherViewer] {
        let viewers = [("v-0", of, Some("n3"), running())];
        check(Some(RWO), &viewers, Placement::Anywhere);
        check(Some(RWOP), &viewers, Placement::Anywhere);
    }
    let in_use = Placement::InUse(vec![user("a", Some("n3"))]);
    check(Some(RWOP), &one("n3"), in_use);
    let waiting = notebook("a", None, json!({ "phase": "Pending" }));
    check(
        Some(RWOP),
        &[waiting],
        Placement::InUse(vec![user("a", None)]),
    );
}

#[test]
fn a_claim_in_two_volumes_of_one_pod_is_one_use() {
    let mut pod = samples::pod("a", PodOf::Notebook, Some("n3"), running());
    let volumes = pod.spec.as_mut().and_then(|spec| spec.volumes.as_mut());
    let volumes = volumes.expect("volumes");
    volumes.push(volumes[0].clone());
    let viewer = samples::viewer(json!({ "pvc": "data", "rwoScheduling": true }));
    let modes = ["ReadWriteOnce".to_owned()];
    let pods = [&pod];
    let claim = ClaimUse {
        access_modes: Some(&modes),
        pods: &pods,
    };
    let placement = Placement::new(&viewer, &samples::settings(), claim);
    assert_eq!(placement, on("n3"));
    assert!(mounts(&pod, "data") && !mounts(&pod, "other"));
}

#[test]
fn a_viewer_yields_to_a_pod_that_waits_for_its_volume() {
    let own = |node| ("v-0", PodOf::Viewer, node, running());
    let settings = samples::settings();
    let stays = ViewerSettings {
        yields: false,
        ..settings.clone()
    };
    let soft = ViewerSettings {
        affinity: AffinityMode::Preferred,
        ..settings.clone()
    };
    let waiting = || notebook("a", Some("n4"), creating());
    let pulling = || {
        let mut status = creating();
        status["containerStatuses"][0]["state"]["waiting"]["reason"] = "ErrImagePull".into();
        notebook("a", Some("n4"), status)
    };
    let yielded = || Placement::Yield(vec![user("a", Some("n4"))]);
    for (settings, follows, rows, wanted) in [
        (&settings, true, vec![own(Some("n3")), waiting()], yielded()),
        (
            &settings,
            false,
            vec![own(Some("n3")), waiting()],
            yielded(),
        ),
        // The viewer is gone, and the pod still waits: a viewer on n4 is not in its way.
        (&settings, true, vec![waiting()], on("n4")),
        (&settings, false, vec![waiting()], yielded()),
        (&soft, true, vec![waiting()], yielded()),
        (&settings, true, vec![own(Some("n4")), waiting()], on("n4")),
        (
            &settings,
            false,
            vec![own(Some("n4")), waiting()],
            Placement::Anywhere,
        ),
        // The volume is mounted.
        (&settings, true, vec![own(Some("n3")), pulling()], on("n4")),
        (
            &settings,
            false,
            vec![own(Some("n3")), pulling()],
            Placement::Anywhere,
        ),
        (&stays, true, vec![own(Some("n3")), waiting()], on("n4")),
        (
            &stays,
            false,
            vec![own(Some("n3")), waiting()],
            Placement::Anywhere,
        ),
    ] {
        let placement = placed(settings, follows, Some(RWO), &rows);
        assert_eq!(placement, wanted, "{follows} {rows:?}");
    }
    let unbound = [notebook("a", None, json!({ "phase": "Pending" }))];
    let placement = placed(&stays, true, Some(RWOP), &unbound);
    assert_eq!(
        placement,
        Placement::Anywhere,
        "it cannot have the volume yet"
    );
}

fn any_row() -> impl Strategy<Value = (PodOf, Option<&'static str>, Value)> {
    let of = prop::sample::select(vec![PodOf::Viewer, PodOf::OtherViewer, PodOf::Notebook]);
    let node = prop::option::of(prop::sample::select(vec!["n1", "n2", "n3"]));
    let phases = ["Succeeded", "Failed"].map(|phase| json!({ "phase": phase }));
    let mut statuses = vec![running(), creating()];
    statuses.extend(phases);
    (of, node, prop::sample::select(statuses))
}

proptest! {
    #[test]
    fn only_unfinished_pods_of_others_are_named(
        rows in prop::collection::vec(any_row(), 0..6),
        is_exclusive: bool,
        follows: bool,
    ) {
        let names: Vec<String> = (0..rows.len()).map(|index| format!("p{index}")).collect();
        let rows: Vec<Row<'_>> = names
            .iter()
            .zip(rows)
            .map(|(name, (of, node, status))| (name.as_str(), of, node, status))
            .collect();
        let counted: Vec<ClaimUser> = rows
            .iter()
            .filter(|(_, of, _, status)| {
                *of == PodOf::Notebook && (*status == running() || *status == creating())
            })
            .map(|(name, _, node, _)| user(name, *node))
            .collect();
        let modes = if is_exclusive { RWOP } else { RWO };
        let placement = placed(&samples::settings(), follows, Some(modes), &rows);
        match &placement {
            Placement::Anywhere => {}
            Placement::Node(node) => {
                prop_assert!(counted.iter().any(|user| user.node.as_ref() == Some(node)));
            }
            Placement::InUse(users) | Placement::Yield(users) => {
                prop_assert!(!users.is_empty());
                prop_assert!(users.iter().all(|user| counted.contains(user)));
            }
        }
        let reversed: Vec<Row<'_>> = rows.iter().rev().cloned().collect();
        let again = placed(&samples::settings(), follows, Some(modes), &reversed);
        prop_assert_eq!(again, placement);
    }
}
