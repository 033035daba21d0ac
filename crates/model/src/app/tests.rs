//! Ids of apps, viewers and labs.

use super::*;

#[test]
fn an_app_id_is_a_dns_label_that_leaves_room_for_its_service() {
    let long = "a".repeat(59);
    for good in ["a", "0", "a-1", "mlflow", long.as_str()] {
        assert!(AppId::new(good).is_some(), "{good:?}");
    }
    let too_long = "a".repeat(60);
    for bad in [
        "",
        "-",
        "-a",
        "a-",
        "A",
        "a.b",
        "a_b",
        "a%2D1",
        "ä",
        too_long.as_str(),
    ] {
        assert!(AppId::new(bad).is_none(), "{bad:?}");
    }
}

#[test]
fn the_id_of_a_viewer_is_two_labels_and_fits_into_a_record() {
    let (namespace, name) = ("n".repeat(63), "v".repeat(53));
    let id = AppId::for_viewer(&namespace, &name).expect("an id");
    assert!(id.is_viewer() && AppId::from_record(id.as_str()).is_some());
    let id = AppId::for_viewer("team", "v");
    assert_eq!(id.as_ref().map(AppId::as_str), Some("team/v"));
    let (long, longer) = ("n".repeat(64), "v".repeat(54));
    for (namespace, name) in [
        ("", "v"),
        ("team", ""),
        ("team", "a.b"),
        ("team", "a/b"),
        ("..", "v"),
        ("Team", "v"),
        (long.as_str(), "v"),
        ("team", longer.as_str()),
    ] {
        assert!(
            AppId::for_viewer(namespace, name).is_none(),
            "{namespace:?} {name:?}"
        );
    }
    assert!(AppId::new("team/v").is_none());
}

#[test]
fn the_id_of_an_installation_is_no_other_id() {
    let longest = "n".repeat(63);
    let id = AppId::for_installation(&longest, &longest).expect("an id");
    assert!(id.is_installation() && !id.is_viewer() && id.lab_username().is_none());
    assert!(AppId::new(id.as_str()).is_none());
    assert!(AppId::from_record(id.as_str()).is_some());
    for (namespace, name) in [("", "a"), ("n", ""), ("n", "a.b"), ("n/m", "a"), ("N", "a")] {
        let id = AppId::for_installation(namespace, name);
        assert!(id.is_none(), "{namespace:?} {name:?}");
    }
}

#[test]
fn the_id_of_a_lab_is_no_other_id() {
    let longest = format!("a{}", "1".repeat(62));
    for username in ["rachel", "1a", "bot-1", longest.as_str()] {
        let id = AppId::for_lab(username).expect("an id");
        assert_eq!(id.lab_username(), Some(username));
        assert!(AppId::new(id.as_str()).is_none() && !id.is_viewer());
        assert!(AppId::from_record(id.as_str()).is_some());
    }
    for no_name in ["", "80", "Rachel", "a/b", "a:b", "..", "-a"] {
        assert!(AppId::for_lab(no_name).is_none(), "{no_name:?}");
    }
    let port = AppId::new("lab").expect("an id").with_port(80);
    assert_eq!(port.lab_username(), None);
}

#[test]
fn the_id_of_a_hub_s_route_is_no_other_id() {
    let longest = format!("/{}", "a".repeat(123));
    for path in ["/nb", "/nb/user/alice%20b", longest.as_str()] {
        let id = AppId::for_hub_route(path);
        assert_eq!(id.hub_route_path(), Some(path));
        assert!(!id.is_viewer() && !id.is_installation() && id.lab_username().is_none());
        assert!(AppId::new(id.as_str()).is_none());
        assert!(AppId::from_record(id.as_str()).is_some());
    }
    let long = AppId::for_hub_route(&format!("{longest}b"));
    assert_ne!(long, AppId::for_hub_route(&format!("{longest}c")));
    assert_eq!(long.hub_route_path(), None);
    assert!(!long.is_viewer() && AppId::from_record(long.as_str()).is_some());
    let port = AppId::new("hub").expect("an id").with_port(80);
    assert_eq!(port.hub_route_path(), None);
}
