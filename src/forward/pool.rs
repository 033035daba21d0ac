//! Connections to apps, kept for the next request; one pool per data thread.
//!
//! The key is the app as published: when an app is published anew, with another address or the same, its
//! old connections are not used again. Last in, first out, so that few connections stay warm.

use std::{
    cell::{OnceCell, RefCell},
    collections::HashMap,
    rc::{Rc, Weak},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use http::{Request, Response};
use hyper::{body::Incoming, client::conn::http1::SendRequest};
use prometheus_client::metrics::gauge::Gauge;
use rustls::ClientConfig;

use super::{
    Settings,
    body::{Upload, UploadProgress, UploadState},
    connect,
    fault::Fault,
    proof::Proof,
};
use crate::{
    model::app::{App, UpstreamScheme},
    trust::{self, app::Distrust},
};

/// The connections of one data thread.
pub struct Pool {
    apps: RefCell<HashMap<usize, OfApp>>,
    /// For all containers, whose certificates say nothing.
    containers: OnceCell<Arc<ClientConfig>>,
    settings: Settings,
    open: Gauge,
}

struct OfApp {
    /// Keeps the address that is the key from being given to another app, and not the app itself: others count
    /// by that who still uses it.
    app: std::sync::Weak<App>,
    idle: Vec<Idle>,
    tls: Option<Arc<ClientConfig>>,
}

struct Idle {
    sender: SendRequest<Upload>,
    heard: Arc<AtomicBool>,
    proof: Option<Rc<Proof>>,
    near: usize,
    since: Instant,
}

/// A connection for one request. Dropped, it is closed; given back, it may be used again.
pub struct Lease {
    sender: SendRequest<Upload>,
    heard: Arc<AtomicBool>,
    proof: Option<Rc<Proof>>,
    used_before: bool,
    app: Arc<App>,
    near: usize,
    pool: Weak<Pool>,
}

impl Pool {
    /// An empty pool.
    pub fn new(settings: Settings, open: Gauge) -> Rc<Pool> {
        Rc::new(Pool { apps: RefCell::default(), containers: OnceCell::new(), settings, open })
    }

    /// A kept connection that is open and has nothing outstanding, if there is one. `near` says which of several
    /// pods it was opened for.
    pub fn take(self: &Rc<Self>, app: &Arc<App>, near: usize) -> Option<Lease> {
        let mut apps = self.apps.borrow_mut();
        let idle = &mut apps.get_mut(&key(app))?.idle;
        idle.retain(|connection| {
            !connection.sender.is_closed() && connection.since.elapsed() < self.settings.idle
        });
        let fits = |connection: &Idle| connection.near == near && connection.sender.is_ready();
        let at = idle.iter().rposition(fits)?;
        let Idle { sender, heard, proof, .. } = idle.swap_remove(at);
        let (app, pool) = (app.clone(), Rc::downgrade(self));
        Some(Lease { sender, heard, proof, used_before: true, app, near, pool })
    }

    /// A new connection; to the pod that `near` names, or another one if that takes none.
    ///
    /// # Errors
    /// Those of [`connect::open`].
    pub async fn connect(self: &Rc<Self>, app: &Arc<App>, near: usize) -> Result<Lease, Fault> {
        let tls = self.tls(app)?;
        let opened = connect::open(app, near, tls, &self.settings, &self.open).await?;
        Ok(Lease {
            sender: opened.sender,
            heard: opened.heard,
            proof: opened.proof.map(Rc::new),
            used_before: false,
            app: app.clone(),
            near,
            pool: Rc::downgrade(self),
        })
    }

    /// Closes what was not used for the idle time and forgets apps without connections.
    pub fn expire(&self) {
        self.apps.borrow_mut().retain(|_, of_app| {
            of_app.idle.retain(|connection| {
                !connection.sender.is_closed() && connection.since.elapsed() < self.settings.idle
            });
            // The TLS configuration of an app that is still published is kept: it was read from files.
            !of_app.idle.is_empty() || (of_app.tls.is_some() && of_app.app.strong_count() > 0)
        });
    }

    /// Expires now and then; never ends.
    pub async fn keep_tidy(self: Rc<Self>) {
        let mut tick = tokio::time::interval(self.settings.idle.max(Duration::from_secs(1)) / 2);
        loop {
            tick.tick().await;
            self.expire();
        }
    }

    fn tls(&self, app: &Arc<App>) -> Result<Option<Arc<ClientConfig>>, Fault> {
        match app.spec.upstream.scheme {
            UpstreamScheme::Http | UpstreamScheme::Unix(_) | UpstreamScheme::Pods(_) => return Ok(None),
            UpstreamScheme::Container(_) => {
                let containers = || trust::of_any_certificate();
                return Ok(Some(self.containers.get_or_init(containers).clone()));
            }
            UpstreamScheme::Https => {}
        }
        let mut apps = self.apps.borrow_mut();
        let of_app = apps.entry(key(app)).or_insert_with(|| OfApp::new(app));
        if of_app.tls.is_none() {
            let config = trust::app::client(&app.spec.tls).map_err(|error| {
                tracing::debug!(app = %app.id(), %error, "no TLS towards the app");
                Fault::Tls(Distrust::Handshake)
            });
            of_app.tls = Some(config?);
        }
        Ok(of_app.tls.clone())
    }
}

impl OfApp {
    fn new(app: &Arc<App>) -> OfApp {
        OfApp { app: Arc::downgrade(app), idle: Vec::new(), tls: None }
    }
}

/// A request that got no answer.
pub struct Failed {
    /// Why.
    pub fault: Fault,
    /// The request itself, when not a byte of it was written.
    pub unsent: Option<Box<Request<Upload>>>,
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Failed {
        Failed { fault, unsent: None }
    }
}

impl Lease {
    /// Sends one request and waits for the head of its answer.
    ///
    /// The app has at least the deadline, and at most twice that, from the last byte of the upload; while bytes
    /// move it owes nothing. An upload that stands still for as long ends too, as the client's fault.
    ///
    /// # Errors
    /// [`Fault::DiedUnanswered`] only when the connection was used before and not one byte came back.
    pub async fn send(
        mut self,
        mut request: Request<Upload>,
        upload: &UploadState,
        deadline: Duration,
    ) -> Result<(Response<Incoming>, Lease), Failed> {
        self.heard.store(false, Ordering::Relaxed);
        if let Some(proof) = &self.proof {
            proof.show(request.headers_mut());
        }
        let mut answer = std::pin::pin!(self.sender.try_send_request(request));
        let mut sent = 0;
        let result = loop {
            match tokio::time::timeout(deadline, answer.as_mut()).await {
                Ok(result) => break result,
                // Bytes moved in this window, perhaps until just now: the app gets a whole window after them.
                Err(_) if upload.sent() > sent => {
                    sent = upload.sent();
                }
                Err(_) if upload.progress() == UploadProgress::Running => {
                    return Err(Fault::UploadStalled.into());
                }
                Err(_) => return Err(Fault::HeadTimeout.into()),
            }
        };
        match result {
            Ok(mut response) => {
                if let Some(proof) = &self.proof {
                    // Dropped with its lease, the connection is closed.
                    proof.check(response.headers_mut())?;
                }
                Ok((response, self))
            }
            Err(mut failed) => {
                let unsent = failed.take_message().map(Box::new);
                let error = failed.error();
                tracing::debug!(app = %self.app.id(), %error, "the app gave no answer");
                let heard = self.heard.load(Ordering::Relaxed);
                let fault = match upload.progress() {
                    UploadProgress::Broken => Fault::ClientBody,
                    UploadProgress::TooLarge => Fault::TooLarge,
                    UploadProgress::Running | UploadProgress::Done if error.is_parse() => Fault::BadAnswer,
                    UploadProgress::Running | UploadProgress::Done if self.used_before && !heard => {
                        Fault::DiedUnanswered
                    }
                    UploadProgress::Running | UploadProgress::Done
                        if !heard && Distrust::is_of_our_certificate(error) =>
                    {
                        Fault::Tls(Distrust::OurCertificate)
                    }
                    UploadProgress::Running | UploadProgress::Done => Fault::Died,
                };
                // A new connection that takes nothing is no better than none.
                Err(Failed { fault, unsent: unsent.filter(|_| self.used_before) })
            }
        }
    }

    /// Keeps the connection for the next request, unless the pool or the connection is gone.
    pub fn give_back(self) {
        let Lease { sender, heard, proof, app, near, pool, .. } = self;
        let Some(pool) = pool.upgrade() else { return };
        if sender.is_closed() {
            return;
        }
        let mut apps = pool.apps.borrow_mut();
        let of_app = apps.entry(key(&app)).or_insert_with(|| OfApp::new(&app));
        debug_assert!(std::ptr::eq(of_app.app.as_ptr(), Arc::as_ptr(&app)));
        of_app.idle.push(Idle { sender, heard, proof, near, since: Instant::now() });
    }
}

fn key(app: &Arc<App>) -> usize {
    Arc::as_ptr(app) as usize
}
