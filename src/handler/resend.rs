//! A saved form that is sent again: opened, then handled like any other request, but only for its
//! sender and only once.

use http::{HeaderValue, StatusCode, header};

use super::{
    Handler,
    local_response::saved_form_page,
    progress::{ClientSide, Context, Progress, Reply},
};
use crate::{
    decide::{self, Decision, Target},
    forward::fault::Fault,
    incoming::IncomingRequest,
    model::app::App,
    saved_form::{NotSent, Opened, SavedForm, SavedForms, page::SavedFormPage},
};

/// Why the request ended before an app's answer could be relayed.
enum Ended {
    /// By a decision.
    Decision(Decision),
    /// The person gets the form again.
    Page(SavedFormPage, Option<Fault>),
}

impl From<Decision> for Ended {
    fn from(decision: Decision) -> Ended {
        Ended::Decision(decision)
    }
}

impl From<NotSent> for Ended {
    fn from(not_sent: NotSent) -> Ended {
        match not_sent {
            NotSent::Page(page) => Ended::Page(page, None),
            NotSent::Refused(refusal) => Ended::Decision(refusal.into()),
        }
    }
}

/// A form that was opened, and the rules for sending it.
struct OpenForm<'g> {
    forms: SavedForms<'g>,
    form: Box<SavedForm>,
}

impl OpenForm<'_> {
    /// If the app redirects the form with its body, or was not reached, the person gets it again.
    async fn keep_unless_accepted(
        self,
        sent: Result<Reply, Decision>,
        app: &App,
        request: &IncomingRequest<'_>,
    ) -> Result<Reply, Ended> {
        let OpenForm { forms, form } = self;
        let decision = match sent {
            Ok(reply) => {
                let Some(location) = moved_to(&reply) else {
                    return Ok(reply);
                };
                let location = location.as_ref().and_then(|value| value.to_str().ok());
                return Err(forms.redirected(*form, location, app, request).into());
            }
            Err(decision) => decision,
        };
        let Decision::Fault { fault, .. } = decision else {
            return Err(decision.into());
        };
        match form.keep_after_fault(fault, app) {
            Some(page) => {
                forms.allow_again(&form).await;
                Err(Ended::Page(page, Some(fault)))
            }
            None => Err(decision.into()),
        }
    }
}

impl Handler {
    /// Handles a marked request.
    pub(super) async fn resend(
        &self,
        target: Target,
        request: &mut IncomingRequest<'_>,
        side: Option<ClientSide>,
        context: &Context<'_>,
        progress: &mut Progress<'_>,
    ) -> Reply {
        match self
            .resend_form(target, request, side, context, progress)
            .await
        {
            Ok(reply) => reply,
            Err(Ended::Page(page, fault)) => {
                let entry = &mut progress.answer.entry;
                if let Some(fault) = fault {
                    entry.set_fault(fault);
                }
                Reply::Answer(saved_form_page(&page, request, entry))
            }
            Err(Ended::Decision(decision)) => {
                let concluding = self.conclude_parsed(decision, request, None, context, progress);
                Box::pin(concluding).await
            }
        }
    }

    /// The same steps as [`Handler::handle`] from the target on, with the form's own between them.
    async fn resend_form(
        &self,
        target: Target,
        request: &mut IncomingRequest<'_>,
        side: Option<ClientSide>,
        context: &Context<'_>,
        progress: &mut Progress<'_>,
    ) -> Result<Reply, Ended> {
        let (open, side) = self.open_form(request, side).await?;
        let target = decide::check_tenant(target, &request.arrival)?;
        let app = target.destination.app.clone();
        let Progress { caller, answer, .. } = progress;
        let caller = self
            .identify(&target, request, context, caller, answer)
            .await?;
        if let Some(open) = &open {
            let is_open = target.destination.is_open();
            open.form.check_sender(&caller.caller, &app, is_open)?;
        }
        let site = context.snapshot.site();
        let now = app.decision_time(&self.gateway.clock);
        let permit = decide::authorize(target, caller, &request.arrival, site, now)
            .inspect_err(|decision| self.record_use(decision, &caller.caller))
            .map_err(|decision| keep_form(open.as_ref(), decision))?;
        if let Some(open) = &open {
            open.forms.spend(&open.form, &app).await?;
        }
        let sent = self
            .relay(permit, request, caller, side, context, answer)
            .await;
        match open {
            Some(open) => open.keep_unless_accepted(sent, &app, request).await,
            None => Ok(sent?),
        }
    }

    /// The saved form, unless the request is the app's own, and the body to send.
    async fn open_form(
        &self,
        request: &mut IncomingRequest<'_>,
        side: Option<ClientSide>,
    ) -> Result<(Option<OpenForm<'_>>, Option<ClientSide>), Decision> {
        let Some(ClientSide { body, upgrade }) = side else {
            return Ok((None, None));
        };
        let Some(forms) = self.saved_forms() else {
            return Ok((None, Some(ClientSide { body, upgrade })));
        };
        Ok(match forms.open(request, body).await? {
            Opened::Form(form, body) => {
                let open = OpenForm { forms, form };
                (Some(open), Some(ClientSide { body, upgrade }))
            }
            Opened::Other(body) => (None, Some(ClientSide { body, upgrade })),
        })
    }
}

/// After a refusal that may pass, the person gets the form again.
fn keep_form(open: Option<&OpenForm<'_>>, decision: Decision) -> Ended {
    let page = match (&decision, open) {
        (Decision::Refuse(refusal) | Decision::SaveForm(refusal), Some(open)) => {
            open.form.keep_after(refusal)
        }
        (_, _) => None,
    };
    match page {
        Some(page) => Ended::Page(page, None),
        None => Ended::Decision(decision),
    }
}

/// The address to which the app redirects a form with its body: a browser would send the seal
/// there. `None`: no such redirect.
fn moved_to(reply: &Reply) -> Option<Option<HeaderValue>> {
    let Reply::Answer(response) = reply else {
        return None;
    };
    let repeats = matches!(
        response.status(),
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
    );
    repeats.then(|| response.headers().get(header::LOCATION).cloned())
}
