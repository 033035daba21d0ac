//! What HTTP/1.1 and HTTP/2 connections have in common.

use std::sync::Arc;

use super::{
    exchange::Exchanges,
    metrics::ListenerMetrics,
    service::{AcceptedStream, MakeService, NewConnection},
    settings::ListenerSettings,
    timeouts::ConnectionActivity,
    tls::ServedCertificate,
};
use crate::ops::drain::DrainWatcher;

/// Serves one connection in the HTTP version that it speaks.
pub(super) struct HttpServer<'c, M> {
    pub(super) settings: &'c ListenerSettings,
    pub(super) make_service: &'c M,
    pub(super) metrics: &'c ListenerMetrics,
    pub(super) drain: DrainWatcher,
    pub(super) certificate: Option<ServedCertificate>,
}

impl<M: MakeService> HttpServer<'_, M> {
    /// The stream of the connection, and the service of its requests.
    pub(super) fn connect<T>(
        &mut self,
        accepted: AcceptedStream<T>,
        activity: &Arc<ConnectionActivity>,
        exchanges: Exchanges,
    ) -> (T, M::Service) {
        let service = self.make_service.connected(NewConnection {
            address: accepted.address,
            permit: accepted.permit,
            certificate: self.certificate.take(),
            drain: self.drain.clone(),
            head_fields: self.settings.head_fields,
            activity: activity.clone(),
            exchanges,
        });
        (accepted.stream, service)
    }
}
