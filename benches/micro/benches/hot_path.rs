//! The steps from a parsed head to an authorized request: each alone, and all together.

use divan::{AllocProfiler, Bencher, black_box};
use http::{HeaderValue, request::Parts};
use ludgate::{
    authorize,
    catalog::{lookup::Lookup, snapshot::Snapshot},
    decide,
    incoming::{self, IncomingRequest, cookies},
    model::{arrival::Arrival, client::Client, clock::Clock, destination::Destination, vhost::VirtualHost},
    session::{Sessions, live::Live},
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

    fn request(&self) -> IncomingRequest<'_> {
        let client = Client::at([127, 0, 0, 1].into());
        let id = HeaderValue::from_static("an-id");
        IncomingRequest::new(self.arrival(), &self.parts.headers, self.snapshot.site(), id, client)
    }

    fn destination(&self, request: &IncomingRequest<'_>) -> Destination {
        let target = decide::locate(request, &self.snapshot, &Lookup::Site);
        target.unwrap_or_else(|_| panic!("an app")).destination
    }

    fn find(&self, destination: &Destination) -> Option<Live> {
        let site = self.snapshot.site();
        let presented = cookies::scan(&self.parts.headers, &site.cookies, &VirtualHost::Site).expect("few cookies");
        let app = destination.app.id();
        self.sessions.store.find(presented.app.iter(), presented.sign_in.iter(), app, &VirtualHost::Site, self.clock.now())
    }

    fn is_allowed(&self, destination: Destination) -> bool {
        let live = self.find(&destination).expect("a session");
        let principal = live.sign_in().principal().clone();
        authorize::authorize(destination, Some(&principal), 0).is_ok()
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
    let request = world.request();
    bencher.bench_local(|| black_box(world.destination(&request)));
}

#[divan::bench]
fn look_up_session(bencher: Bencher) {
    let world = World::new(10);
    let destination = world.destination(&world.request());
    bencher.bench_local(|| black_box(world.find(&destination)));
}

/// The work of the gateway beyond a plain proxy: cookies, session, access rule.
#[divan::bench]
fn look_up_and_authorize(bencher: Bencher) {
    let world = World::new(10);
    let destination = world.destination(&world.request());
    bencher.bench_local(|| black_box(world.is_allowed(destination.clone())));
}

#[divan::bench(args = [10, 100_000])]
fn all_steps(bencher: Bencher, apps: usize) {
    let world = World::new(apps);
    bencher.bench_local(|| {
        let destination = world.destination(&world.request());
        black_box(world.is_allowed(destination))
    });
}
