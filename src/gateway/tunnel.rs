//! A WebSocket from its 101 to its end: listed as a stream, cut when it may not go on, logged when
//! it is over.

use std::{rc::Rc, time::Duration};

use http::Response;
use hyper::upgrade::OnUpgrade;

use super::{access_log::Record, answer::Answer, connection::Wire, still_allowed::StillAllowed};
use crate::{
    forward::{
        pooled::PooledConnection,
        tunnel::{TunnelUpstream, tunnel},
    },
    session::usage::Usage,
    streams::{Revocation, Streams},
};

/// A WebSocket that both sides agreed on.
pub struct Tunnel {
    /// The 101, for the client.
    pub head: Response<Answer>,
    /// The client's side.
    pub client: OnUpgrade,
    /// The app's side.
    pub upstream: OnUpgrade,
    /// Its place on the connection to the app.
    pub lease: PooledConnection,
    /// Kept alive by what the person sends.
    pub usage: Option<Usage>,
    /// Asked while it lives.
    pub question: Rc<StillAllowed>,
    /// The table it is listed in.
    pub streams: Rc<Streams>,
    /// It may be silent for this long.
    pub idle: Duration,
}

impl Tunnel {
    /// Begins to carry bytes once the 101 went out; the record speaks when the tunnel ends.
    pub fn start(self, mut record: Box<Record>, wire: Wire) -> Response<Answer> {
        let Tunnel {
            head,
            client,
            upstream,
            lease,
            usage,
            question,
            streams,
            idle,
        } = self;
        let upstream = TunnelUpstream {
            upgrade: upstream,
            pooled: lease,
        };
        wire.connection.switch_to_tunnel();
        // The drain waits for a farewell.
        let (permit, drain) = (
            wire.connection.permit.clone(),
            wire.connection.drain.clone(),
        );
        let busy = wire.into_busy();
        tokio::task::spawn_local(async move {
            let revocation = Rc::new(Revocation::default());
            let _registered = streams.register(revocation.clone(), move || question.ask());
            let carried = tunnel(client, upstream, usage, &revocation, drain, idle).await;
            record.add_bytes(carried.down);
            drop((permit, busy));
            if let Some(reason) = revocation.reason() {
                record.conclude(reason.as_str());
            }
        });
        head
    }
}
