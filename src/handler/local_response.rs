//! Requests that no app answers: the decision is rendered by `respond`, after its side effect.

use http::{HeaderValue, Response, StatusCode};
use http_body_util::{Either, Full};

use super::{
    Handler,
    progress::{AnswerFacts, ClientSide, Concluded, Context, Progress},
};
use crate::{
    authorize::Permit,
    caller::Identified,
    decide::{
        Decision, Refusal,
        labels::{DecisionLabel, LogReason, Outcome},
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
    /// Renders the decision that ended a parsed request.
    pub(super) async fn conclude(
        &self,
        decision: Decision,
        request: &mut IncomingRequest<'_>,
        side: Option<ClientSide>,
        context: &Context<'_>,
        progress: &mut Progress<'_>,
    ) -> Concluded {
        let labels = (decision.label(), decision.reason());
        let app = decision.app().cloned();
        progress.app = progress.app.take().or(app);
        match decision {
            Decision::ResendForm(target) => {
                Box::pin(self.resend(*target, request, side, context, progress)).await
            }
            Decision::Refuse(refusal) => {
                let token = progress.caller.as_ref().and_then(Identified::source_token);
                let callers = &self.gateway.callers;
                let shown = endpoints::hide_existence(callers, refusal, token).await;
                Concluded::new(refuse(&shown, request, progress), labels)
            }
            Decision::Redirect(redirect) => {
                let response = respond::redirect(redirect.status, &redirect.location);
                Concluded::new(response, labels)
            }
            Decision::ForgetTenant { cookie, .. } => {
                Concluded::new(back_to_same_address(request, Some(cookie)), labels)
            }
            Decision::DropToken { permit, tenant } => {
                let response = self.drop_token(&permit, tenant, request, progress).await;
                Concluded::new(response, labels)
            }
            Decision::SignIn { return_to } => {
                self.lead_to_sign_in(&return_to, request, labels, context)
            }
            Decision::Endpoint(endpoint) => {
                let call = self.call(request, context);
                let reply = endpoints::answer(call, endpoint, body_of(side)).await;
                conclude_endpoint(reply, request, labels, progress)
            }
            Decision::Launcher => {
                let reply = endpoints::launcher(self.call(request, context)).await;
                conclude_endpoint(reply, request, labels, progress)
            }
            Decision::SaveForm(refusal) => {
                self.save_form(refusal, request, body_of(side), labels, progress)
                    .await
            }
            Decision::Fault { fault, app, .. } => {
                let audience = Audience::new(request, progress.answer.person.as_deref());
                let response = respond::fault(fault, &app, audience, &request.id);
                Concluded {
                    outcome: Some(Outcome::Fault(fault)),
                    ..Concluded::new(response, labels)
                }
            }
        }
    }

    /// The answer to a head that could not be parsed: by its Accept header alone.
    pub(super) fn conclude_malformed(
        &self,
        decision: &Decision,
        context: &Context<'_>,
    ) -> Concluded {
        let headers = &context.parts.headers;
        let site = context.snapshot.site();
        let is_call = GrpcCall::from_headers(headers).is_some();
        let audience = Audience::of_malformed(site, prefers_html(headers), is_call);
        let response = match decision {
            Decision::Redirect(redirect) => respond::redirect(redirect.status, &redirect.location),
            Decision::Refuse(refusal) | Decision::SaveForm(refusal) => {
                respond::refuse(refusal, audience, &context.id)
            }
            // Never the decision on a head that was not parsed.
            Decision::Endpoint(_)
            | Decision::Launcher
            | Decision::SignIn { .. }
            | Decision::ForgetTenant { .. }
            | Decision::DropToken { .. }
            | Decision::ResendForm(_)
            | Decision::Fault { .. } => respond::redirect(StatusCode::FOUND, "/"),
        };
        Concluded::new(response, (decision.label(), decision.reason()))
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
        request: &IncomingRequest<'_>,
        labels: (DecisionLabel, LogReason),
        context: &Context<'_>,
    ) -> Concluded {
        if request.arrival.vhost == VirtualHost::Site {
            let start = pages::start(request.site(), return_to);
            return Concluded::new(respond::redirect(StatusCode::FOUND, &start), labels);
        }
        let reply = ticket::lead_to_site(self.call(request, context), return_to);
        let reason = reply.reason.unwrap_or(labels.1);
        let response = respond::endpoint(reply, Audience::new(request, None), &request.id);
        Concluded::new(response, (labels.0, reason))
    }

    async fn save_form(
        &self,
        refusal: Refusal,
        request: &IncomingRequest<'_>,
        body: Source,
        labels: (DecisionLabel, LogReason),
        progress: &Progress<'_>,
    ) -> Concluded {
        let Some(forms) = self.saved_forms() else {
            return Concluded::new(refuse(&refusal, request, progress), labels);
        };
        match forms.save(&refusal, request, body).await {
            Saved::Page(page) => saved_form_page(&page, request, None),
            Saved::Unsavable => {
                let audience = Audience::new(request, None);
                let response = respond::form_not_saved(&refusal, audience, &request.id);
                Concluded::new(response, labels)
            }
            Saved::Unknown => Concluded::new(refuse(&refusal, request, progress), labels),
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

/// The page that holds a saved form.
pub(super) fn saved_form_page(
    page: &SavedFormPage,
    request: &IncomingRequest<'_>,
    outcome: Option<Outcome>,
) -> Concluded {
    let audience = Audience::new(request, None);
    let response = respond::saved_form(page, audience, &request.id);
    Concluded {
        outcome,
        ..Concluded::new(response, (DecisionLabel::Deny, LogReason::SavedForm))
    }
}

fn conclude_endpoint(
    mut reply: EndpointReply,
    request: &IncomingRequest<'_>,
    (label, reason): (DecisionLabel, LogReason),
    progress: &mut Progress<'_>,
) -> Concluded {
    let labels = (
        reply.decision.unwrap_or(label),
        reply.reason.unwrap_or(reason),
    );
    let AnswerFacts { person, .. } = &mut progress.answer;
    person.clone_from(&reply.person);
    progress.app = reply.app.take();
    let audience = Audience::new(request, None);
    Concluded::new(respond::endpoint(reply, audience, &request.id), labels)
}

fn refuse(
    refusal: &Refusal,
    request: &IncomingRequest<'_>,
    progress: &Progress<'_>,
) -> Response<ReplyBody> {
    let audience = Audience::new(request, progress.answer.person.as_deref());
    respond::refuse(refusal, audience, &request.id)
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
