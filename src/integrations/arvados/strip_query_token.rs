//! An Arvados token in the query of an address: removed before any later stage sees the address.
//!
//! Only its own pair is removed; every other byte stays. At a public port the query is the app's,
//! unless a value has the form of a token.
//!
//! Tokens in headers are removed by `forward::strip_credentials`.

use http::uri::PathAndQuery;

use super::{container_gateway::container_of, query_token, tokens::form};
use crate::{
    catalog::lookup::Lookup,
    model::{access::Access, arrival::AddressToken, secret::Secret},
};

/// Removes the token from a target that leads to a container, or may lead to one.
pub fn strip(target: &mut PathAndQuery, lookup: &Lookup) -> Option<AddressToken> {
    let is_public = match lookup {
        Lookup::App(app) if container_of(app).is_some() => app.spec.access == Access::Public,
        Lookup::Unknown | Lookup::Unassigned | Lookup::Unavailable => false,
        Lookup::App(_) | Lookup::Site | Lookup::Malformed => return None,
    };
    let query = target.query()?;
    let mut found: Option<AddressToken> = None;
    let mut kept = Vec::new();
    for pair in query.split('&') {
        match query_token::token_of(pair).filter(|token| !is_public || form(token).is_some()) {
            Some(token) => {
                found = Some(match found {
                    None => AddressToken::One(Secret::new(token)),
                    Some(AddressToken::One(first)) if first.matches(token.as_bytes()) => {
                        AddressToken::One(first)
                    }
                    Some(AddressToken::One(_) | AddressToken::Conflicting) => {
                        AddressToken::Conflicting
                    }
                });
            }
            None => kept.push(pair),
        }
    }
    let found = found?;
    let path = target.path();
    let clean = if kept.is_empty() {
        path.to_owned()
    } else {
        format!("{path}?{}", kept.join("&"))
    };
    // A target without some of its query pairs is still valid.
    *target = PathAndQuery::try_from(clean).unwrap_or_else(|_| PathAndQuery::from_static("/"));
    Some(found)
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::integrations::arvados::container_gateway::ContainerGateway;
    use crate::model::{
        app::{App, AppId, AppSpec, Upstream, UpstreamScheme},
        uuid::Uuid,
    };

    const TOKEN: &str =
        "v2/zzzzz-gj3su-077z32aux8dg2s1/3kg6k6lzmp9kj5cpkcoxie963cmvjahbt2fod9zru30k1jqdmi";

    fn container(access: Access) -> Lookup {
        let uuid = Uuid::new("zzzzz-dz642-xqhgmzqm1tyc3bs").expect("a uuid");
        let gateway = ContainerGateway::new(uuid, 80, Secret::new("key"));
        let scheme = UpstreamScheme::Attested(Arc::new(gateway));
        let upstream = Upstream {
            scheme,
            host: "10.0.0.1".into(),
            port: 1,
        };
        let spec = AppSpec::new(
            AppId::for_container(&uuid, 80),
            upstream,
            access,
            Duration::from_secs(1),
        );
        Lookup::App(Arc::new(App::on_host(spec)))
    }

    /// The remaining target, and the token.
    fn taken(target: &str, access: Access) -> (String, Option<String>) {
        let mut target = PathAndQuery::try_from(target).expect("a target");
        let token = strip(&mut target, &container(access)).map(|token| match token {
            AddressToken::One(token) => token.expose().to_owned(),
            AddressToken::Conflicting => "several".to_owned(),
        });
        (target.to_string(), token)
    }

    #[test]
    fn only_the_token_s_own_pair_is_taken_and_every_other_byte_stays() {
        for (target, left, token) in [
            ("/x?api_token=T", "/x", Some("T")),
            ("/x?api_token=T&b=1", "/x?b=1", Some("T")),
            (
                "/x?a=%41&&arvados_api_token=T&b=+%2B&c",
                "/x?a=%41&&b=+%2B&c",
                Some("T"),
            ),
            ("/x?%61pi_token=%54", "/x", Some("T")),
            ("/x?api_token=T&api_token=T&b", "/x?b", Some("T")),
            ("/x?api_token=T&arvados_api_token=U", "/x", Some("several")),
            ("/x?api_token=", "/x", Some("")),
            ("/x?api_token", "/x", Some("")),
            ("/x?my_api_token=T", "/x?my_api_token=T", None),
            ("/x?a=api_token=T", "/x?a=api_token=T", None),
            ("/x?API_TOKEN=T", "/x?API_TOKEN=T", None),
            ("/api_token=T", "/api_token=T", None),
            ("/x?", "/x?", None),
        ] {
            assert_eq!(
                taken(target, Access::Admins),
                (left.to_owned(), token.map(str::to_owned)),
                "{target}"
            );
        }
    }

    #[test]
    fn at_a_public_port_only_what_has_the_form_of_a_token_is_taken() {
        let own = "/x?api_token=mine&b=1";
        assert_eq!(taken(own, Access::Public), (own.to_owned(), None));
        let real = format!("/x?api_token=mine&api_token={TOKEN}&b=1");
        assert_eq!(
            taken(&real, Access::Public),
            (own.to_owned(), Some(TOKEN.to_owned()))
        );
    }

    #[test]
    fn elsewhere_a_query_is_left_alone() {
        let mut target = PathAndQuery::from_static("/x?api_token=T");
        assert!(strip(&mut target, &Lookup::Site).is_none());
        assert_eq!(target, "/x?api_token=T");
    }
}
