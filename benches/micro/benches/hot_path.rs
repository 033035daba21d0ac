//! The steps from a parsed head to an authorized request: each alone, and all together.

use divan::{AllocProfiler, Bencher, black_box};
use http::request::Parts;
use ludgate::{
    catalog::{lookup::Lookup, snapshot::Snapshot},
    gateway::{decide, locate::locate},
    incoming::{self, cookies},
    model::{
        arrival::Arrival,
        caller::{Caller, Credential},
        clock::Clock,
        destination::Destination,
        vhost::VirtualHost,
    },
    session::Sessions, live::Live,
};
use micro::{request, sessions, sign_in, snapshot};
use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: AllocProfiler<Jemalloc> = AllocProfiler::new(Jemalloc);

fn main() {
    divan::main();
}

struct World {
    snapshot: Snapshot,
    sessions: Sessions,
    clock: Clock,
    parts: Parts,
}

impl World {
    fn new(apps: usize) -> World {
        let snapshot = snapshot(apps);
        let (sessions, clock, _) = sessions(1 << 30);
        let (_, id, session) = sign_in(&sessions, &snapshot, "app-3");
        let parts = request(snapshot.site(), "/apps/app-3/api/kernels?1", &id, &session);
        World { snapshot, sessions, clock, parts }
    }

    fn arrival(&self) -> Arrival {
        incoming::parse(&self.parts, true, self.snapshot.site()).expect("a good head")
    }

    fn destination(&self, arrival: &Arrival) -> Destination {
        locate(arrival, &self.snapshot, &Lookup::Site).unwrap_or_else(|_| panic!("an app"))
    }

    fn find(&self, destination: &Destination) -> Option<Live> {
        let site = self.snapshot.site();
        let presented = cookies::scan(&self.parts.headers, &site.cookies, &VirtualHost::Site).expect("few cookies");
        let app = destination.app.id();
        self.sessions.store.find(presented.app.iter(), presented.sign_in.iter(), app, &VirtualHost::Site, self.clock.now())
    }

    fn is_allowed(&self, arrival: &Arrival, destination: Destination) -> bool {
        let live = self.find(&destination).expect("a session");
        let principal = live.sign_in().principal().clone();
        let caller = Caller::Person { principal, credential: Credential::Cookie };
        decide::judge(arrival, &caller, destination).is_ok()
    }
}

#[divan::bench]
fn parse(bencher: Bencher) {
    let world = World::new(10);
    bencher.bench_local(|| black_box(world.arrival()));
}

#[divan::bench(args = [10, 100_000])]
fn route(bencher: Bencher, apps: usize) {
    let world = World::new(apps);
    let arrival = world.arrival();
    bencher.bench_local(|| black_box(world.destination(&arrival)));
}

#[divan::bench]
fn look_up_session(bencher: Bencher) {
    let world = World::new(10);
    let destination = world.destination(&world.arrival());
    bencher.bench_local(|| black_box(world.find(&destination)));
}

/// The work of the gateway beyond a plain proxy: cookies, session, access rule.
#[divan::bench]
fn look_up_and_authorize(bencher: Bencher) {
    let world = World::new(10);
    let arrival = world.arrival();
    let destination = world.destination(&arrival);
    bencher.bench_local(|| black_box(world.is_allowed(&arrival, destination.clone())));
}

#[divan::bench(args = [10, 100_000])]
fn all_steps(bencher: Bencher, apps: usize) {
    let world = World::new(apps);
    bencher.bench_local(|| {
        let arrival = world.arrival();
        let destination = world.destination(&arrival);
        black_box(world.is_allowed(&arrival, destination))
    });
}
