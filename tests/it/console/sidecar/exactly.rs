//! What "byte-exact" means, as a comparison: the same messages with and without Ludgate in between,
//! but for the fields that behaviour.md names. Names are compared without case, and not in which
//! order different ones came.

use std::collections::{BTreeMap, BTreeSet};

use super::client::Told;
use crate::support::message::Message;

/// How a field may differ.
#[derive(Clone, Copy, Debug)]
enum May {
    /// Ludgate's own value stands there, once, and none that was sent.
    BeWritten,
    /// What was sent, then Ludgate's own value.
    BeAdded,
    /// Nothing of it passes.
    GoMissing,
    /// It concerns one connection, and each has its own.
    BeOfTheConnection,
    /// The lines that name a cookie of Ludgate's are missing.
    LoseOurs,
}

/// A field, how it may differ, and the row of behaviour.md that says so.
type Exception = (&'static str, May, u8);

/// Not a field: the fields after the last chunk.
const TRAILERS: &str = "(trailers)";

/// On the way to the console. Cookies are none of them: Ludgate's own are sent only where Ludgate
/// is, and docs/behaviour.md#cookies then has the console see what it sees without.
const TO_CONSOLE: [Exception; 23] = [
    ("x-forwarded-for", May::BeWritten, 32),
    ("x-forwarded-host", May::BeWritten, 32),
    ("x-forwarded-proto", May::BeWritten, 32),
    ("x-forwarded-port", May::BeWritten, 32),
    ("x-forwarded-prefix", May::GoMissing, 32),
    ("forwarded", May::BeWritten, 32),
    ("x-real-ip", May::BeWritten, 32),
    ("x-request-id", May::BeWritten, 32),
    ("via", May::BeAdded, 32),
    ("x-forwarded-user", May::GoMissing, 33),
    ("x-forwarded-email", May::GoMissing, 33),
    ("x-forwarded-groups", May::GoMissing, 33),
    ("x-forwarded-preferred-username", May::GoMissing, 33),
    ("connection", May::BeOfTheConnection, 34),
    ("upgrade", May::BeOfTheConnection, 34),
    ("keep-alive", May::GoMissing, 34),
    ("te", May::GoMissing, 34),
    ("trailer", May::GoMissing, 34),
    ("proxy-authorization", May::GoMissing, 34),
    ("proxy-connection", May::GoMissing, 34),
    ("http2-settings", May::GoMissing, 34),
    // Nominated by `Connection`.
    ("x-hop", May::GoMissing, 34),
    (TRAILERS, May::GoMissing, 34),
];

/// On the way to the client.
const TO_CLIENT: [Exception; 8] = [
    ("set-cookie", May::LoseOurs, 31),
    ("connection", May::BeOfTheConnection, 34),
    ("upgrade", May::GoMissing, 34),
    ("keep-alive", May::GoMissing, 34),
    ("proxy-authenticate", May::GoMissing, 34),
    // In the answer to a HEAD alone, after which no chunk comes; what follows chunks is compared
    // without exception.
    ("trailer", May::GoMissing, 34),
    ("x-hop", May::GoMissing, 34),
    // An answer that ended with its connection is chunked, so that its end can be seen.
    ("transfer-encoding", May::BeOfTheConnection, 34),
];

/// What the console saw: once from the client, once from Ludgate.
pub fn the_console_saw_the_same(direct: &[Message], through: &[Message]) {
    let starts = |seen: &[Message]| {
        seen.iter()
            .map(|message| message.start.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        starts(through),
        starts(direct),
        "the same requests in the same order"
    );
    let pairs = direct
        .iter()
        .zip(through)
        .map(|(direct, through)| (direct.start.as_str(), direct, through));
    compare(pairs, &TO_CONSOLE);
}

/// What the client was told: once by the console, once by Ludgate.
pub fn the_client_was_told_the_same(direct: &Told, through: &Told) {
    assert_eq!(direct.len(), through.len());
    let pairs = direct
        .iter()
        .zip(through)
        .map(|((asked, direct), (_, through))| (asked.as_str(), direct, through));
    compare(pairs, &TO_CLIENT);
}

/// All differences that nothing allows, at once. And every exception must have been met, so that
/// none stands in its table for nothing.
fn compare<'m>(
    pairs: impl Iterator<Item = (&'m str, &'m Message, &'m Message)>,
    exceptions: &[Exception],
) {
    let mut met = BTreeSet::new();
    let mut wrong = Vec::new();
    for (asked, direct, through) in pairs {
        if through.start != direct.start || through.truncated != direct.truncated {
            wrong.push(format!("{asked}: {} for {}", through.start, direct.start));
        }
        // Megabytes are not printed.
        if through.body != direct.body {
            wrong.push(format!(
                "{asked}: another body: {} bytes for {}",
                through.body.len(),
                direct.body.len()
            ));
        }
        let (direct, through) = (fields(direct), fields(through));
        for name in direct.keys().chain(through.keys()).collect::<BTreeSet<_>>() {
            let none = Vec::new();
            let (sent, came) = (
                direct.get(name).unwrap_or(&none),
                through.get(name).unwrap_or(&none),
            );
            if sent == came {
                continue;
            }
            match exceptions.iter().find(|(field, _, _)| field == name) {
                Some((field, may, _)) if allows(*may, sent, came) => {
                    met.insert(*field);
                }
                Some((_, may, row)) => {
                    wrong.push(format!(
                        "{asked}: {name}: {came:?} for {sent:?}; row {row}: {may:?}"
                    ));
                }
                None => wrong.push(format!("{asked}: {name}: {came:?} for {sent:?}")),
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differences:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert_eq!(
        met,
        exceptions.iter().map(|(field, _, _)| *field).collect(),
        "exceptions that were met"
    );
}

/// The values of each name in order, trailers under a name that no field can have.
fn fields(message: &Message) -> BTreeMap<String, Vec<String>> {
    let mut fields: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let text = |value: &[u8]| value.escape_ascii().to_string();
    for (name, value) in &message.headers {
        fields
            .entry(name.to_ascii_lowercase())
            .or_default()
            .push(text(value));
    }
    for (name, value) in &message.trailers {
        let line = format!("{}: {}", name.to_ascii_lowercase(), text(value));
        fields.entry(TRAILERS.to_owned()).or_default().push(line);
    }
    fields
}

fn allows(may: May, sent: &[String], came: &[String]) -> bool {
    match may {
        May::BeWritten => came.len() == 1 && !sent.contains(&came[0]),
        May::BeAdded => came.len() == sent.len() + 1 && came.starts_with(sent),
        May::GoMissing => came.is_empty(),
        May::BeOfTheConnection => true,
        May::LoseOurs => came.iter().eq(sent.iter().filter(|line| !names_ours(line))),
    }
}

/// Also where a browser would take it for one of ours: a cookie without a name is sent as its bare
/// value.
fn names_ours(line: &str) -> bool {
    let name = line
        .trim_start_matches('=')
        .split(['=', ';'])
        .next()
        .unwrap_or_default();
    [
        "ludgate",
        "__Host-ludgate",
        "__Host-ludgate-bind",
        "phapplication-session-id",
    ]
    .contains(&name)
}
