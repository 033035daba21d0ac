//! The table `[session]`.

use url::Url;

use super::{
    draft::{DraftTable, quoted},
    given::GivenOptions,
    options,
    report::ImportOutcome::NotNeeded,
    value::duration_text,
};

/// How long a session lives without use, if the file does not say so, in milliseconds.
const IDLE: u64 = 30 * 60 * 1000;

/// The table.
pub(crate) fn session(given: &GivenOptions) -> DraftTable {
    let mut table = DraftTable::new("[session]");
    match given.milliseconds("cookie_expire") {
        None => {}
        Some(0) => {
            let what = "a session ends at session.lifetime, 12 hours, also in an open browser";
            given.not_supported("cookie_expire", what);
        }
        Some(lifetime) => {
            table.set("lifetime", quoted(&duration_text(lifetime)));
            if lifetime < IDLE {
                table.set("idle", quoted(&duration_text(lifetime)));
            }
            let key = "session.lifetime; a session also ends after session.idle, 30 minutes \
                       without use";
            given.mapped("cookie_expire", key);
        }
    }
    let is_redis = given.text("session_store_type").as_deref() == Some("redis");
    if is_redis {
        redis(given, &mut table);
    } else {
        for (number, option) in given.each_of("redis_") {
            if !option.value.is_empty() && options::find(&option.option).is_some() {
                let what = "only with session_store_type = \"redis\"";
                given.answer_at(number, NotNeeded, what);
            }
        }
        let what = "sessions are in memory; session.hand_over_file keeps them over a restart";
        given.answer("session_store_type", NotNeeded, what);
        for option in ["cookie_secret", "cookie_secret_file"] {
            let what = "keys are made at each start, or are in session.keys_file";
            given.answer(option, NotNeeded, what);
        }
    }
    table
}

/// A Redis, or nothing where Ludgate cannot use it.
fn redis(given: &GivenOptions, table: &mut DraftTable) {
    let url = given.text("redis_connection_url");
    let store = url.as_deref().and_then(|url| store(url, given));
    let Some(store) = store else {
        let what = "session.store needs the address of one Redis: redis://host:6379, rediss:// \
                    with TLS, or redis+unix:///path; sessions are in memory";
        given.not_supported("session_store_type", what);
        given.not_supported("redis_connection_url", what);
        given.not_supported("redis_password", what);
        given.not_supported("redis_ca_path", what);
        for option in ["cookie_secret", "cookie_secret_file"] {
            given.answer(option, NotNeeded, "keys are made at each start");
        }
        return;
    };
    match &store.address {
        Some(address) => {
            table.set("store", quoted(address));
            given.mapped("redis_connection_url", "session.store");
        }
        None => {
            table.comment(
                "Write the address of Redis with its password into this file: \
                 redis://:password@host:6379",
            );
            table.set("store_file", quoted("session-store"));
            let key = "session.store_file; write the address with the password into the file \
                       session-store";
            given.mapped("redis_connection_url", key);
            given.mapped("redis_password", key);
        }
    }
    given.mapped("session_store_type", "session.store");
    match given.text("redis_ca_path") {
        Some(file) if store.has_tls => {
            table.set("store_ca", quoted(&file));
            given.mapped("redis_ca_path", "session.store_ca");
        }
        Some(_) | None => {
            given.answer("redis_ca_path", NotNeeded, "the address has no TLS");
        }
    }
    table.comment("New keys: openssl rand -base64 32 > session-keys");
    table.set("keys_file", quoted("session-keys"));
    for option in ["cookie_secret", "cookie_secret_file"] {
        let key = "session.keys_file; make new keys: openssl rand -base64 32 > session-keys";
        given.mapped(option, key);
    }
}

/// A Redis.
struct Store {
    /// Its address; `None` if it has a password.
    address: Option<String>,
    has_tls: bool,
}

/// The Redis of an address, if Ludgate can use it.
fn store(written: &str, given: &GivenOptions) -> Option<Store> {
    let one = |option| given.switch(option) != Some(true);
    let is_one = one("redis_use_sentinel") && one("redis_use_cluster");
    let url = Url::parse(written).ok().filter(|_| is_one)?;
    if url.query().is_some() || url.fragment().is_some() {
        return None;
    }
    let is_path = url.host_str().is_none_or(str::is_empty) && url.path().len() > 1;
    let database = url.path().trim_start_matches('/');
    let is_host = url.host_str().is_some_and(|host| !host.is_empty())
        && (database.is_empty() || database.parse::<u16>().is_ok_and(|number| number <= 9999));
    let has_password =
        given.has("redis_password") || url.password().is_some() || !url.username().is_empty();
    let (address, has_tls) = match url.scheme() {
        "redis" if is_host => (written.to_owned(), false),
        "rediss" if is_host => (written.to_owned(), true),
        "unix" if is_path => (format!("redis+unix://{}", url.path()), false),
        _ => return None,
    };
    Some(Store {
        address: Some(address).filter(|_| !has_password),
        has_tls,
    })
}
