//! A million sessions: what each holds, and how long a look-up takes while a million that are over
//! are swept.
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
use micro::{sessions, snapshot, somebody};
use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// App sessions of one sign-in.
const EACH: usize = 10;
/// Of how many the look-ups are.
const LIVE: usize = 100_000;

fn main() {
    let many = env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000_000_usize);
    let snapshot = snapshot(EACH);
    let (sessions, clock, manual_clock) = sessions(8 << 30);
    let sessions = Arc::new(sessions);
    let apps: Vec<_> =
        (0..EACH).map(|number| snapshot.find(&format!("app-{number}")).expect("an app").id().clone()).collect();
    // Each has a person of its own, as each has signed in.
    let nobody = resident();
    let people: Vec<_> = (0..many / EACH).map(somebody).collect();
    let empty = resident();
    let sign_ins: Vec<_> = people
        .into_iter()
        .map(|person| sessions.store.begin(person, ProviderTokens::default()).expect("random bytes").1)
        .collect();
    sessions.store.count();
    let with_sign_ins = resident();
    for sign_in in &sign_ins {
        for app in &apps {
            sessions.store.mint(sign_in, app, &VirtualHost::Site).expect("random bytes");
        }
    }
    sessions.store.count();
    let full = resident();
    drop(sign_ins);
    println!("| | |\n|---|---|");
    println!("| people, each in five groups | {} of {} bytes each |", many / EACH, (empty - nobody) / (many / EACH));
    println!("| sign-ins | {} of {} bytes each |", many / EACH, (with_sign_ins - empty) / (many / EACH));
    println!("| app sessions | {many} of {} bytes each |", (full - with_sign_ins) / many);
    // All of them are over; those that begin now are looked up.
    manual_clock.advance(Duration::from_secs(24 * 3600));
    let live = begin_live(&sessions, &apps);
    let find = |session: &str, id: &str, app: &AppId| {
        let (session, id) = ([session.as_bytes()], [id.as_bytes()]);
        sessions.store.find(session.into_iter(), id.into_iter(), app, &VirtualHost::Site, clock.now()).is_some()
    };
    let hash = |session: &str, id: &str, _: &AppId| {
        [session, id].into_iter().all(|value| RecordKey::parse(value.as_bytes()).is_some())
    };
    let quiet = look_up(&live, find, || true);
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
    // By turns: what the machine does by itself is seen where nothing is looked up.
    let turns = Cell::new(0);
    let turn = |session: &str, id: &str, app: &AppId| {
        turns.set(turns.get() + 1);
        if turns.get() % 2 == 0 { find(session, id, app) } else { hash(session, id, app) }
    };
    let both = look_up(&live, turn, || !swept.load(Relaxed));
    let took = sweep.join().expect("swept");
    println!("| swept in | {took:.1?}, {} left |", sessions.store.count());
    let every = |first: usize| both.iter().skip(first).step_by(2).copied().collect();
    for (when, mut times) in [
        ("look-up with nothing beside", quiet),
        ("look-up while a million are swept", every(1)),
        ("the hashes of a look-up by themselves, at the same time", every(0)),
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
        let (id, sign_in) = sessions.store.begin(somebody(number), ProviderTokens::default()).expect("random bytes");
        let app = apps[number % EACH].clone();
        let (session, _) = sessions.store.mint(&sign_in, &app, &VirtualHost::Site).expect("random bytes");
        (id.as_str().to_owned(), session.as_str().to_owned(), app)
    };
    (0..LIVE).map(begin).collect()
}

/// Looks one up every few microseconds, for two seconds at most, for as long as it goes on;
/// nanoseconds of each.
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
        let asked = Instant::now();
        let found = find(session, id, app);
        times.push(u64::try_from(asked.elapsed().as_nanos()).unwrap_or(u64::MAX));
        assert!(found, "a live session is found");
        thread::sleep(Duration::from_micros(1));
    }
    times
}

/// Bytes of memory that the process has.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("procfs");
    let line = status.lines().find(|line| line.starts_with("VmRSS")).expect("VmRSS");
    let kib: usize = line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).expect("a number");
    kib * 1024
}
