//! Everything that requests are judged by, at one moment: the site and its apps.

use std::{collections::HashMap, sync::Arc};

use crate::model::{
    app::{App, AppId, AppSpec},
    site::Site,
};

/// The site and its apps. Immutable; a change is a new snapshot.
#[derive(Debug)]
pub struct Snapshot {
    site: Arc<Site>,
    apps: HashMap<AppId, Arc<App>>,
}

impl Snapshot {
    /// Publishes the apps on the site; of two with one id the later stands (the configuration refuses two).
    pub fn new(site: Arc<Site>, specs: impl IntoIterator<Item = AppSpec>) -> Snapshot {
        let apps = specs
            .into_iter()
            .map(|spec| (spec.id.clone(), Arc::new(App::hosted(spec, &site.apps_prefix))))
            .collect();
        Snapshot { site, apps }
    }

    /// The site.
    pub fn site(&self) -> &Arc<Site> {
        &self.site
    }

    /// The app of that id.
    pub fn find(&self, id: &str) -> Option<&Arc<App>> {
        self.apps.get(id)
    }

    /// All apps, in no order.
    pub fn apps(&self) -> impl Iterator<Item = &Arc<App>> {
        self.apps.values()
    }

    /// How many apps there are.
    pub fn len(&self) -> usize {
        self.apps.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.apps.is_empty()
    }
}
