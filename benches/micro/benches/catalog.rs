//! A change of one app among 100,000: building the next snapshot, and publishing it.

use std::{cell::Cell, collections::HashMap, time::Duration};

use divan::{Bencher, black_box};
use ludgate::{
    catalog::{Catalog, metrics::CatalogMetrics, snapshot::Snapshot},
    model::{policy_changes::PolicyChanges, app::AppSpec},
    ops::metrics::Registry,
};
use micro::settings;
use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

const APPS: usize = 100_000;

fn main() {
    divan::main();
}

struct World {
    catalog: Catalog,
    specs: Vec<AppSpec>,
    count: Cell<u64>,
}

impl World {
    fn new() -> World {
        let settings = settings(APPS, "http://127.0.0.1:9");
        let snapshot = Snapshot::new(settings.site, settings.apps.clone());
        let metrics = CatalogMetrics::register(&Registry::new()).into();
        let catalog = Catalog::new(snapshot, None, PolicyChanges::new(), metrics);
        World { catalog, specs: settings.apps, count: Cell::new(1) }
    }

    /// A copy of all specifications, in which one app has a new timeout.
    fn changed_specs(&self) -> Vec<AppSpec> {
        let mut specs = self.specs.clone();
        let timeout = Duration::from_millis(self.count.get());
        self.count.set(self.count.get() + 1);
        specs[APPS / 2].timeout = timeout;
        specs
    }
}

#[divan::bench(sample_count = 10, sample_size = 1)]
fn copy_all_specifications(bencher: Bencher) {
    let world = World::new();
    bencher.bench_local(|| world.changed_specs());
}

#[divan::bench(sample_count = 10, sample_size = 1)]
fn next_snapshot(bencher: Bencher) {
    let world = World::new();
    bencher.with_inputs(|| (world.catalog.load(), world.changed_specs())).bench_local_values(|(now, specs)| {
        let next = now.followed_by(black_box(specs), Vec::new(), HashMap::new());
        assert!(!next.is_same_as(&now));
        next
    });
}

#[divan::bench(sample_count = 10, sample_size = 1)]
fn publish_and_drop_previous(bencher: Bencher) {
    let world = World::new();
    bencher
        .with_inputs(|| world.catalog.load().followed_by(world.changed_specs(), Vec::new(), HashMap::new()))
        .bench_local_values(|next| world.catalog.publish(next));
}
