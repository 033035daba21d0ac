//! One data thread: everything of it is its own, and here a request walks the straight line.

mod detours;
mod resume;

use std::{convert::Infallible, rc::Rc, sync::Arc, time::Instant};

use http::{HeaderValue, Request, Response, StatusCode, header, request::Parts};
use hyper::{
    body::{Body, Incoming},
    upgrade::OnUpgrade,
};

use super::{
    Gateway,
    access_log::{Record, RequestLog},
    address_token,
    answer::{Answer, Watch},
    connection::Wire,
    consult::{Asked, Consulted},
    decide,
    decision::{Early, Reason, Refusal},
    endpoints::Call,
    locate::locate,
    pages,
    request_id::RequestIds,
    respond::{self, Audience},
    still_allowed::{Question, StillAllowed},
    tenant::{Acquaintance, acquaintance},
    tunnel::Tunnel,
};
use crate::{
    authorize::{Denied, Permit},
    catalog::snapshot::Snapshot,
    forward::{
        Forwarded, Forwarder, Outgoing, bare_path, body::Source, fault::Fault, pool::Pool,
        request_headers, response_headers,
    },
    incoming::{self, class::prefers_html, host},
    model::{
        app::AppKind,
        arrival::{Arrival, Provenance},
        destination::Destination,
        grpc::Grpc,
        principal::Principal,
        site::Site,
        vhost::VirtualHost,
    },
    session::{cookie, live::Live, usage::Usage},
    streams::Streams,
};
use resume::Resumed;

/// What one data thread has for itself.
pub struct DataThread {
    gateway: Arc<Gateway>,
    forwarder: Forwarder,
    streams: Rc<Streams>,
    log: Rc<RequestLog>,
    ids: RequestIds,
    /// What browsers are told about https; the site's, which does not change.
    hsts: Option<HeaderValue>,
}

impl DataThread {
    /// Sets the thread up and starts its housekeeping on the current local runtime.
    pub fn start(gateway: Arc<Gateway>) -> Rc<DataThread> {
        let pool = Pool::new(gateway.forward.clone(), gateway.forward_metrics.clone());
        let streams = Streams::new(
            gateway.metrics.streams.clone(),
            gateway.metrics.streams_cut.clone(),
        );
        let log = RequestLog::new(gateway.log.clone());
        tokio::task::spawn_local(pool.clone().keep_tidy());
        tokio::task::spawn_local(
            streams
                .clone()
                .watch(gateway.clock.clone(), gateway.policy_changes.clone()),
        );
        tokio::task::spawn_local(log.clone().keep_flushing());
        let forwarder = Forwarder::new(pool);
        let hsts = gateway.catalog.load().site().hsts.clone();
        Rc::new(DataThread {
            gateway,
            forwarder,
            streams,
            log,
            ids: RequestIds::new(),
            hsts,
        })
    }

    /// The straight line, and the record of it.
    ///
    /// # Errors
    /// None: every request is answered.
    pub async fn handle(
        self: Rc<Self>,
        request: Request<Incoming>,
        wire: Wire,
    ) -> Result<Response<Answer>, Infallible> {
        let (mut parts, body) = request.into_parts();
        wire.note(&parts);
        let settled = incoming::http2::settle(&mut parts, wire.connection.head_fields);
        let peer = &wire.connection.peer;
        let (id, client) = (self.ids.next(&parts, peer), peer.client(&parts.headers));
        let mut record = Record::begin(
            self.log.clone(),
            self.gateway.metrics.clone(),
            id,
            &parts,
            client,
        );
        Ok(
            match self
                .walk(&mut parts, settled, body, &wire, &mut record)
                .await
            {
                Walked::Answered(mut response) => {
                    record.status = response.status();
                    self.promise_https(&wire, &mut response);
                    wire.finish(response.map(|body| body.with_record(record)))
                }
                Walked::Switched(tunnel) => {
                    record.status = StatusCode::SWITCHING_PROTOCOLS;
                    tunnel.start(record, wire)
                }
            },
        )
    }

