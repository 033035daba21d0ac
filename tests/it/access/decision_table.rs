//! access × caller × class × method: what every cell gets, by a real request and by `explain`,
//! which must agree.

use std::sync::Arc;

use http::Request;
use ludgate::{
    commands::explain::explain,
    model::{
        access::{Access, GroupName},
        caller::{Caller, Credential},
        principal::{PersonClaims, Principal},
    },
};
use serde_json::json;

use crate::support::{browser::Browser, message::Message, raw::Raw, world::World};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Who {
    Anonymous,
    Alice,
    Bob,
    Admin,
    AliceByToken,
    BadToken,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Navigation,
    Frame,
    Fetch,
    ForeignFetch,
    Socket,
    ForeignSocket,
}

const PEOPLE: [Who; 6] = [
    Who::Anonymous,
    Who::Alice,
    Who::Bob,
    Who::Admin,
    Who::AliceByToken,
    Who::BadToken,
];
const WAYS: [(How, &str); 9] = [
    (How::Navigation, "GET"),
    (How::Navigation, "HEAD"),
    (How::Frame, "GET"),
    (How::Fetch, "GET"),
    (How::Fetch, "POST"),
    (How::Fetch, "OPTIONS"),
    (How::ForeignFetch, "POST"),
    (How::Socket, "GET"),
    (How::ForeignSocket, "GET"),
];
/// id, and who among (alice, bob, admin) may.
const APPS: [(&str, [bool; 3]); 8] = [
    ("pub", [true, true, true]),
    ("usr", [true, true, true]),
    ("grp", [true, false, false]),
    ("oth", [false, false, false]),
    ("mine", [true, false, true]),
    ("his", [false, true, true]),
    ("unk", [false, false, false]),
    ("none", [false, false, false]),
];

/// The golden table, in words of its own: (status, whether the app was reached).
fn expected(app: &str, may: [bool; 3], who: Who, how: How, method: &str) -> (u16, bool) {
    let socket = matches!(how, How::Socket | How::ForeignSocket);
    let reached = if socket { 101 } else { 200 };
    match app {
        "none" => return (404, false),
        "pub" => return (reached, true),
        _ => {}
    }
    if who == Who::BadToken {
        return (401, false);
    }
    let by_cookie = matches!(who, Who::Alice | Who::Bob | Who::Admin);
    if by_cookie && how == How::ForeignSocket {
        return (403, false);
    }
    if app == "unk" {
        return (403, false);
    }
    let known = match who {
        Who::Anonymous | Who::BadToken => None,
        Who::Alice | Who::Bob | Who::Admin if how == How::ForeignFetch => None,
        Who::Alice | Who::AliceByToken => Some(0),
        Who::Bob => Some(1),
        Who::Admin => Some(2),
    };
    match known {
        Some(person) if may[person] => (reached, true),
        Some(_) => (403, false),
        None if how == How::Navigation && matches!(method, "GET" | "HEAD") => (302, false),
        None => (401, false),
    }
}

fn headers(how: How, own: &str) -> String {
    let socket = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    match how {
        How::Navigation => "Sec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\nAccept: text/html\r\n".into(),
        How::Frame => "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe\r\n".into(),
        How::Fetch => "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: cors\r\nSec-Fetch-Dest: empty\r\n".into(),
        How::ForeignFetch => "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: cors\r\nSec-Fetch-Dest: empty\r\nOrigin: http://evil.test\r\n".into(),
        How::Socket => format!("{socket}Origin: http://{own}\r\n"),
        How::ForeignSocket => format!("{socket}Origin: http://evil.test\r\n"),
    }
}

struct People {
    alice: Browser,
    bob: Browser,
    admin: Browser,
    token: String,
    bad_token: String,
}

impl People {
    fn credentials(&self, who: Who) -> String {
        match who {
            Who::Anonymous => String::new(),
            Who::Alice => self.alice.cookie_line("/"),
            Who::Bob => self.bob.cookie_line("/"),
            Who::Admin => self.admin.cookie_line("/"),
            Who::AliceByToken => format!("Authorization: Bearer {}\r\n", self.token),
            Who::BadToken => format!("Authorization: Bearer {}\r\n", self.bad_token),
        }
    }
}

