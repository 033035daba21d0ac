//! access × caller × class × method: what every cell gets, by a real request and by `explain`,
//! which must agree.

use http::Request;
use ludgate::commands::explain::explain;

use super::{
    callers::{PEOPLE, Who, caller, people, site, until_known},
    rule_apps::add_apps,
};
use crate::support::{message::Message, raw::Raw, service_tokens::TokenFolder, world::World};

#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Navigation,
    Frame,
    Fetch,
    ForeignFetch,
    Preflight,
    Socket,
    ForeignSocket,
}

const WAYS: [(How, &str); 10] = [
    (How::Navigation, "GET"),
    (How::Navigation, "HEAD"),
    (How::Frame, "GET"),
    (How::Fetch, "GET"),
    (How::Fetch, "POST"),
    (How::Fetch, "OPTIONS"),
    (How::ForeignFetch, "POST"),
    (How::Preflight, "OPTIONS"),
    (How::Socket, "GET"),
    (How::ForeignSocket, "GET"),
];

/// What a target needs of a request.
#[derive(Clone, Copy, PartialEq)]
enum Needs {
    /// There is no such app.
    Absent,
    /// Nothing.
    Open,
    /// Nothing of this method, else a person.
    OpenFor(&'static str),
    /// Nothing of a CORS preflight, else a person.
    OpenForPreflights,
    /// Its rule is not valid.
    Invalid,
    /// A person.
    Person,
}

/// A target below the prefix of apps, what it needs, and which persons may: alice, bob, an admin,
/// and alice by a bearer token.
type Row = (&'static str, Needs, [bool; 4]);

/// Targets that admit alice by something that no service has: her subject, her second group, her
/// address and her claims.
const NOT_FOR_SERVICES: [&str; 5] = ["mine", "all", "domain", "claim", "nested"];

const T: bool = true;
const F: bool = false;

const PLAIN: [Row; 8] = [
    ("pub", Needs::Open, [T, T, T, T]),
    ("usr", Needs::Person, [T, T, T, T]),
    ("grp", Needs::Person, [T, F, F, T]),
    ("oth", Needs::Person, [F, F, F, F]),
    ("mine", Needs::Person, [T, F, T, T]),
    ("his", Needs::Person, [F, T, T, F]),
    ("unk", Needs::Invalid, [F, F, F, F]),
    ("none", Needs::Absent, [F, F, F, F]),
];

/// Apps whose rules have several clauses. alice is in phusers and friends, bob in friends, carol in
/// admins with an address that is not verified. The department of alice is sales; bob is suspended.
const COMPOUND: [Row; 14] = [
    ("any", Needs::Person, [T, F, T, T]),
    ("all", Needs::Person, [T, F, F, T]),
    ("one", Needs::Person, [T, F, F, T]),
    ("email", Needs::Person, [F, T, F, F]),
    ("domain", Needs::Person, [T, T, F, T]),
    ("letters", Needs::Person, [F, F, F, F]),
    ("claim", Needs::Person, [T, F, F, T]),
    ("nested", Needs::Person, [T, T, T, T]),
    ("not-group", Needs::Person, [F, T, T, F]),
    ("not-owner", Needs::Person, [T, T, F, T]),
    // An ID token without the claim says that the person does not have it; an access token does
    // not.
    ("not-claim", Needs::Person, [T, F, T, F]),
    ("open", Needs::Open, [T, T, T, T]),
    ("wrong", Needs::Invalid, [F, F, F, F]),
    ("cors", Needs::OpenForPreflights, [T, T, T, T]),
];

/// Paths of an app that is for every user, with rules of its paths: `/open` is public, `/hook`
/// too for POST, `/team` is for phusers, `/team/his` for bob.
const PATHS: [Row; 16] = [
    ("paths", Needs::Person, [T, T, T, T]),
    ("paths/open", Needs::Open, [T, T, T, T]),
    ("paths/open/%20", Needs::Open, [T, T, T, T]),
    ("paths/openly", Needs::Person, [T, T, T, T]),
    ("paths/Open", Needs::Person, [T, T, T, T]),
    ("paths//open", Needs::Person, [T, T, T, T]),
    ("paths/hook", Needs::OpenFor("POST"), [T, T, T, T]),
    ("paths/team", Needs::Person, [T, F, F, T]),
    ("paths/team/his", Needs::Person, [F, T, T, F]),
    ("paths/TEAM", Needs::Person, [T, F, F, T]),
    ("paths/%74eam", Needs::Person, [T, F, F, T]),
    ("paths/team;v=1", Needs::Person, [T, F, F, T]),
    ("paths/./team", Needs::Person, [T, F, F, T]),
    ("paths/team/%68is", Needs::Person, [F, F, F, F]),
    ("paths/open/../team", Needs::Person, [F, F, F, F]),
    ("paths/open/%2e%2e/x", Needs::Person, [F, F, F, F]),
];

/// The golden table, in words of its own: (status, whether the app was reached).
fn expected((target, needs, may): Row, who: Who, how: How, method: &str) -> (u16, bool) {
    let socket = matches!(how, How::Socket | How::ForeignSocket);
    let reached = if socket { 101 } else { 200 };
    let is_open = match needs {
        Needs::Absent => return (404, false),
        Needs::Open => true,
        Needs::OpenFor(open) => open == method,
        Needs::OpenForPreflights => how == How::Preflight,
        Needs::Invalid | Needs::Person => false,
    };
    if is_open {
        return (reached, true);
    }
    if matches!(who, Who::BadToken | Who::ServiceElsewhere) {
        return (401, false);
    }
    let by_cookie = matches!(who, Who::Alice | Who::Bob | Who::Admin);
    if by_cookie && how == How::ForeignSocket {
        return (403, false);
    }
    if needs == Needs::Invalid {
        return (403, false);
    }
    let is_foreign = matches!(how, How::ForeignFetch | How::Preflight);
    let known = match who {
        Who::Anonymous | Who::BadToken | Who::ServiceElsewhere => None,
        Who::Alice | Who::Bob | Who::Admin if is_foreign => None,
        Who::Alice => Some(may[0]),
        Who::Bob => Some(may[1]),
        Who::Admin => Some(may[2]),
        Who::AliceByToken => Some(may[3]),
        Who::Service => Some(may[3] && !NOT_FOR_SERVICES.contains(&target)),
        // It is no user, and no rule names it.
        Who::Workload => Some(false),
    };
    match known {
        Some(true) => (reached, true),
        Some(false) => (403, false),
        None if how == How::Navigation && matches!(method, "GET" | "HEAD") => (302, false),
        None => (401, false),
    }
}

fn headers(how: How, own: &str) -> String {
    let socket = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let foreign = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: cors\r\nSec-Fetch-Dest: empty\r\nOrigin: http://evil.test\r\n";
    match how {
        How::Navigation => "Sec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\nAccept: text/html\r\n".into(),
        How::Frame => "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe\r\n".into(),
        How::Fetch => "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: cors\r\nSec-Fetch-Dest: empty\r\n".into(),
        How::ForeignFetch => foreign.into(),
        How::Preflight => format!("{foreign}Access-Control-Request-Method: PUT\r\n"),
        How::Socket => format!("{socket}Origin: http://{own}\r\n"),
        How::ForeignSocket => format!("{socket}Origin: http://evil.test\r\n"),
    }
}

/// The ids of all apps in the tables.
fn app_ids() -> Vec<&'static str> {
    let rows = PLAIN.into_iter().chain(COMPOUND).chain(PATHS);
    let id = |(target, ..): Row| target.split('/').next().unwrap_or_default();
    rows.map(id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_cell_of_access_caller_class_and_method_is_as_written_and_explained_alike() {
    let tokens = TokenFolder::new();
    let (world, ci) = site(&tokens).await;
    let people = people(&world, &ci, &tokens, &app_ids()).await;
    until_known(&world, &people).await;
    let snapshot = world.running.internals().snapshot();
    let (mut cells, mut wrong) = (0, Vec::new());
    for row in PLAIN.into_iter().chain(COMPOUND).chain(PATHS) {
        for who in PEOPLE {
            for (how, method) in WAYS {
                let target = row.0;
                let verb = if matches!(how, How::Socket | How::ForeignSocket) {
                    "ws"
                } else {
                    "x"
                };
                let lines = format!(
                    "{method} /apps/{target}/{verb} HTTP/1.1\r\nHost: {}\r\n{}{}",
                    world.host,
                    headers(how, &world.host),
                    people.credentials(who)
                );
                let before = world.reached();
                let answer = exchange(&world, &format!("{lines}\r\n"), method).await;
                let got = (answer.status(), world.reached() > before);
                let wanted = expected(row, who, how, method);
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
                        "{target} {who:?} {how:?} {method}: wanted {wanted:?}, got {got:?}, explain says {} {:?}",
                        explained.decision, explained.status
                    ));
                }
            }
        }
    }
    assert!(cells >= 3000, "{cells} cells");
    assert!(
        wrong.is_empty(),
        "{} of {cells} cells:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    world.check_oracles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_names_the_rules_that_apply_and_the_clause_that_decides() {
    let world = World::with("", add_apps).await.ready().await;
    let snapshot = world.running.internals().snapshot();
    for (target, who, wanted) in [
        (
            "any",
            Who::Alice,
            &[
                "access    any(group:phusers, group:admins)\n",
                "admitted  by group:phusers\n",
            ][..],
        ),
        (
            "any",
            Who::Bob,
            &[
                "clause    group:admins: does not match\n",
                "denied    no match",
            ],
        ),
        (
            "not-group",
            Who::Alice,
            &[
                "clause    deny:group:phusers: matches\n",
                "denied    by deny:group:phusers\n",
                "deny (excluded)",
            ],
        ),
        (
            "not-claim",
            Who::Admin,
            &[
                "clause    deny:claim:/suspended=true: does not match\n",
                "admitted  by user\n",
            ],
        ),
        (
            "paths/team",
            Who::Bob,
            &[
                "access    group:phusers, for /team/\n",
                "deny (not_in_group)",
            ],
        ),
        (
            "paths/open",
            Who::Bob,
            &[
                "access    public, for /open/\n",
                "needs no person",
                "allow (public)",
            ],
        ),
        (
            "paths/Open",
            Who::Bob,
            &[
                "access    user\n",
                "access    public, for /open/\n",
                "allow (user)",
            ],
        ),
    ] {
        let lines = format!("GET /apps/{target}/x HTTP/1.1\r\nHost: {}\r\n", world.host);
        let lines = format!("{lines}{}", headers(How::Fetch, &world.host));
        let explained = explain(&parts(&lines), caller(who), &snapshot, |arrival| {
            snapshot.at(&arrival.vhost)
        });
        for line in wanted {
            assert!(
                explained.text.contains(line),
                "{line:?} in\n{}",
                explained.text
            );
        }
    }
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
