//! `ludgate apps` against the API. No controller runs here, so every app is starting.

use serde_json::json;

use super::namespace;
use crate::support::{
    api::{Api, PLATFORM},
    command_line::{Terminal, finish},
    world::{World, free_port},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_person_signs_in_in_a_browser_and_signs_out_again() {
    let namespace = namespace().await;
    let world = namespace.world_with_api().await;
    let site = format!("http://{}", world.host);
    let mut terminal = Terminal::new();
    let error = terminal.run("list").await.error();
    assert!(error.starts_with("sign in first: "), "{error}");

    let signing_in = terminal.spawn(&format!("sign-in {site}/"));
    let mut browser = world.browser();
    let start = browser.open("/oidc/auth-flow/request").await;
    let code = browser.sign_in_from(&start, "alice").await.copied_code();
    let printed = finish(signing_in, &format!(" {code} \n")).await;
    let address = format!("\n  {site}/oidc/auth-flow/request\n");
    assert!(printed.stderr.contains(&address), "{}", printed.stderr);
    let end = format!("Signed in to {site} as alice.\n");
    assert!(printed.stderr.ends_with(&end), "{}", printed.stderr);

    let again = terminal.spawn(&format!("sign-in {site}"));
    let refused = finish(again, &code).await;
    assert_eq!(refused.code, Some(1), "a code works once");
    assert!(refused.stderr.contains("used"), "{}", refused.stderr);

    let groups = terminal.run("groups").await.ok();
    assert_eq!(
        groups,
        "GROUP    NAME            INSTANCE TYPES\n\
         friends  friends         cpu-1 (0.5 CPU, 0.5 GiB)\n\
         phusers  PrimeHub users  cpu-1 (0.5 CPU, 0.5 GiB), gpu-1 (1 CPU, 2 GiB, 1 GPU)\n"
    );

    let mut elsewhere = Terminal::new();
    elsewhere.set("LUDGATE_SITE", "https://other.example.com");
    let error = elsewhere.run("list").await.error();
    assert!(error.starts_with("no token for https://other.example.com"));
    terminal.set("LUDGATE_TOKEN", "of-another-site");
    let error = terminal.run("list").await.error();
    assert!(error.starts_with("set LUDGATE_SITE too"), "{error}");
    terminal.unset("LUDGATE_TOKEN");

    terminal.run("sign-out").await.ok();
    let error = terminal.run("list").await.error();
    assert!(error.starts_with("sign in first: "), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn apps_are_made_changed_and_deleted_in_a_terminal() {
    let namespace = namespace().await;
    namespace.grant("api.yaml").await;
    let kubeconfig = namespace.kubeconfig_of("ludgate-api").await;
    let site = format!("http://127.0.0.1:{}", free_port());
    let api = Api::with(&namespace.name, &kubeconfig, &site, PLATFORM).await;
    let alice = Terminal::with_token(&site, &api.provider.access_token("alice"));

    let templates = alice.run("templates").await.ok();
    assert_eq!(
        templates,
        "ID      NAME    VERSION  VARIABLES\nmlflow  MLflow  v2       STORE\n"
    );
    assert_eq!(
        alice.run("list").await.ok(),
        "ID  NAME  GROUP  TEMPLATE  INSTANCE TYPE  SCOPE  STATUS\n"
    );
    let create = "create lab --template mlflow --instance-type cpu-1";
    assert_eq!(
        alice.run(create).await.error(),
        "choose one of your groups with --group: friends, phusers"
    );
    assert_eq!(
        alice
            .run("create lab --template nope --instance-type cpu-1")
            .await
            .error(),
        "no template is called \"nope\"; there are: mlflow"
    );
    let created = alice
        .run(&format!("{create} --group phusers --name Lab --env B=2"))
        .await
        .ok();
    assert_eq!(
        created,
        format!(
            "id             lab\nname           Lab\ngroup          phusers\n\
             template       mlflow v2\ninstance type  cpu-1\nscope          group\n\
             status         Starting\nmessage        \nurl            {site}/apps/lab\n\
             env            STORE=sqlite\nenv            B=2\n"
        )
    );
    let updated = alice
        .run("update lab --scope public --env C=3 --unset-env B --json")
        .await
        .json();
    assert_eq!(updated["scope"], "public");
    assert_eq!(
        updated["env"],
        json!([{ "name": "STORE", "value": "sqlite" }, { "name": "C", "value": "3" }])
    );
    assert_eq!(
        alice.run("list --group phusers").await.ok(),
        "ID   NAME  GROUP    TEMPLATE  INSTANCE TYPE  SCOPE   STATUS\n\
         lab  Lab   phusers  mlflow    cpu-1          public  Starting\n"
    );
    let none = alice.run("list --group friends --json").await.json();
    assert_eq!(none, json!([]));
    assert_eq!(
        alice.run("stop lab --json").await.json()["status"],
        "Stopping"
    );
    assert_eq!(
        alice.run("logs lab").await.error(),
        "lab has no pod; its status is Stopping"
    );
    assert_eq!(alice.run("delete lab").await.ok(), "lab is deleted\n");
    let not_found = "phapplications.primehub.io \"lab\" not found";
    for command in ["get lab", "start lab", "delete lab", "logs lab"] {
        assert_eq!(alice.run(command).await.error(), not_found, "{command}");
    }
    let stranger = Terminal::with_token(&site, "no-token");
    assert_eq!(
        stranger.run("list").await.error(),
        format!("the site does not accept the token; run: ludgate apps sign-in {site}")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_api_is_said_in_one_line() {
    let port = free_port();
    let unreachable = Terminal::with_token(&format!("http://127.0.0.1:{port}"), "x");
    let error = unreachable.run("list").await.error();
    let begin = format!("http://127.0.0.1:{port} cannot be reached: ");
    assert!(error.starts_with(&begin), "{error}");
    let world = World::new().await;
    let site = format!("http://{}", world.host);
    let error = Terminal::with_token(&site, "x").run("list").await.error();
    let begin = format!("{site} did not answer like the API of Ludgate: HTTP status 404");
    assert!(error.starts_with(&begin), "{error}");
    let clear = Terminal::with_token("http://hub.example.com", "x");
    let error = clear.run("list").await.error();
    assert!(
        error.contains("plain http is accepted on loopback only"),
        "{error}"
    );
}