fn caller(who: Who) -> Caller {
    let person = |subject: &str, groups: &[&str], credential| {
        let groups = groups.iter().filter_map(|g| GroupName::new(g)).collect();
        let claims = PersonClaims {
            subject: subject.into(),
            groups,
            ..PersonClaims::default()
        };
        let admins = [GroupName::new("admins").expect("a group")];
        Caller::Person {
            principal: Arc::new(Principal::new(claims, &admins)),
            credential,
        }
    };
    match who {
        Who::Anonymous => Caller::Anonymous,
        Who::BadToken => Caller::BadToken,
        Who::Alice => person("alice", &["phusers", "friends"], Credential::Cookie),
        Who::AliceByToken => person("alice", &["phusers", "friends"], Credential::Bearer),
        Who::Bob => person("bob", &["friends"], Credential::Cookie),
        Who::Admin => person("carol", &["admins"], Credential::Cookie),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_cell_of_access_caller_class_and_method_is_as_written_and_explained_alike() {
    let world = World::with("", |settings| {
        // An unknown access value, which no configuration file can contain.
        let mut unknown = settings.apps[1].clone();
        unknown.id = ludgate::model::app::AppId::new("unk").expect("an id");
        unknown.access = Access::parse("primehub");
        settings.apps.push(unknown);
    })
    .await
    .ready()
    .await;
    world
        .provider
        .set_claim("carol", "groups", json!(["admins"]));
    let token = world.provider.access_token("alice");
    let (head, _) = token.rsplit_once('.').expect("a JWS");
    let people = People {
        alice: world.signed_in("alice").await,
        bob: world.signed_in("bob").await,
        admin: world.signed_in("carol").await,
        bad_token: format!("{head}.{}", "A".repeat(86)),
        token,
    };
    let snapshot = world.running.internals().snapshot();
    let (mut cells, mut wrong) = (0, Vec::new());
    for (app, may) in APPS {
        for who in PEOPLE {
            for (how, method) in WAYS {
                let verb = if matches!(how, How::Socket | How::ForeignSocket) {
                    "ws"
                } else {
                    "x"
                };
                let lines = format!(
                    "{method} /apps/{app}/{verb} HTTP/1.1\r\nHost: {}\r\n{}{}",
                    world.host,
                    headers(how, &world.host),
                    people.credentials(who)
                );
                let before = world.reached();
                let answer = exchange(&world, &format!("{lines}\r\n"), method).await;
                let got = (answer.status(), world.reached() > before);
                let wanted = expected(app, may, who, how, method);
                let explained = explain(&parts(&lines), caller(who), &snapshot, |arrival| {
                    snapshot.at(&arrival.vhost)
                });
                let agrees = match explained.decision {
                    "allow" => wanted.1,
                    _ => !wanted.1 && explained.status == Some(wanted.0),
                };
                cells += 1;
                if got != wanted || !agrees {
                    wrong.push(format!(
                        "{app} {who:?} {how:?} {method}: wanted {wanted:?}, got {got:?}, explain says {} {:?}",
                        explained.decision, explained.status
                    ));
                }
            }
        }
    }
    assert!(cells >= 200, "{cells} cells");
    assert!(
        wrong.is_empty(),
        "{} of {cells} cells:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    world.check_oracles().await;
}

async fn exchange(world: &World, request: &str, method: &str) -> Message {
    let mut raw = Raw::connect(world.running.address).await;
    raw.send(request).await;
    raw.reader
        .message(method == "HEAD")
        .await
        .ok()
        .flatten()
        .expect("an answer")
}

/// The same head, for `explain`.
fn parts(lines: &str) -> http::request::Parts {
    let mut rows = lines.lines();
    let mut start = rows.next().expect("a request line").split(' ');
    let mut request = Request::builder()
        .method(start.next().expect("a method"))
        .uri(start.next().expect("a target"));
    for row in rows.filter(|row| !row.is_empty()) {
        let (name, value) = row.split_once(": ").expect("a field");
        request = request.header(name, value);
    }
    request.body(()).expect("a request").into_parts().0
}
