//! Where a person signs in, if there are several providers.

use std::sync::Arc;

use super::call::EndpointCall;
use crate::{
    identity::oidc::providers::{Providers, SignInProvider},
    model::provider_id::ProviderId,
    pages::{ProviderLink, ProvidersPage},
};

/// The value of the parameter `provider` that names the default provider.
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
    let chosen = match call.query("provider") {
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

/// The page on which the person chooses. Its links are the address of the request, which has no
/// choice yet, with one.
pub(super) fn page<'p>(call: EndpointCall<'_, '_>, providers: &'p Providers) -> ProvidersPage<'p> {
    let target = &call.request.arrival.target;
    let separator = if target.query().is_some() { '&' } else { '?' };
    let link = |provider: &'p Arc<SignInProvider>| {
        let id = provider.id().map_or(DEFAULT, ProviderId::as_str);
        ProviderLink {
            name: provider.name(),
            href: format!("{target}{separator}provider={id}"),
        }
    };
    ProvidersPage {
        providers: providers.iter().map(link).collect(),
        home: call.site().launcher(),
    }
}
