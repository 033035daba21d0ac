//! Two processes behind one address, under load: one is killed, then the Redis they share, then
//! both come back. Access is never granted by mistake, and no user who is signed in has to sign in
//! again (docs/behaviour.md#sessions).

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use ludgate::{demo::provider::DemoProvider, model::clock::Clock};
use tokio::{net::TcpStream, task::JoinHandle};

use crate::support::{
    backend::Backend,
    browser::{Browser, From},
    message::{PATIENCE, Reader},
    process::{self, Running},
    redis::RedisServer,
    until::until_async,
    world::{SECRET, client, free_port},
};

/// One of the two.
struct Replica {
    folder: tempfile::TempDir,
    text: String,
    port: u16,
}

impl Replica {
    fn new(port: u16, rest: &str) -> Replica {
        let text = format!("[listen]\naddress = \"127.0.0.1:{port}\"\n{rest}");
        Replica {
            folder: tempfile::tempdir().expect("a folder"),
            text,
            port,
        }
    }

    async fn run(&self) -> Running {
        process::gateway(self.folder.path(), &self.text, self.port).await
    }
}

/// How often each status came.
type Got = BTreeMap<u16, u32>;

/// A browser that sends requests until it is stopped.
struct Load {
    person: &'static str,
    answers: Arc<AtomicU32>,
    task: JoinHandle<Got>,
}

impl Load {
    fn start(
        person: &'static str,
        browser: Browser,
        ports: [u16; 2],
        stop: &Arc<AtomicBool>,
    ) -> Load {
        let answers = Arc::new(AtomicU32::new(0));
        let task = tokio::spawn(load(browser, ports, stop.clone(), answers.clone()));
        Load {
            person,
            answers,
            task,
        }
    }
}

/// Waits until each browser got two hundred more answers.
async fn until_answered(loads: &[Load]) {
    let answers = |load: &Load| load.answers.load(Ordering::Relaxed);
    let before: Vec<u32> = loads.iter().map(answers).collect();
    until_async("each browser gets answers", async || {
        let mut pairs = loads.iter().zip(&before);
        pairs.all(|(load, before)| answers(load) >= before + 200)
    })
    .await;
}

/// Sends requests to both in turn until it is stopped. A gateway that is gone is passed over, as by
/// a balancer.
async fn load(
    browser: Browser,
    ports: [u16; 2],
    stop: Arc<AtomicBool>,
    answers: Arc<AtomicU32>,
) -> Got {
    let request = format!(
        "GET /apps/grp/x HTTP/1.1\r\nHost: {}\r\n{}{}Connection: close\r\n\r\n",
        browser.host,
        From::Fetch.headers(),
        browser.cookie_line("/apps/grp/")
    );
    let mut got = Got::new();
    for port in ports.into_iter().cycle() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        if let Some(status) = fetch_status(port, &request).await {
            *got.entry(status).or_default() += 1;
            answers.fetch_add(1, Ordering::Relaxed);
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    got
}

/// The status; `None` when there is no gateway, or it went away meanwhile.
async fn fetch_status(port: u16, request: &str) -> Option<u16> {
    use tokio::io::AsyncWriteExt;
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut reader = Reader::new(stream);
    let answer = tokio::time::timeout(PATIENCE, reader.message(false))
        .await
        .expect("answered or closed");
    Some(answer.ok().flatten()?.status())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_and_then_redis_are_killed_and_come_back_under_load() {
    let (first, second) = (free_port(), free_port());
    let host = format!("127.0.0.1:{first}");
    let provider = DemoProvider::start(client(&host), Clock::system())
        .await
        .expect("a provider");
    let backend = Backend::start("grp").await;
    let mut redis = RedisServer::start().await;
    let rest = format!(
        "[admin]\naddress = \"127.0.0.1:0\"\n[site]\nurl = \"http://{host}\"\n{}\
         [identity]\nissuer = \"{}\"\nclient_id = \"ludgate\"\nclient_secret = \"{SECRET}\"\n\
         [[apps]]\nid = \"grp\"\naccess = \"group:phusers\"\nupstream = \"http://{}\"\n",
        redis.section(),
        provider.issuer(),
        backend.address()
    );
    let replicas = [Replica::new(first, &rest), Replica::new(second, &rest)];
    let _first = replicas[0].run().await;
    let other = replicas[1].run().await;
    let ports = [first, second];
    let mut people = Vec::new();
    for count in 0..8 {
        let mut browser = Browser::new(([127, 0, 0, 1], ports[count % 2]).into(), &host);
        until_async("the provider is discovered", async || {
            let page = browser.open("/oauth2/start?rd=%2Fapps%2Fgrp%2F").await;
            page.status() != 503
        })
        .await;
        let person = if count < 6 { "alice" } else { "bob" };
        browser.sign_in("/apps/grp/", person).await;
        people.push((person, browser));
    }
    // A browser with a forged cookie.
    let mut forger = Browser::new(([127, 0, 0, 1], first).into(), &host);
    forger
        .jar
        .insert(("ludgate".into(), "/".into()), "A".repeat(43));
    people.push(("forger", forger));
    let stop = Arc::new(AtomicBool::new(false));
    let loads: Vec<_> = people
        .into_iter()
        .map(|(person, browser)| Load::start(person, browser, ports, &stop))
        .collect();
    until_answered(&loads).await;
    drop(other);
    until_answered(&loads).await;
    redis.kill().await;
    until_answered(&loads).await;
    redis.again().await;
    until_answered(&loads).await;
    let _other = replicas[1].run().await;
    until_answered(&loads).await;
    stop.store(true, Ordering::Relaxed);
    for Load { person, task, .. } in loads {
        let got = task.await.expect("no panic");
        eprintln!("{person}: {got:?}");
        let allowed: &[u16] = match person {
            "alice" => &[200, 503],
            "bob" => &[403, 503],
            _ => &[401, 503],
        };
        assert!(
            got.keys().all(|status| allowed.contains(status)),
            "{person}: {got:?}"
        );
        assert!(
            got.get(&allowed[0]).is_some_and(|times| *times > 100),
            "{person}: {got:?}"
        );
    }
}
