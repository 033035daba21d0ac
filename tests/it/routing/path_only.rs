//! Apps with `isolation = "path"`: an app that is configured with its prefix would be broken on a
//! host, so it has none.

use crate::support::{origins::Origins, world::World};

const APP: &str = "[[apps]]\nid = \"only\"\nupstream = \"http://ADDRESS\"\naccess = \"public\"\n\
                   isolation = \"path\"\n\
                   published_ports = { \"8080\" = { upstream = \"http://ADDRESS\" } }\n";

#[tokio::test(flavor = "multi_thread")]
async fn an_app_with_its_path_only_has_no_host_and_the_launcher_offers_none() {
    let world = World::with_app("only", APP).await;
    let mut visitor = Origins::new(&world);
    let site = format!("http://{}", world.host);
    let answer = visitor.fetch(&format!("{site}/apps/only/x")).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(world.backend("only").last().target(), "/apps/only/x");
    let answer = visitor.fetch(&format!("{}/x", world.on_host("only"))).await;
    assert_eq!(
        (answer.status(), answer.json()["reason"].as_str()),
        (404, Some("unknown_app"))
    );
    let port = visitor
        .fetch(&format!("{}/x", world.on_host("only-8080")))
        .await;
    assert_eq!(port.status(), 200, "a published port has its host");
    let launcher = visitor.open(&format!("{site}/apps/")).await.text();
    assert!(launcher.contains("href=\"/apps/only/\""), "{launcher}");
    assert!(!launcher.contains(&world.on_host("only")), "{launcher}");
    assert!(
        launcher.contains(&world.on_host("pub")),
        "other apps have both: {launcher}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_with_its_path_only_may_serve_it_without_a_slash() {
    let toml = format!("{APP}serves_bare_path = true\n");
    let world = World::with_app("only", &toml).await;
    assert_eq!(world.browser().fetch("/apps/only").await.status(), 200);
    assert_eq!(world.backend("only").last().target(), "/apps/only");
}