    /// Not over http, where anybody on the way could say it (RFC 6797 section 7.2).
    fn promise_https(&self, wire: &Wire, response: &mut Response<Answer>) {
        if let (Some(promise), false) = (&self.hsts, wire.connection.redirects) {
            response
                .headers_mut()
                .insert(header::STRICT_TRANSPORT_SECURITY, promise.clone());
        }
    }

    /// peer → incoming → route → catalog → caller → authorize → forward.
    async fn walk(
        &self,
        parts: &mut Parts,
        settled: Result<(), incoming::Malformed>,
        body: Incoming,
        wire: &Wire,
        record: &mut Record,
    ) -> Walked {
        let snapshot = self.gateway.catalog.load();
        let site = snapshot.site();
        if wire.connection.redirects {
            detours::at_public_port(parts, site);
        }
        let parsed = settled.and_then(|()| incoming::parse(parts, body.is_end_stream(), site));
        let mut arrival = match parsed.and_then(|arrival| wire.admit(&parts.headers, arrival)) {
            Ok(arrival) => arrival,
            Err(malformed) => return self.refuse_head(parts, malformed, site, record).into(),
        };
        record.class = arrival.class.as_str();
        if wire.connection.redirects {
            return detours::to_https(&arrival, site, record).into();
        }
        let lookup = self
            .gateway
            .catalog
            .at(&arrival.vhost, &snapshot, record.client.address)
            .await;
        // From here on nobody sees a token that stood in the address.
        let token = address_token::take(&mut arrival.target, &lookup);
        // Nearly every request is no form at all.
        let marked =
            arrival.sends_form && self.gateway.oidc.is_some() && resume::unmark(&mut arrival);
        match locate(&arrival, &snapshot, &lookup) {
            Ok(destination) => {
                let unparked = if marked && destination.app.kind == AppKind::Hosted {
                    Box::pin(self.unpark(parts, &mut arrival, (body, site, record.client))).await
                } else {
                    Ok((Source::Left(body), None))
                };
                let (body, resumed) = match unparked {
                    Ok(unparked) => unparked,
                    Err(reason) => {
                        record.reason = reason.as_str();
                        return refused(
                            &Refusal { reason, app: None },
                            &arrival,
                            site,
                            None,
                            record,
                        )
                        .into();
                    }
                };
                let (arrival, token, snapshot) = (&arrival, token.as_ref(), &*snapshot);
                let located = Located {
                    arrival,
                    destination,
                    token,
                    resumed,
                    snapshot,
                };
                self.pass(parts, located, body, wire, record).await
            }
            Err(early) => {
                let call = self.call(parts, &arrival, &snapshot, wire);
                Box::pin(self.end(early, &call, Source::Left(body), record))
                    .await
                    .into()
            }
        }
    }

