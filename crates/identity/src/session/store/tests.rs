//! The store: how long records live, which ones are found, and which ones make room.

use std::time::Duration;

use super::*;
use crate::{
    model::{clock::ManualClock, principal::PersonClaims},
    ops::metrics::Registry,
};

const MINUTE: Duration = Duration::from_secs(60);

fn metrics() -> Arc<SessionMetrics> {
    SessionMetrics::register(&Registry::new()).into()
}

fn store() -> (SessionStore, Clock, ManualClock) {
    let (clock, manual_clock) = Clock::manual();
    let sessions = SessionStore::new(
        SessionSettings::default(),
        clock.clone(),
        PolicyChanges::new(),
        metrics(),
        None,
    );
    (sessions, clock, manual_clock)
}

fn person(subject: &str) -> Arc<Principal> {
    Arc::new(Principal::new(
        PersonClaims {
            subject: subject.into(),
            ..PersonClaims::default()
        },
        &[],
    ))
}

fn sign_in(sessions: &SessionStore, subject: &str) -> (NewId, Arc<SignIn>) {
    sessions
        .begin(person(subject), ProviderTokens::default())
        .expect("random bytes")
}

fn find(
    sessions: &SessionStore,
    app: &[&str],
    sign_in: &[&str],
    id: &AppId,
    now: Moment,
) -> Option<Live> {
    let bytes = |list: &[&str]| {
        list.iter()
            .map(|t| t.as_bytes().to_vec())
            .collect::<Vec<_>>()
    };
    let (app, sign_in) = (bytes(app), bytes(sign_in));
    sessions.find(
        app.iter().map(Vec::as_slice),
        sign_in.iter().map(Vec::as_slice),
        id,
        &VirtualHost::Site,
        now,
    )
}

/// The session at `grp` for the cookies of one app session and one sign-in.
fn find_at_grp(sessions: &SessionStore, app: &NewId, sign_in: &NewId, now: Moment) -> Option<Live> {
    find(sessions, &[app.as_str()], &[sign_in.as_str()], &grp(), now)
}

fn grp() -> AppId {
    AppId::new("grp").expect("an id")
}

/// An app session for `grp` on the site.
fn mint(sessions: &SessionStore, owner: &Arc<SignIn>) -> NewId {
    let minted = sessions.mint(owner, &grp(), &VirtualHost::Site, None);
    minted.expect("a session").0
}

#[test]
fn a_session_unused_for_thirty_minutes_is_gone_and_not_a_second_earlier() {
    let (sessions, clock, manual_clock) = store();
    let (owner_id, owner) = sign_in(&sessions, "alice");
    let id = mint(&sessions, &owner);
    manual_clock.advance(30 * MINUTE - Duration::from_secs(1));
    assert!(find_at_grp(&sessions, &id, &owner_id, clock.now()).is_some());
    manual_clock.advance(Duration::from_secs(1));
    assert!(find_at_grp(&sessions, &id, &owner_id, clock.now()).is_none());
}

#[test]
fn a_session_in_constant_use_ends_at_its_lifetime() {
    let (sessions, clock, manual_clock) = store();
    let (owner_id, owner) = sign_in(&sessions, "alice");
    let id = mint(&sessions, &owner);
    for _ in 0..35 {
        manual_clock.advance(20 * MINUTE);
        let live = find_at_grp(&sessions, &id, &owner_id, clock.now()).expect("in use");
        sessions.touch(&live, clock.now());
    }
    manual_clock.advance(20 * MINUTE);
    assert!(
        find_at_grp(&sessions, &id, &owner_id, clock.now()).is_none(),
        "12 h are over"
    );
}

#[test]
fn looking_is_not_using() {
    let (sessions, clock, manual_clock) = store();
    let (owner_id, owner) = sign_in(&sessions, "alice");
    let id = mint(&sessions, &owner);
    for _ in 0..3 {
        manual_clock.advance(10 * MINUTE);
        let _ = find_at_grp(&sessions, &id, &owner_id, clock.now());
    }
    assert!(find_at_grp(&sessions, &id, &owner_id, clock.now()).is_none());
}

