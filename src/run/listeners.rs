//! Opens the listening sockets, and hands each data thread its own.

use std::{io, net::SocketAddr, sync::Arc};

use tokio::net::TcpListener;

use super::{
    certificates::ServedCertificates, context::Context, data_threads::ThreadListener,
    error::StartError,
};
use crate::{
    admin,
    gateway::Gateway,
    listener::{
        self, ListenError, ListenerSettings, Sockets,
        connection_limit::ConnectionLimit,
        fd_limit,
        metrics::ListenerMetrics,
        socket_activation::ActivatedSockets,
        tls::{Certificates, TlsSettings},
    },
    ops::admin::AdminSettings,
    peer::PeerSettings,
};

/// The settings of all listeners.
pub(super) struct ListenSettings {
    pub(super) first: ListenerSettings,
    pub(super) peers: PeerSettings,
    pub(super) others: Vec<ListenerSettings>,
    pub(super) admin: AdminSettings,
}

/// Open sockets, before anything serves them.
pub(super) struct BoundListeners {
    /// The address of the first public listener.
    pub(super) address: SocketAddr,
    public: Vec<PublicListener>,
    admin: Sockets,
    admin_settings: AdminSettings,
}

struct PublicListener {
    sockets: Sockets,
    settings: ListenerSettings,
    peers: PeerSettings,
}

/// Opens all sockets, one per data thread and public listener.
///
/// The admin socket is first: once the gateway accepts connections, its probes do too.
pub(super) fn bind(
    settings: ListenSettings,
    threads: usize,
    mut inherited: ActivatedSockets,
) -> Result<BoundListeners, StartError> {
    let takeover = settings.first.takeover;
    let admin = listener::bind(settings.admin.address, 1, takeover, &mut inherited)?;
    let configured = settings.first.address;
    let sockets = listener::bind(configured, threads, takeover, &mut inherited)?;
    // The system chooses the port if the configured one is 0.
    let address = match sockets.list.first() {
        Some(socket) => socket.local_addr()?,
        None => configured,
    };
    let mut public = vec![PublicListener {
        sockets,
        settings: settings.first,
        peers: settings.peers,
    }];
    for other in settings.others {
        let sockets = listener::bind(other.address, threads, other.takeover, &mut inherited)?;
        let peers = PeerSettings {
            trusted: other.trusted_proxies.clone(),
        };
        public.push(PublicListener {
            sockets,
            settings: other,
            peers,
        });
    }
    // Connections to a socket without an accept loop would hang for ever.
    if let Some(unclaimed) = inherited.unclaimed().next() {
        return Err(ListenError::Unclaimed(unclaimed).into());
    }
    Ok(BoundListeners {
        address,
        public,
        admin,
        admin_settings: settings.admin,
    })
}

impl BoundListeners {
    /// The ports of all sockets.
    pub(super) fn ports(&self) -> io::Result<Vec<u16>> {
        let public = self.public.iter().flat_map(|public| &public.sockets.list);
        let sockets = public.chain(&self.admin.list);
        sockets
            .map(|socket| socket.local_addr().map(|address| address.port()))
            .collect()
    }

    /// Serves the admin listener, and deals the public sockets out to the data threads. Returns
    /// the admin address and one list of sockets per thread.
    pub(super) fn start(
        self,
        threads: usize,
        gateway: &Arc<Gateway>,
        metrics: &Arc<ListenerMetrics>,
        context: &Context,
    ) -> Result<(SocketAddr, Vec<Vec<ThreadListener>>), StartError> {
        let certificates = Arc::new(ServedCertificates {
            all: self.public.iter().filter_map(tls_certificates).collect(),
            site: gateway.catalog.load().site().clone(),
            clock: context.clock.clone(),
        });
        let admin_address = serve_admin(
            self.admin,
            self.admin_settings,
            gateway,
            &certificates,
            context,
        )?;
        tokio::spawn(certificates.watch(metrics.clone()));
        let count = self.public.len().max(1);
        let mut per_thread: Vec<Vec<ThreadListener>> = (0..threads).map(|_| Vec::new()).collect();
        for public in self.public {
            let limit = fd_limit::max_connections(threads) / count;
            let shared = ConnectionLimit::new(&public.settings, limit, metrics.clone());
            let is_shared = public.sockets.are_shared;
            for (listeners, socket) in per_thread.iter_mut().zip(public.sockets.list) {
                listeners.push(ThreadListener {
                    socket,
                    is_shared,
                    settings: public.settings.clone(),
                    peers: public.peers.clone(),
                    limit: shared.clone(),
                });
            }
        }
        Ok((admin_address, per_thread))
    }
}

fn tls_certificates(public: &PublicListener) -> Option<Arc<Certificates>> {
    match &public.settings.tls {
        TlsSettings::Off => None,
        TlsSettings::On { certificates, .. } => Some(certificates.clone()),
    }
}

fn serve_admin(
    sockets: Sockets,
    settings: AdminSettings,
    gateway: &Arc<Gateway>,
    certificates: &Arc<ServedCertificates>,
    context: &Context,
) -> Result<SocketAddr, StartError> {
    let mut address = settings.address;
    for socket in sockets.list {
        address = socket.local_addr()?;
        let listener = TcpListener::from_std(socket)?;
        let configuration = context.process.configuration.clone();
        let server = admin::routes(context.process.admin(settings.token.clone()), gateway)
            .dependency("configuration", move || Some(configuration.status()))
            .dependency("certificates", {
                let certificates = certificates.clone();
                move || certificates.status()
            });
        tokio::spawn(server.serve(listener));
    }
    Ok(address)
}
