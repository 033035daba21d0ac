//! The name and the groups that a person has in Kubernetes.

use ludgate_model::{access::UsernameClaim, principal::Principal};

/// Names and groups of this kind are those of Kubernetes itself, such as `system:masters`.
pub const RESERVED: &str = "system:";
/// The group of all users with a name.
const AUTHENTICATED: &str = "system:authenticated";

/// How names of people are made, as the options of the API server's OpenID sign-in say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterNames {
    /// The claim with the name.
    pub claim: UsernameClaim,
    /// What stands before a name.
    pub username_prefix: String,
    /// What stands before a group.
    pub groups_prefix: String,
}

/// A person as Kubernetes knows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterUser {
    /// The name.
    pub name: String,
    /// The groups.
    pub groups: Vec<String>,
}

impl ClusterNames {
    /// The person's name and groups; `None`: the token has no name, or one that Kubernetes
    /// reserves for itself. Such groups are left out.
    pub fn user(&self, person: &Principal) -> Option<ClusterUser> {
        let name = match self.claim {
            UsernameClaim::PreferredUsername => person.preferred_username.as_deref()?,
            UsernameClaim::Subject => &*person.subject,
        };
        let full = format!("{}{name}", self.username_prefix);
        if name.is_empty() || full.starts_with(RESERVED) {
            return None;
        }
        let groups = person.groups().iter();
        let groups = groups.map(|group| format!("{}{group}", self.groups_prefix));
        let mut groups: Vec<String> = groups
            .filter(|group| !group.starts_with(RESERVED))
            .collect();
        groups.push(AUTHENTICATED.to_owned());
        Some(ClusterUser { name: full, groups })
    }
}

#[cfg(test)]
mod tests {
    use ludgate_model::{access::GroupName, principal::PersonClaims};

    use super::*;

    fn person(subject: &str, name: Option<&str>, groups: &[&str]) -> Principal {
        let claims = PersonClaims {
            subject: subject.to_owned(),
            preferred_username: name.map(str::to_owned),
            groups: groups
                .iter()
                .filter_map(|name| GroupName::new(name))
                .collect(),
            ..PersonClaims::default()
        };
        Principal::new(claims, &[])
    }

    #[test]
    fn names_and_groups_have_their_prefixes() {
        let names = ClusterNames {
            claim: UsernameClaim::Subject,
            username_prefix: "oidc:".to_owned(),
            groups_prefix: "hub:".to_owned(),
        };
        let user = names.user(&person("7", Some("alice"), &["b", "a"]));
        let user = user.expect("a name");
        assert_eq!(user.name, "oidc:7");
        assert_eq!(user.groups, ["hub:a", "hub:b", AUTHENTICATED]);
        let plain = ClusterNames::default().user(&person("7", Some("alice"), &[]));
        assert_eq!(plain.map(|user| user.name), Some("alice".to_owned()));
    }

    #[test]
    fn no_person_gets_a_name_or_a_group_of_kubernetes_itself() {
        let names = ClusterNames::default();
        let masters = names.user(&person("7", Some("alice"), &["system:masters", "a"]));
        let masters = masters.expect("a name");
        assert_eq!(masters.groups, ["a", AUTHENTICATED]);
        for name in [None, Some(""), Some("system:admin")] {
            assert_eq!(names.user(&person("7", name, &[])), None, "{name:?}");
        }
        let prefixed = ClusterNames {
            groups_prefix: "sys".to_owned(),
            ..ClusterNames::default()
        };
        let joined = prefixed.user(&person("7", Some("a"), &["tem:masters"]));
        let joined = joined.expect("a name");
        assert_eq!(joined.groups, [AUTHENTICATED]);
    }
}