#[test]
fn using_an_app_keeps_the_sign_in_alive_and_an_app_session_never_outlives_it() {
    let (sessions, clock, manual_clock) = store();
    let (sign_in_id, owner) = sign_in(&sessions, "alice");
    let id = mint(&sessions, &owner);
    manual_clock.advance(20 * MINUTE);
    let live = find_at_grp(&sessions, &id, &sign_in_id, clock.now()).expect("live");
    sessions.touch(&live, clock.now());
    manual_clock.advance(20 * MINUTE);
    assert!(find(&sessions, &[], &[sign_in_id.as_str()], &grp(), clock.now()).is_some());
    sessions.revoke(&owner);
    assert!(find_at_grp(&sessions, &id, &sign_in_id, clock.now()).is_none());
    assert!(find(&sessions, &[], &[sign_in_id.as_str()], &grp(), clock.now()).is_none());
}

#[test]
fn a_session_counts_for_its_own_app_and_its_own_sign_in_only() {
    let (sessions, clock, _hands) = store();
    let (alice_id, alice) = sign_in(&sessions, "alice");
    let (bob_id, _bob) = sign_in(&sessions, "bob");
    let id = mint(&sessions, &alice);
    let now = clock.now();
    let other = AppId::new("grp2").expect("an id");
    assert!(find(&sessions, &[id.as_str()], &[], &other, now).is_none());
    let with_sign_in = find_at_grp(&sessions, &id, &alice_id, now);
    assert!(matches!(with_sign_in, Some(Live::App(_))));
    assert!(
        find(&sessions, &[id.as_str()], &[], &grp(), now).is_none(),
        "planted from a sibling host"
    );
    let found = find_at_grp(&sessions, &id, &bob_id, now).expect("bob");
    assert!(matches!(found, Live::SignIn(person) if &*person.principal().subject == "bob"));
    assert!(find(&sessions, &[id.as_str()], &["nonsense"], &grp(), now).is_none());
}

#[test]
fn of_two_cookies_with_one_name_exactly_one_must_hold() {
    let (sessions, clock, _hands) = store();
    let (alice, _) = sign_in(&sessions, "alice");
    let (bob, _) = sign_in(&sessions, "bob");
    let planted = "x".repeat(43);
    let now = clock.now();
    assert!(find(&sessions, &[], &[&planted, alice.as_str()], &grp(), now).is_some());
    assert!(find(&sessions, &[], &[bob.as_str(), alice.as_str()], &grp(), now).is_none());
}

#[test]
fn on_a_host_of_its_own_and_after_a_token_an_app_session_needs_no_other_cookie() {
    let (sessions, clock, _hands) = store();
    let now = clock.now();
    let (_, alice) = sign_in(&sessions, "alice");
    let host = VirtualHost::Port(2000);
    let (id, _) = sessions
        .mint(&alice, &grp(), &host, None)
        .expect("a session");
    let cookies = || [id.as_str().as_bytes()].into_iter();
    assert!(
        sessions
            .find(cookies(), std::iter::empty(), &grp(), &host, now)
            .is_some()
    );
    let tokens = ProviderTokens {
        source_token: Some(crate::model::secret::Secret::new("v2/token")),
        ..ProviderTokens::default()
    };
    let by_token =
        sessions.begin_for_token(RecordKey::from_token("v2/token"), person("bob"), tokens);
    let id = mint(&sessions, &by_token);
    assert!(find(&sessions, &[id.as_str()], &[], &grp(), now).is_some());
}

#[test]
fn planted_app_cookies_neither_hide_the_real_one_nor_count() {
    let (sessions, clock, _hands) = store();
    let (alice_id, alice) = sign_in(&sessions, "alice");
    let (_, mallory) = sign_in(&sessions, "mallory");
    let id = mint(&sessions, &alice);
    let planted: Vec<_> = (0..30)
        .filter_map(|_| sessions.mint(&mallory, &grp(), &VirtualHost::Site, None))
        .map(|(id, _)| id)
        .collect();
    let mut cookies: Vec<&str> = planted.iter().map(NewId::as_str).collect();
    assert!(find(&sessions, &cookies, &[], &grp(), clock.now()).is_none());
    cookies.push(id.as_str());
    let found = find(
        &sessions,
        &cookies,
        &[alice_id.as_str()],
        &grp(),
        clock.now(),
    );
    assert!(matches!(found, Some(Live::App(session)) if session.key() == id.key()));
}

#[tokio::test]
async fn a_sweep_forgets_what_is_over_and_nothing_else() {
    let (sessions, clock, manual_clock) = store();
    let (old, owner) = sign_in(&sessions, "alice");
    let _ = sessions.mint(&owner, &grp(), &VirtualHost::Site, None);
    manual_clock.advance(31 * MINUTE);
    let (fresh, _) = sign_in(&sessions, "bob");
    sessions.sweep().await;
    assert_eq!(sessions.count(), 1);
    assert!(find(&sessions, &[], &[old.as_str()], &grp(), clock.now()).is_none());
    assert!(find(&sessions, &[], &[fresh.as_str()], &grp(), clock.now()).is_some());
}

