//! Where a person signs in, if there are several providers.

use std::sync::Arc;

use url::form_urlencoded;

use super::call::EndpointCall;
use crate::{
    identity::oidc::providers::{Providers, SignInProvider},
    model::provider_id::ProviderId,
    pages::{ProviderLink, ProvidersPage},
};

/// The parameter that names a provider.
const PARAMETER: &str = "provider";
/// Its value that names the default provider.
const DEFAULT: &str = "default";

/// Where a sign-in takes place.
pub(super) enum ProviderChoice {
    /// At this provider.
    Made(Arc<SignInProvider>),
    /// The person chooses on a page.
    Open,
    /// The parameter names no provider, or is repeated.
    Invalid,
}

/// Reads the choice from the query. Without one, a person who is signed in stays with their
/// provider: only that one can confirm them again. With one provider there is no choice.
pub(super) fn choice(
    call: EndpointCall<'_, '_>,
    providers: &Providers,
    selects_account: bool,
) -> ProviderChoice {
    if !providers.are_several() {
        return ProviderChoice::Made(providers.default_provider().clone());
    }
    let chosen = match call.query(PARAMETER) {
        Err(_) => None,
        Ok(Some(name)) if name == DEFAULT => Some(providers.default_provider()),
        Ok(Some(name)) => ProviderId::new(&name).and_then(|id| providers.get(Some(&id))),
        Ok(None) => {
            let sign_in = call.sign_in().filter(|_| !selects_account);
            let known = sign_in.and_then(|it| providers.of_sign_in(&it));
            return known.map_or(ProviderChoice::Open, |known| {
                ProviderChoice::Made(known.clone())
            });
        }
    };
    chosen.map_or(ProviderChoice::Invalid, |chosen| {
        ProviderChoice::Made(chosen.clone())
    })
}

/// Whether a page of another origin leads a person who is signed in at one provider to another one.
/// That would end the session and make them another person, often without a question. So they
/// choose on the page, whose links are of our own origin.
pub(super) fn is_foreign_switch(call: EndpointCall<'_, '_>, providers: &Providers) -> bool {
    if !providers.are_several() || !call.request.is_from_another_origin() {
        return false;
    }
    let asked = call.query(PARAMETER).ok().flatten();
    let (Some(asked), Some(sign_in)) = (asked, call.sign_in()) else {
        return false;
    };
    let own = sign_in.tokens.provider.as_ref();
    asked != own.map_or(DEFAULT, ProviderId::as_str)
}

/// The page on which the person chooses. Its links are the address of the request, with a choice.
pub(super) fn page<'p>(call: EndpointCall<'_, '_>, providers: &'p Providers) -> ProvidersPage<'p> {
    let target = &call.request.arrival.target;
    let is_choice = |pair: &str| {
        let mut pairs = form_urlencoded::parse(pair.as_bytes());
        pairs.any(|(name, _)| name == PARAMETER)
    };
    let others = target.query().unwrap_or_default().split('&');
    let others: String = others
        .filter(|pair| !pair.is_empty() && !is_choice(pair))
        .map(|pair| format!("{pair}&"))
        .collect();
    let link = |provider: &'p Arc<SignInProvider>| {
        let id = provider.id().map_or(DEFAULT, ProviderId::as_str);
        ProviderLink {
            name: provider.name(),
            href: format!("{}?{others}{PARAMETER}={id}", target.path()),
        }
    };
    ProvidersPage {
        providers: providers.iter().map(link).collect(),
        home: call.site().launcher(),
    }
}
