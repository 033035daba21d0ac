//! Groups that do not fit into a token: the token names their source instead (aggregated and
//! distributed claims, OpenID Connect Core section 5.6.2), and they are fetched there.
//!
//! The address comes from the configuration. If it came from a token, the issuer of that token
//! could have the access token sent anywhere.

use http::{Method, Request, StatusCode, header};
use serde_json::{Map, Value};
use url::Url;

use super::{
    claims::MAX_GROUPS,
    settings::GroupDirectory,
    token_endpoint::{SignInError, TokenEndpointResponse},
};
use crate::{
    model::{access::GroupName, error_cause::chain_text},
    ops::http_client::HttpClient,
};

/// Largest number of pages that are read; each may link to the next.
const MAX_PAGES: usize = 20;

/// Whether the claims refer to another source for the groups.
pub fn is_elsewhere(claims: &Map<String, Value>, groups_claim: &str) -> bool {
    let name = groups_claim
        .trim_start_matches('/')
        .split('/')
        .next()
        .unwrap_or_default();
    let named = claims
        .get("_claim_names")
        .and_then(|names| names.get(name))
        .is_some();
    // One provider sets this claim instead if the token is sent in a URL.
    named || claims.get("hasgroups").and_then(Value::as_bool) == Some(true)
}

/// The groups of a person, as a directory lists them.
pub(super) struct GroupList {
    /// The groups.
    pub(super) groups: Vec<GroupName>,
    /// There are more.
    pub(super) are_partial: bool,
}

/// Fetches the groups of a person with their access token.
///
/// # Errors
/// When they cannot be fetched: without groups no access rule can be decided.
pub(super) async fn fetch_groups(
    http: &HttpClient,
    directory: &GroupDirectory,
    tokens: &TokenEndpointResponse,
) -> Result<GroupList, SignInError> {
    use openidconnect::OAuth2TokenResponse;
    let authorization = format!("Bearer {}", tokens.access_token().secret());
    let mut groups = Vec::new();
    let mut is_cut = false;
    let mut next = Some(directory.url.clone());
    for _ in 0..MAX_PAGES {
        let Some(url) = next.take() else { break };
        let request = Request::builder()
            .method(Method::GET)
            .uri(url.as_str())
            .header(header::ACCEPT, "application/json")
            .header(header::AUTHORIZATION, &authorization)
            .body(Vec::new())
            .map_err(|_| unreadable("the access token cannot stand in a header"))?;
        let answer = http.call("groups", request).await;
        let answer = answer.map_err(|error| SignInError::Unavailable(chain_text(&error)))?;
        if answer.status() != StatusCode::OK {
            return Err(unreadable("the list of groups was refused"));
        }
        let page = serde_json::from_slice(answer.body());
        let page: Value = page.map_err(|_| unreadable("the list of groups is no JSON"))?;
        let list = page.get("value").unwrap_or(&page);
        let list = list
            .as_array()
            .ok_or_else(|| unreadable("the list of groups is no list"))?;
        let name =
            |item: &Value| GroupName::new(item.as_str().or(item.get(&directory.field)?.as_str())?);
        let text = |item: &Value| item.as_str().and_then(GroupName::new);
        groups.extend(
            list.iter()
                .filter_map(|item| text(item).or_else(|| name(item))),
        );
        if groups.len() >= MAX_GROUPS {
            groups.truncate(MAX_GROUPS);
            is_cut = true;
            break;
        }
        // The token is sent to the configured origin only, whatever the response names.
        let following = page.get("@odata.nextLink").and_then(Value::as_str);
        next = following.and_then(|text| Url::parse(text).ok());
        if next
            .as_ref()
            .is_some_and(|next| next.origin() != directory.url.origin())
        {
            return Err(unreadable("the list of groups goes on at another origin"));
        }
    }
    Ok(GroupList {
        groups,
        are_partial: is_cut || next.is_some(),
    })
}

fn unreadable(why: &str) -> SignInError {
    SignInError::Unavailable(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_that_its_groups_are_elsewhere() {
        let says =
            |claims: Value, name: &str| is_elsewhere(claims.as_object().expect("an object"), name);
        let named = serde_json::json!({"_claim_names": {"groups": "src1"}, "_claim_sources": {"src1": {"endpoint": "x"}}});
        assert!(
            says(named.clone(), "groups")
                && says(named.clone(), "/groups")
                && !says(named, "roles")
        );
        assert!(says(serde_json::json!({"hasgroups": true}), "groups"));
        for other in [
            serde_json::json!({}),
            serde_json::json!({"_claim_names": 7}),
            serde_json::json!({"hasgroups": "x"}),
        ] {
            assert!(!says(other, "groups"));
        }
    }
}
