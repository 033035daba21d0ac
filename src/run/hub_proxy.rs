//! Starts the API by which a JupyterHub adds routes.

use std::{net::SocketAddr, sync::Arc};

use super::{admin_listener::open, context::Context, error::StartError};
use crate::{
    catalog::hub_routes::HubRoutes,
    hub_proxy::{HubProxyApi, HubProxySettings},
};

/// The API that runs, and the routes that it changes.
pub(super) struct StartedHubProxy {
    pub(super) address: SocketAddr,
    pub(super) routes: Arc<HubRoutes>,
}

/// Opens the listener and serves it; `None`: no hub may add routes.
pub(super) fn start(
    settings: Option<HubProxySettings>,
    context: &Context,
) -> Result<Option<StartedHubProxy>, StartError> {
    let Some(settings) = settings else {
        return Ok(None);
    };
    let listener = open(settings.address)?;
    let address = listener.local_addr()?;
    let changes = context.policy_changes.clone();
    let routes = HubRoutes::new(settings.routes, context.clock.clone(), changes);
    let routes = Arc::new(routes);
    let api = HubProxyApi::new(settings.token, routes.clone());
    tokio::spawn(api.serve(listener, context.process.drain.watcher()));
    Ok(Some(StartedHubProxy { address, routes }))
}