#[test]
fn a_sign_in_that_had_to_make_room_takes_its_app_sessions_with_it() {
    let (clock, _hands) = Clock::manual();
    let settings = SessionSettings {
        sign_in_bytes: 4 * 1024,
        ..SessionSettings::default()
    };
    let sessions = SessionStore::new(
        settings,
        clock.clone(),
        PolicyChanges::new(),
        metrics(),
        None,
    );
    let (_, first) = sign_in(&sessions, "alice");
    let app_cookie = mint(&sessions, &first);
    for n in 0..50 {
        let _ = sign_in(&sessions, &format!("bob-{n}"));
    }
    let (newest, _) = sign_in(&sessions, "carol");
    let _ = sessions.count();
    assert!(find(&sessions, &[app_cookie.as_str()], &[], &grp(), clock.now()).is_none());
    assert!(
        find(&sessions, &[], &[newest.as_str()], &grp(), clock.now()).is_some(),
        "the newest is kept"
    );
}

#[test]
fn the_fifty_first_sign_in_of_a_person_ends_their_oldest_only() {
    let (sessions, _, _hands) = store();
    let (_, others) = sign_in(&sessions, "bob");
    let mine: Vec<_> = (0..51).map(|_| sign_in(&sessions, "alice").1).collect();
    let live = |sign_in: &Arc<SignIn>| sign_in.is_live(sessions.clock.now());
    assert!(!live(&mine[0]) && mine[1..].iter().all(live) && live(&others));
}

#[test]
fn a_client_that_keeps_no_cookie_cannot_fill_the_store() {
    let (sessions, _, _hands) = store();
    let (owner_id, owner) = sign_in(&sessions, "alice");
    let first = mint(&sessions, &owner);
    for _ in 0..1000 {
        assert!(
            sessions
                .mint(&owner, &grp(), &VirtualHost::Site, None)
                .is_some(),
            "and is not locked out for it"
        );
    }
    let other = AppId::new("grp2").expect("an id");
    for n in 0..1000 {
        let _ = sessions.mint(&owner, &other, &VirtualHost::Port(n), None);
    }
    let last = mint(&sessions, &owner);
    assert_eq!(sessions.count(), 1 + 256);
    let now = sessions.clock.now();
    let found = |id: &NewId| find_at_grp(&sessions, id, &owner_id, now);
    assert!(matches!(found(&first), Some(Live::SignIn(_))));
    assert!(matches!(found(&last), Some(Live::App(_))));
}

#[test]
fn a_session_with_an_idle_time_of_its_own_expires_earlier_than_its_sign_in() {
    let (sessions, clock, manual_clock) = store();
    let (_, owner) = sign_in(&sessions, "alice");
    let mint = |idle: Duration| {
        let minted = sessions.mint(&owner, &grp(), &VirtualHost::Site, Some(idle));
        minted.expect("a session").1
    };
    let (short, long) = (mint(5 * MINUTE), mint(60 * MINUTE));
    assert_eq!(short.own_idle(), Some(5 * MINUTE));
    for _ in 0..3 {
        manual_clock.advance(4 * MINUTE);
        sessions.touch(&Live::App(short.clone()), clock.now());
    }
    assert!(short.is_live(clock.now()), "it was used");
    manual_clock.advance(5 * MINUTE);
    assert!(!short.is_live(clock.now()) && owner.is_live(clock.now()));
    manual_clock.advance(13 * MINUTE);
    assert!(!long.is_live(clock.now()), "30 min are the most");
}

#[test]
fn a_sign_in_is_recent_by_its_age_and_not_by_its_use() {
    let (sessions, clock, manual_clock) = store();
    let (_, owner) = sign_in(&sessions, "alice");
    let is_recent = || sessions.is_recent(&owner, 10 * MINUTE);
    assert!(is_recent());
    manual_clock.advance(10 * MINUTE);
    sessions.touch(&Live::SignIn(owner.clone()), clock.now());
    assert!(is_recent());
    manual_clock.advance(Duration::from_secs(6));
    sessions.touch(&Live::SignIn(owner.clone()), clock.now());
    assert!(!is_recent());
}
