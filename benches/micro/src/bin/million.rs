//! A million sessions: memory of each, and the latency of a look-up while a million expired
//! sessions are swept.
//!
//!   million [SESSIONS]        prints a Markdown table; needs some GiB of memory

use std::{
    cell::Cell,
    env, fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use ludgate::{
    model::{app::AppId, vhost::VirtualHost},
    session::{cookie::RecordKey, provider_tokens::ProviderTokens, Sessions},
};
use micro::{numbered_person, sessions, snapshot};
use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// App sessions per sign-in.
const PER_SIGN_IN: usize = 10;
/// Valid sessions that are looked up.
const LIVE: usize = 100_000;

fn main() {
    let many = env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000_000_usize);
    let users = many / PER_SIGN_IN;
    let snapshot = snapshot(PER_SIGN_IN);
    let (sessions, clock, manual_clock) = sessions(8 << 30);
    let sessions = Arc::new(sessions);
    let find_app =
        |number: usize| snapshot.find(&format!("app-{number}")).expect("an app").id().clone();
    let apps: Vec<_> = (0..PER_SIGN_IN).map(find_app).collect();
    // Each sign-in has its own user record.
    let without_people = resident();
    let people: Vec<_> = (0..users).map(numbered_person).collect();
    let with_people = resident();
    let sign_ins: Vec<_> = people
        .into_iter()
        .map(|person| sessions.store.begin(person, ProviderTokens::default()).expect("random bytes").1)
        .collect();
    sessions.store.count();
    let with_sign_ins = resident();
    for sign_in in &sign_ins {
        for app in &apps {
            sessions.store.mint(sign_in, app, &VirtualHost::Site, None).expect("random bytes");
        }
    }
    sessions.store.count();
    let full = resident();
    drop(sign_ins);
    println!("| | |\n|---|---|");
    println!("| user records, each with five groups | {users} of {} bytes each |", (with_people - without_people) / users);
    println!("| sign-ins, without user records | {users} of {} bytes each |", (with_sign_ins - with_people) / users);
    println!("| app sessions | {many} of {} bytes each |", (full - with_sign_ins) / many);
    // All sessions expire. Only those created now are looked up.
    manual_clock.advance(Duration::from_secs(24 * 3600));
    let live = begin_live(&sessions, &apps);
    let find = |session: &str, id: &str, app: &AppId| {
        let (session, id) = ([session.as_bytes()], [id.as_bytes()]);
        sessions.store.find(session.into_iter(), id.into_iter(), app, &VirtualHost::Site, clock.now()).is_some()
    };
    let hash = |session: &str, id: &str, _: &AppId| {
        [session, id].into_iter().all(|value| RecordKey::parse(value.as_bytes()).is_some())
    };
    let without_sweep = look_up(&live, find, || true);
    let swept = Arc::new(AtomicBool::new(false));
    let sweep = {
        let (sessions, swept) = (sessions.clone(), swept.clone());
        thread::spawn(move || {
            let began = Instant::now();
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            runtime.block_on(sessions.sweep());
            swept.store(true, Relaxed);
            began.elapsed()
        })
    };
    // Look-ups and hashes alternate. The hashes alone show the noise of the machine.
    let turns = Cell::new(0);
    let turn = |session: &str, id: &str, app: &AppId| {
        turns.set(turns.get() + 1);
        if turns.get() % 2 == 0 { find(session, id, app) } else { hash(session, id, app) }
    };
    let during_sweep = look_up(&live, turn, || !swept.load(Relaxed));
    let took = sweep.join().expect("swept");
    println!("| sweep | {took:.1?}, {} records left |", sessions.store.count());
    let every = |first: usize| during_sweep.iter().skip(first).step_by(2).copied().collect();
    for (when, mut times) in [
        ("look-up without a sweep", without_sweep),
        ("look-up during the sweep", every(1)),
        ("hashing the two cookies alone, during the sweep", every(0)),
    ] {
        times.sort_unstable();
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        println!(
            "| {when} | p50 {} ns, p99 {} ns, p99.9 {} ns of {} |",
            at(0.5),
            at(0.99),
            at(0.999),
            times.len()
        );
    }
}

type Cookies = (String, String, AppId);

fn begin_live(sessions: &Sessions, apps: &[AppId]) -> Vec<Cookies> {
    let begin = |number: usize| {
        let person = numbered_person(number);
        let (id, sign_in) =
            sessions.store.begin(person, ProviderTokens::default()).expect("random bytes");
        let app = apps[number % PER_SIGN_IN].clone();
        let (session, _) = sessions.store.mint(&sign_in, &app, &VirtualHost::Site, None).expect("random bytes");
        (id.as_str().to_owned(), session.as_str().to_owned(), app)
    };
    (0..LIVE).map(begin).collect()
}

/// Looks up one session every few microseconds while `goes_on`, for 20 seconds at most. Returns the
/// duration of each look-up in nanoseconds.
fn look_up(
    live: &[Cookies],
    find: impl Fn(&str, &str, &AppId) -> bool,
    goes_on: impl Fn() -> bool,
) -> Vec<u64> {
    let (began, mut times) = (Instant::now(), Vec::with_capacity(1 << 20));
    for number in 0.. {
        if !goes_on() || began.elapsed() > Duration::from_secs(20) || times.len() >= 1 << 20 {
            break;
        }
        let (id, session, app) = &live[number * 7919 % live.len()];
        let start = Instant::now();
        let found = find(session, id, app);
        times.push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        assert!(found, "a live session is found");
        thread::sleep(Duration::from_micros(1));
    }
    times
}

/// Resident memory of this process, in bytes.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("procfs");
    let line = status.lines().find(|line| line.starts_with("VmRSS")).expect("VmRSS");
    let kib: usize = line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).expect("a number");
    kib * 1024
}
