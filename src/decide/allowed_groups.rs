//! The groups by which a proxy narrows what it asks for. Pure.

use crate::{
    authorize::{Grounds, Permit},
    model::access::GroupName,
};

/// Groups of which a person must be in one, beside what the access rule requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedGroups(Vec<GroupName>);

impl AllowedGroups {
    /// Reads names separated by commas. Empty names and names that no group can have admit no one,
    /// so a list without any other name denies access.
    pub fn parse(list: &str) -> AllowedGroups {
        AllowedGroups(list.split(',').filter_map(GroupName::new).collect())
    }

    /// Whether a request that the access rule permits stays permitted. One that needed no person
    /// does not, except a CORS preflight, which no browser sends with a person.
    pub fn admit(&self, permit: &Permit) -> bool {
        let is_member = || {
            let person = permit.principal()?;
            Some(self.0.iter().any(|group| person.is_in(group)))
        };
        permit.grounds() == Grounds::Preflight || is_member().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use http::uri::PathAndQuery;
    use proptest::prelude::*;

    use super::*;
    use crate::{
        authorize::authorize,
        model::{
            access::Access,
            app::{App, AppId, AppSpec, Upstream, UpstreamScheme},
            destination::Destination,
            principal::{PersonClaims, Principal},
        },
    };

    fn permit(access: &str, groups: &[&str]) -> Option<Permit> {
        let upstream = Upstream {
            scheme: UpstreamScheme::Http,
            host: "app".into(),
            port: 80,
        };
        let id = AppId::new("app").expect("an id");
        let access = Access::parse(access);
        let app = App::on_host(AppSpec::new(id, upstream, access, Duration::from_secs(1)));
        let claims = PersonClaims {
            subject: "alice".into(),
            groups: groups
                .iter()
                .filter_map(|name| GroupName::new(name))
                .collect(),
            ..PersonClaims::default()
        };
        let person = Arc::new(Principal::new(claims, &[]));
        let target = PathAndQuery::from_static("/x");
        authorize(Destination::new(Arc::new(app), target, 0), Some(&person), 0).ok()
    }

    #[test]
    fn a_person_must_be_in_one_of_the_groups() {
        let permit = permit("user", &["a", "b c", "team/x"]).expect("a permit");
        for (list, admits) in [
            ("a", true),
            ("/a", true),
            ("z,a", true),
            ("a,a", true),
            (",,a,", true),
            ("b c", true),
            ("team/x", true),
            ("", false),
            (",", false),
            ("/", false),
            ("A", false),
            ("z", false),
            (" a", false),
            ("a ", false),
            ("a\0", false),
            ("a%2cz", false),
            ("x", false),
            ("*", false),
        ] {
            assert_eq!(
                AllowedGroups::parse(list).admit(&permit),
                admits,
                "{list:?}"
            );
        }
    }

    #[test]
    fn what_needs_no_person_is_not_permitted_to_groups() {
        let permit = permit("public", &["a"]).expect("a permit");
        assert!(!AllowedGroups::parse("a").admit(&permit));
    }

    proptest! {
        #[test]
        fn a_list_admits_only_members(
            list in "[ab,/ %]{0,12}",
            groups in prop::collection::vec("[ab/]{1,2}", 0..3),
        ) {
            let names: Vec<&str> = groups.iter().map(String::as_str).collect();
            let permit = permit("user", &names).expect("a permit");
            let is_name = |listed: &str, group: &str| {
                let listed = GroupName::new(listed);
                listed.is_some() && listed == GroupName::new(group)
            };
            let is_member = list
                .split(',')
                .any(|listed| names.iter().any(|group| is_name(listed, group)));
            prop_assert_eq!(AllowedGroups::parse(&list).admit(&permit), is_member);
        }
    }
}
