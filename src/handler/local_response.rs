//! Requests that no app answers: the decision is rendered by `respond`, after its side effect.

use std::time::Instant;

use http::{HeaderValue, Response, StatusCode};
use http_body_util::{Either, Full};

use super::{
    Handler,
    progress::{ClientSide, Context, Progress, Reply},
};
use crate::{
    access_log::Entry,
    authorize::Permit,
    caller::Identified,
    decide::{
        Decision, Reason, Refusal,
        labels::{DecisionLabel, LogReason},
        tenant,
    },
    endpoints::{self, EndpointCall, ticket},
    forward::body::Source,
    incoming::{IncomingRequest, request_class::prefers_html},
    model::{grpc::GrpcCall, vhost::VirtualHost},
    pages,
    respond::{self, Audience, body::ReplyBody, endpoint::EndpointReply},
    saved_form::{Saved, SavedForms, page::SavedFormPage},
};

impl Handler {
    /// Renders the decision that ended a request.
    pub(super) async fn conclude(
        &self,
        decision: Decision,
        side: Option<ClientSide>,
        context: &Context<'_>,
        progress: &mut Progress<'_>,
    ) -> Reply {
        match progress.request.take() {
            Some(mut request) => {
                self.conclude_parsed(decision, &mut request, side, context, progress)
                    .await
            }
            None => {
                let entry = &mut progress.answer.entry;
                entry.labels = (decision.label(), decision.reason());
                Reply::Answer(render_malformed(&decision, context, &entry.id))
            }
        }
    }

    /// Renders the decision that ended a parsed request.
    pub(super) async fn conclude_parsed(
        &self,
        decision: Decision,
        request: &mut IncomingRequest<'_>,
        side: Option<ClientSide>,
        context: &Context<'_>,
        progress: &mut Progress<'_>,
    ) -> Reply {
        let entry = &mut progress.answer.entry;
        entry.labels = (decision.label(), decision.reason());
        entry.app = entry.app.take().or_else(|| decision.app().cloned());
        Reply::Answer(match decision {
            Decision::ResendForm(target) => {
                return Box::pin(self.resend(*target, request, side, context, progress)).await;
            }
            Decision::Refuse(refusal) => {
                entry.denying_rule = refusal.rule;
                report_stray_request(&refusal, request);
                let token = progress.caller.as_ref().and_then(Identified::source_token);
                let callers = &self.gateway.callers;
                let shown = endpoints::hide_existence(callers, refusal, token).await;
                refuse(&shown, request, entry)
            }
            Decision::Redirect(redirect) => respond::redirect(redirect.status, &redirect.location),
            Decision::ForgetTenant { cookie, .. } => back_to_same_address(request, Some(cookie)),
            Decision::DropToken { permit, tenant } => {
                self.drop_token(&permit, tenant, request, progress).await
            }
            Decision::SignIn { return_to, refusal } => {
                self.lead_to_sign_in(&return_to, &refusal, request, context, entry)
            }
            Decision::Endpoint(endpoint) => {
                let call = self.call(request, context);
                let reply = endpoints::answer(call, endpoint, body_of(side)).await;
                render_endpoint(reply, request, entry)
            }
            Decision::Launcher => {
                let reply = endpoints::launcher(self.call(request, context)).await;
                render_endpoint(reply, request, entry)
            }
            Decision::SaveForm(refusal) => {
                self.save_form(&refusal, request, body_of(side), entry)
                    .await
            }
            Decision::Fault { fault, app, .. } => {
                entry.set_fault(fault);
                let audience = Audience::new(request, entry.person.as_deref());
                respond::fault(fault, &app, audience, &request.id)
            }
        })
    }

    fn call<'r, 'h>(
        &'r self,
        request: &'r IncomingRequest<'h>,
        context: &'r Context<'_>,
    ) -> EndpointCall<'r, 'h> {
        EndpointCall {
            gateway: &self.gateway,
            snapshot: context.snapshot,
            request,
            streams: &self.streams,
            revocation: &context.exchange.exchange.revocation,
            is_from_trusted_proxy: context.exchange.connection.peer.trusted,
        }
    }

    /// To the same address without the token, with a session in its place. A session that this
    /// browser had is kept.
    async fn drop_token(
        &self,
        permit: &Permit,
        tenant: Option<HeaderValue>,
        request: &IncomingRequest<'_>,
        progress: &mut Progress<'_>,
    ) -> Response<ReplyBody> {
        let live = progress
            .caller
            .as_mut()
            .and_then(|caller| caller.live.take());
        let begun = match &live {
            Some(live) => self.begin_app_session(live, permit, request).await,
            None => None,
        };
        let mut response = back_to_same_address(request, tenant);
        // After the line that expires the last tenant's session, which has the same name.
        respond::append_cookies(&mut response, begun.map(|(_, line)| line));
        response
    }

