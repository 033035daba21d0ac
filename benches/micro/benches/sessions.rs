//! The session store: look-ups from one and two threads, and new sessions at its capacity.

use std::sync::{
    OnceLock,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use divan::{AllocProfiler, Bencher, black_box};
use ludgate::{
    catalog::snapshot::Snapshot,
    model::{clock::Clock, vhost::VirtualHost},
    session::{
        provider_tokens::ProviderTokens,
        Sessions, live::Live,
    },
};
use micro::{numbered_person, person, sessions, sign_in_of, snapshot};
use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: AllocProfiler<Jemalloc> = AllocProfiler::new(Jemalloc);

const MANY: usize = 100_000;

fn main() {
    divan::main();
}

struct World {
    snapshot: Snapshot,
    sessions: Sessions,
    clock: Clock,
    cookies: Vec<(String, String)>,
    next: AtomicUsize,
}

impl World {
    fn new(bytes: u64) -> World {
        let snapshot = snapshot(10);
        let (sessions, clock, _) = sessions(bytes);
        let cookies = (0..MANY).map(|number| {
            let (_, id, session) = sign_in_of(numbered_person(number), &sessions, &snapshot, "app-3");
            (id, session)
        });
        let cookies = cookies.collect();
        World { snapshot, sessions, clock, cookies, next: AtomicUsize::new(0) }
    }

    fn find(&self, number: usize) -> Option<Live> {
        let (id, session) = &self.cookies[number % MANY];
        let app = self.snapshot.find("app-3").expect("an app");
        let (session, id) = ([session.as_bytes()], [id.as_bytes()]);
        self.sessions.store.find(session.into_iter(), id.into_iter(), app.id(), &VirtualHost::Site, self.clock.now())
    }
}

fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| World::new(1 << 30))
}

/// The same session each time, as of a browser with many requests.
#[divan::bench(threads = [1, 2])]
fn find_one(bencher: Bencher) {
    let world = world();
    bencher.bench(|| black_box(world.find(7)));
}

/// Another of 100,000 sessions each time, so its data is not in the processor's caches.
#[divan::bench(threads = [1, 2])]
fn find_any(bencher: Bencher) {
    let world = world();
    // A step that is coprime to the number of sessions visits all of them.
    bencher.bench(|| black_box(world.find(world.next.fetch_add(7919, Relaxed))));
}

/// A cookie of no session.
#[divan::bench]
fn find_none(bencher: Bencher) {
    let world = world();
    let app = world.snapshot.find("app-3").expect("an app");
    let made_up = ["A".repeat(43)];
    bencher.bench(|| {
        let cookies = made_up.iter().map(String::as_bytes);
        black_box(world.sessions.store.find(cookies, std::iter::empty(), app.id(), &VirtualHost::Site, world.clock.now()))
    });
}

/// A sign-in and a session in a full store: each new one evicts another.
#[divan::bench]
fn begin_at_capacity(bencher: Bencher) {
    let (snapshot, person) = (snapshot(10), person());
    let (sessions, ..) = sessions(10 << 20);
    let app = snapshot.find("app-3").expect("an app");
    bencher.bench(|| {
        let (_, sign_in) = sessions.store.begin(person.clone(), ProviderTokens::default()).expect("random bytes");
        black_box(sessions.store.mint(&sign_in, app.id(), &VirtualHost::Site, None))
    });
}