    /// caller → authorize → forward.
    async fn pass(
        &self,
        parts: &mut Parts,
        located: Located<'_>,
        body: Source,
        wire: &Wire,
        record: &mut Record,
    ) -> Walked {
        let Located {
            arrival,
            destination,
            token,
            resumed,
            snapshot,
        } = located;
        let site = snapshot.site();
        record.app = Some(destination.app.clone());
        let tenant = acquaintance(&parts.headers, &arrival.vhost, &destination.app, site);
        let sheds_token = token.is_some() && arrival.shows_address();
        if let (Acquaintance::Other(line), false) = (&tenant, sheds_token) {
            return detours::another_tenant(parts, arrival, site, line, record).into();
        }
        let asked = Asked {
            headers: &parts.headers,
            arrival,
            destination: &destination,
            token,
            client: record.client,
            recognised: &wire.connection.recognised,
        };
        let consulted = match self.gateway.consult(&asked, site).await {
            Ok(consulted) => consulted,
            Err(malformed) => return self.refuse_head(parts, malformed, site, record).into(),
        };
        record.person = consulted.caller.principal().cloned();
        if let Some(resumed) = &resumed
            && let Some(page) = self.may_send(
                resumed,
                &consulted.caller,
                (&destination, arrival, site),
                record,
            )
        {
            return page.into();
        }
        let permit = match consulted.judge(arrival, destination, site) {
            Ok(permit) if sheds_token => {
                let passing = Passing {
                    parts,
                    arrival,
                    permit: &permit,
                    site,
                    wire,
                };
                let shed = self.without_token(&passing, &consulted, &tenant, record);
                return Box::pin(shed).await.into();
            }
            judged => judged.and_then(decide::reachable),
        };
        match permit {
            Ok(permit) => {
                let upgrade = parts.extensions.remove::<OnUpgrade>();
                let passing = Passing {
                    parts,
                    arrival,
                    permit: &permit,
                    site,
                    wire,
                };
                let at = (&**permit.app(), arrival, &**site);
                if let Some(resumed) = &resumed
                    && let Some(page) = Box::pin(self.send_once(resumed, at, record)).await
                {
                    return page.into();
                }
                let walked = self
                    .forward(passing, body, upgrade, consulted, record)
                    .await;
                let walked = match resumed {
                    Some(resumed) => Box::pin(self.sent(*resumed, walked, at, record)).await,
                    None => walked,
                };
                walked.with_cookie(tenant.introduction())
            }
            Err(early) => {
                if let (Some(resumed), Early::Refuse(refusal)) = (&resumed, &early)
                    && let Some(page) = self.later(resumed, refusal, (arrival, site), record)
                {
                    return page.into();
                }
                let judged = early.reason();
                let early =
                    Box::pin(self.gateway.veil(early, consulted.arvados_token.as_ref())).await;
                let hidden = early.reason() != judged;
                let call = self.call(parts, arrival, snapshot, wire);
                let response = Box::pin(self.end(early, &call, body, record)).await;
                if hidden {
                    // The operator is told what the client is not.
                    record.reason = judged;
                }
                response.into()
            }
        }
    }

