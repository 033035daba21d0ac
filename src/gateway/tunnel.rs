//! A WebSocket from its 101 to its end: listed as a stream, cut when it may not go on, logged when it is over.

use std::rc::Rc;

use http::Response;
use hyper::upgrade::OnUpgrade;

use super::{access_log::Record, answer::Answer, still_allowed::StillAllowed};
use crate::{
    forward::tunnel::tunnel,
    lifecycle::{
        drain::DrainWatcher,
        streams::{Cut, Streams},
    },
    listener::connection::Seat,
    session::usage::Usage,
};

/// A WebSocket that both sides agreed on.
pub struct Tunnel {
    /// The 101, for the client.
    pub head: Response<Answer>,
    /// The client's side.
    pub client: OnUpgrade,
    /// The app's side.
    pub upstream: OnUpgrade,
    /// Kept alive by what the person sends.
    pub usage: Option<Usage>,
    /// Asked while it lives.
    pub question: StillAllowed,
    /// The table it is listed in.
    pub streams: Rc<Streams>,
    /// Its place among the open connections.
    pub seat: Rc<Seat>,
    /// Tells that the process stops, and has it wait for a farewell.
    pub drain: DrainWatcher,
}

impl Tunnel {
    /// Begins to carry bytes once the 101 went out; the record speaks when the tunnel ends.
    pub fn start(self, mut record: Record) -> Response<Answer> {
        let Tunnel { head, client, upstream, usage, question, streams, seat, drain } = self;
        tokio::task::spawn_local(async move {
            let cut = Rc::new(Cut::default());
            let _listed = streams.list(cut.clone(), move || question.ask());
            let carried = tunnel(client, upstream, usage, &cut, drain).await;
            record.add_bytes(carried.down);
            drop(seat);
            if let Some(reason) = cut.reason() {
                record.conclude(reason.as_str());
            }
        });
        head
    }
}
