//! A WebSocket from its 101 to its end: registered as a stream, closed when it may not go on,
//! logged when it ends.

use std::{rc::Rc, time::Duration};

use http::Response;
use hyper::upgrade::OnUpgrade;

use super::connection::HttpExchange;
use crate::{
    access_log::Entry,
    forward::tunnel::{TunnelUpstream, TunnelUses, tunnel},
    model::route_activity::RouteActivity,
    respond::body::ReplyBody,
    session::usage::Usage,
    streams::{Revocation, StreamPolicy, Streams},
};

/// A WebSocket that both sides accepted.
pub struct Tunnel {
    /// The 101, for the client.
    pub head: Response<ReplyBody>,
    /// The client's side.
    pub client: OnUpgrade,
    /// The app's side.
    pub upstream: TunnelUpstream,
    /// The session, kept alive by what the person sends.
    pub usage: Option<Usage>,
    /// The activity of a hub's route.
    pub route_activity: Option<RouteActivity>,
    /// Checked while it is open.
    pub policy: Rc<dyn StreamPolicy>,
    /// Where it is registered.
    pub streams: Rc<Streams>,
    /// The idle timeout.
    pub idle: Duration,
}

impl Tunnel {
    /// Carries bytes once the 101 is sent; the entry is logged when the tunnel ends.
    pub fn start(self, mut entry: Box<Entry>, exchange: HttpExchange) -> Response<ReplyBody> {
        let Tunnel {
            head,
            client,
            upstream,
            usage,
            route_activity,
            policy,
            streams,
            idle,
        } = self;
        let connection = &exchange.connection;
        connection.switch_to_tunnel();
        entry.copy_head();
        // The drain waits until the permit is dropped: after the Close frame.
        let permit = connection.permit.clone();
        let drain = connection.drain.clone();
        let busy = exchange.into_busy();
        tokio::task::spawn_local(async move {
            let revocation = Rc::new(Revocation::default());
            let _registered = streams.register(revocation.clone(), policy);
            let uses = TunnelUses {
                session: usage,
                route: route_activity,
            };
            let carried = tunnel(client, upstream, uses, &revocation, drain, idle).await;
            entry.bytes = carried.down;
            entry.revocation = revocation;
            drop((permit, busy));
        });
        head
    }
}