    /// The request, as those of our own answers see it that are more than a word.
    fn call<'r>(
        &'r self,
        parts: &'r Parts,
        arrival: &'r Arrival,
        snapshot: &'r Snapshot,
        wire: &'r Wire,
    ) -> Call<'r> {
        Call {
            gateway: &self.gateway,
            snapshot,
            parts,
            arrival,
            streams: &self.streams,
            revocation: &wire.exchange.revocation,
        }
    }

    /// Everything that ends before an app is reached.
    async fn end(
        &self,
        early: Early,
        call: &Call<'_>,
        body: Source,
        record: &mut Record,
    ) -> Response<Answer> {
        record.decision = early.as_str();
        record.reason = early.reason();
        let (arrival, site) = (call.arrival, call.snapshot.site());
        let person = record.person.clone();
        match early {
            Early::Endpoint(endpoint) => call.answer(endpoint, body, record).await,
            Early::Launcher => call.launcher(record).await,
            Early::Redirect { status, location } => respond::redirect(status, &location),
            Early::SignIn { return_to } => match arrival.vhost {
                VirtualHost::Site => {
                    respond::redirect(StatusCode::FOUND, &pages::start(site, &return_to))
                }
                VirtualHost::Host(_) | VirtualHost::Port(_) => {
                    call.lead_to_site(&return_to, record)
                }
            },
            Early::Refuse(refusal)
                if refusal.reason == Reason::Denied(Denied::Anonymous) && arrival.sends_form =>
            {
                self.park(&refusal, call, body, record).await
            }
            Early::Refuse(refusal) => refused(&refusal, arrival, site, person.as_deref(), record),
        }
    }

    fn refuse_head(
        &self,
        parts: &Parts,
        malformed: incoming::Malformed,
        site: &Site,
        record: &mut Record,
    ) -> Response<Answer> {
        let wants_html = prefers_html(&parts.headers);
        if malformed == incoming::Malformed::UnknownHost
            && wants_html
            && host::is_alias(parts, site)
        {
            record.decision = "redirect";
            record.reason = "alias";
            let target = parts
                .uri
                .path_and_query()
                .map_or("/", |target| target.as_str());
            let location = format!("{}{target}", site.origin);
            return respond::redirect(StatusCode::TEMPORARY_REDIRECT, &location);
        }
        let refusal = Refusal::from(malformed);
        record.reason = refusal.reason.as_str();
        let grpc = Grpc::of(&parts.headers).is_some();
        respond::refusal(
            &refusal,
            Audience {
                grpc,
                ..Audience::unknown(site, wants_html)
            },
            record,
        )
    }

    /// Sends what was permitted, and relays what comes back.
    async fn forward(
        &self,
        passing: Passing<'_>,
        body: Source,
        upgrade: Option<OnUpgrade>,
        consulted: Consulted,
        record: &mut Record,
    ) -> Walked {
        let Passing {
            parts,
            arrival,
            permit,
            site,
            wire,
        } = passing;
        let gateway = &self.gateway;
        record.decision = "allow";
        record.reason = permit.grounds().as_str();
        let Consulted {
            live,
            token_expires,
            authorization_is_ours,
            arvados_token,
            ..
        } = consulted;
        let asked = Instant::now();
        if let Some(live) = &live {
            gateway.sessions.store.touch(live, gateway.clock.at(asked));
        }
        let minted = match &live {
            // The cookie would not come back to an address above its path, and each visit would
            // make another session.
            Some(Live::SignIn(_)) if permit.destination().is_bare() => None,
            Some(live @ Live::SignIn(_)) => Box::pin(self.mint(live, permit, arrival, site)).await,
            Some(Live::App(_)) | None => None,
        };
        let (live, new_cookie) = match minted {
            Some((live, line)) => (Some(live), Some(line)),
            None => (live, None),
        };
        let usage = live
            .map(|live| Usage::new(gateway.sessions.store.clone(), live, gateway.clock.clone()));
        let context = request_headers::Context {
            site,
            standing: &wire.connection.standing,
            permit,
            arrival,
            peer: &wire.connection.peer,
            client: record.client.address,
            request_id: &record.id,
            authorization_is_ours: authorization_is_ours
                || gateway.authorization_is_ours(&parts.headers, permit.app()),
        };
        let headers = || request_headers::build(&parts.headers, &context);
        // A session renews its own proof; a token in a header has nobody else to ask about it.
        let token = if usage.is_none() { arvados_token } else { None };
        let question = StillAllowed::new(
            gateway.clone(),
            permit,
            arrival.vhost,
            usage.clone(),
            token_expires,
            token,
        );
        // A long upload is a stream before any answer comes.
        let _uploading = arrival.is_long_upload().then(|| {
            let question = question.clone();
            self.streams
                .register(wire.exchange.revocation.clone(), move || question.ask())
        });
        let outgoing = Outgoing {
            permit,
            arrival,
            headers: &headers,
            usage: usage.clone(),
            client: wire.client(record.client.address),
            limit_key: record.client.limit_key,
            asked,
        };
        let sent = self.forwarder.send(&outgoing, body).await;
        record.upstream = Some(asked.elapsed());
        let answer = match sent {
            Err(fault) => {
                let audience = Audience::of(arrival, site, record_person(permit));
                respond::fault(fault, permit.app(), audience, record).into()
            }
            Ok(Forwarded::Answer(response)) => {
                let (mut head, download) = response.into_parts();
                if head.status.is_redirection() {
                    bare_path::learn(permit, &head, &site.origin_of(&arrival.vhost));
                }
                response_headers::rewrite(&mut head.headers, permit.app(), site);
                let watch = Watch::new(
                    &self.streams,
                    &wire.exchange.revocation,
                    Question::App(question),
                );
                Walked::Answered(Response::from_parts(
                    head,
                    Answer::relayed(download, Some(watch)),
                ))
            }
            Ok(Forwarded::Switched {
                head,
                upstream,
                lease,
            }) => {
                let (mut head, ()) = head.into_parts();
                response_headers::rewrite(&mut head.headers, permit.app(), site);
                wire.agree(&mut head);
                match upgrade {
                    Some(client) => Walked::Switched(Box::new(Tunnel {
                        head: Response::from_parts(head, Answer::whole("")),
                        client,
                        upstream,
                        lease,
                        usage,
                        question,
                        streams: self.streams.clone(),
                        idle: gateway.forward.stream_idle,
                    })),
                    // hyper offers an upgrade on every HTTP/1.1 request that asks for one; without
                    // it nothing can be tunnelled, and the app's side closes with its handle.
                    None => {
                        let audience = Audience::of(arrival, site, record_person(permit));
                        respond::fault(Fault::BadAnswer, permit.app(), audience, record).into()
                    }
                }
            }
        };
        answer.with_cookie(new_cookie)
    }

    /// The first authorised request of a browser to an app makes the app's session; the cookie goes
    /// with the answer, and the request is not sent round in a circle for it.
    async fn mint(
        &self,
        live: &Live,
        permit: &Permit,
        arrival: &Arrival,
        site: &Site,
    ) -> Option<(Live, HeaderValue)> {
        let Live::SignIn(sign_in) = live else {
            return None;
        };
        let vhost = &arrival.vhost;
        // A token in the address of a foreign page's request is no reason for a session in this
        // browser.
        if arrival.provenance == Provenance::Foreign {
            return None;
        }
        let (id, session) = self
            .gateway
            .sessions
            .store
            .mint(sign_in, permit.app().id(), vhost)?;
        self.gateway
            .sessions
            .replication
            .save_app_session(&session)
            .await;
        let path = format!("{}/", permit.app().mount);
        let line = cookie::set(
            &site.cookies.app_at(vhost),
            id.as_str(),
            &path,
            site.origin.secure,
        )?;
        Some((Live::App(session), line))
    }
}

