//! Which apps there are: an immutable [`Snapshot`](snapshot::Snapshot), swapped whole.

pub mod here;
pub mod snapshot;

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::{
    lifecycle::streams::Alarm,
    model::{
        app::{App, AppId},
        place::Place,
    },
    telemetry::metrics::Metrics,
};
use here::Here;
use snapshot::Snapshot;

/// The snapshot in force. Cloning gives the same catalogue.
#[derive(Clone, Debug)]
pub struct Catalog {
    current: Arc<ArcSwap<Snapshot>>,
    alarm: Alarm,
    metrics: Arc<Metrics>,
}

impl Catalog {
    /// A catalogue that begins with this snapshot.
    pub fn new(first: Snapshot, alarm: Alarm, metrics: Arc<Metrics>) -> Catalog {
        let catalog = Catalog { current: Arc::new(ArcSwap::from_pointee(first)), alarm, metrics };
        catalog.count();
        catalog
    }

    /// The snapshot in force; a request loads it once and keeps it to its end.
    pub fn load(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// Puts another snapshot in force, all at once, and has every stream judged by it.
    pub fn publish(&self, next: Snapshot) {
        self.current.store(Arc::new(next));
        self.count();
        self.alarm.ring();
    }

    /// What is at a place.
    pub async fn at(&self, place: &Place, snapshot: &Snapshot) -> Here {
        snapshot.at(place)
    }

    /// The app of that name as it is published now at a place; `None` when it is there no longer.
    pub fn still(&self, app: &AppId, place: &Place) -> Option<Arc<App>> {
        let snapshot = self.load();
        let found = match place {
            Place::Site => snapshot.find(app.as_str()),
            Place::Host(label) => snapshot.at_host(label),
            Place::Port(_) => None,
        };
        found.filter(|found| found.id() == app).cloned()
    }

    fn count(&self) {
        self.metrics.catalog_apps.set(i64::try_from(self.load().len()).unwrap_or(i64::MAX));
    }
}
