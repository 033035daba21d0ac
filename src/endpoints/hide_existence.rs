//! Refusals that would reveal an app to a person who may not learn of it.

use crate::{caller::Callers, decide::Refusal, model::secret::Secret};

/// The refusal as the client sees it: a person who may not learn of the app gets 404. `token` is
/// the person's token of a credential source. The log keeps the reason.
pub async fn hide_existence(
    callers: &Callers,
    refusal: Refusal,
    token: Option<&Secret>,
) -> Refusal {
    let Some(app) = refusal.hideable() else {
        return refusal;
    };
    let may_learn = callers.may_learn_of(app, token).await;
    refusal.hidden_unless(may_learn)
}