/// A request whose app was found.
struct Located<'r> {
    arrival: &'r Arrival,
    destination: Destination,
    token: Option<&'r address_token::AddressToken>,
    resumed: Option<Box<Resumed>>,
    snapshot: &'r Snapshot,
}

/// What is on its way to an app.
struct Passing<'r> {
    parts: &'r Parts,
    arrival: &'r Arrival,
    permit: &'r Permit,
    site: &'r Arc<Site>,
    wire: &'r Wire,
}

fn record_person(permit: &Permit) -> Option<&Principal> {
    permit.principal().map(Arc::as_ref)
}

fn refused(
    refusal: &Refusal,
    arrival: &Arrival,
    site: &Site,
    person: Option<&Principal>,
    record: &mut Record,
) -> Response<Answer> {
    respond::refusal(refusal, Audience::of(arrival, site, person), record)
}

/// How a walk ended.
#[expect(
    clippy::large_enum_variant,
    reason = "a box would be one allocation more per request"
)]
enum Walked {
    Answered(Response<Answer>),
    Switched(Box<Tunnel>),
}

impl Walked {
    fn with_cookie(mut self, line: Option<HeaderValue>) -> Walked {
        if let Some(line) = line {
            let head = match &mut self {
                Walked::Answered(response) => response,
                Walked::Switched(tunnel) => &mut tunnel.head,
            };
            head.headers_mut().append(header::SET_COOKIE, line);
        }
        self
    }
}

impl From<Response<Answer>> for Walked {
    fn from(response: Response<Answer>) -> Walked {
        Walked::Answered(response)
    }
}