    fn lead_to_sign_in(
        &self,
        return_to: &str,
        refusal: &Refusal,
        request: &IncomingRequest<'_>,
        context: &Context<'_>,
        entry: &mut Entry,
    ) -> Response<ReplyBody> {
        let requirement = refusal.required_authentication();
        if request.arrival.vhost == VirtualHost::Site {
            let start = pages::start_with(request.site(), return_to, requirement);
            return respond::redirect(StatusCode::FOUND, &start);
        }
        let call = self.call(request, context);
        let has_session = refusal.reason.is_step_up();
        let reply = ticket::lead_to_site(call, return_to, requirement, has_session);
        entry.labels.1 = reply.reason.unwrap_or(entry.labels.1);
        respond::endpoint(reply, Audience::new(request, None), &request.id)
    }

    async fn save_form(
        &self,
        refusal: &Refusal,
        request: &IncomingRequest<'_>,
        body: Source,
        entry: &mut Entry,
    ) -> Response<ReplyBody> {
        let Some(forms) = self.saved_forms() else {
            return refuse(refusal, request, entry);
        };
        match forms.save(refusal, request, body).await {
            Saved::Page(page) => saved_form_page(&page, request, entry),
            Saved::Unsavable => {
                respond::form_not_saved(refusal, Audience::new(request, None), &request.id)
            }
            Saved::Unknown => refuse(refusal, request, entry),
        }
    }

    /// `None`: there is no identity provider, so no forms are saved.
    pub(super) fn saved_forms(&self) -> Option<SavedForms<'_>> {
        let gateway = &*self.gateway;
        Some(SavedForms {
            sessions: &gateway.sessions,
            keys: gateway.oidc.as_ref()?.keys(),
            budget: &gateway.forms,
            clock: &gateway.clock,
        })
    }
}

/// The answer to a head that could not be parsed: by its Accept header alone.
fn render_malformed(
    decision: &Decision,
    context: &Context<'_>,
    id: &HeaderValue,
) -> Response<ReplyBody> {
    let headers = &context.parts.headers;
    let site = context.snapshot.site();
    // gRPC calls are refused with status 200, which a proxy that asks takes for a permission.
    let path = context.parts.uri.path();
    let is_auth_request = site.below_forward_auth(&VirtualHost::Site, path).is_some();
    let is_call = !is_auth_request && GrpcCall::from_headers(headers).is_some();
    let audience = Audience::of_malformed(site, prefers_html(headers), is_call);
    match decision {
        Decision::Redirect(redirect) => respond::redirect(redirect.status, &redirect.location),
        Decision::Refuse(refusal) | Decision::SaveForm(refusal) => {
            respond::refuse(refusal, audience, id)
        }
        // Never the decision on a head that was not parsed.
        Decision::Endpoint(_)
        | Decision::Launcher
        | Decision::SignIn { .. }
        | Decision::ForgetTenant { .. }
        | Decision::DropToken { .. }
        | Decision::ResendForm(_)
        | Decision::Fault { .. } => respond::redirect(StatusCode::FOUND, "/"),
    }
}

/// The page that holds a saved form.
pub(super) fn saved_form_page(
    page: &SavedFormPage,
    request: &IncomingRequest<'_>,
    entry: &mut Entry,
) -> Response<ReplyBody> {
    entry.labels = (DecisionLabel::Deny, LogReason::SavedForm);
    respond::saved_form(page, Audience::new(request, None), &request.id)
}

fn render_endpoint(
    mut reply: EndpointReply,
    request: &IncomingRequest<'_>,
    entry: &mut Entry,
) -> Response<ReplyBody> {
    let (decision, reason) = entry.labels;
    entry.labels = (
        reply.decision.unwrap_or(decision),
        reply.reason.unwrap_or(reason),
    );
    entry.person.clone_from(&reply.person);
    entry.app = reply.app.take();
    entry.denying_rule = reply.denying_rule;
    respond::endpoint(reply, Audience::new(request, None), &request.id)
}

fn refuse(refusal: &Refusal, request: &IncomingRequest<'_>, entry: &Entry) -> Response<ReplyBody> {
    let audience = Audience::new(request, entry.person.as_deref());
    respond::refuse(refusal, audience, &request.id)
}

/// Tells operators that pages of an app request addresses outside of it.
fn report_stray_request(refusal: &Refusal, request: &IncomingRequest<'_>) {
    let Some(app) = &refusal.app else {
        return;
    };
    if refusal.reason == Reason::OutsideApp && app.stray_requests.record(Instant::now()) {
        tracing::info!(
            app = %app.id(), path = request.arrival.target.path(), request_id = request.id_text(),
            "a page of the app requested an address outside of the app; see Troubleshooting in docs/apps.md",
        );
    }
}

/// Redirects to the same address. If the browser knows another tenant there, the answer clears its
/// storage first.
fn back_to_same_address(
    request: &IncomingRequest<'_>,
    tenant: Option<HeaderValue>,
) -> Response<ReplyBody> {
    let arrival = &request.arrival;
    let address = request.site().url(&arrival.vhost, arrival.target.as_str());
    match tenant {
        Some(cookie) => {
            let mut lines = tenant::expire_cookies(request);
            lines.push(cookie);
            respond::forget_tenant(&address, lines)
        }
        None => respond::redirect(StatusCode::SEE_OTHER, &address),
    }
}

fn body_of(side: Option<ClientSide>) -> Source {
    side.map_or_else(|| Either::Right(Full::default()), |side| side.body)
}
