//! The names of accounts and groups of each provider. People of the default provider have the names
//! that it gives them; those of a further one have `<id>:` before them. So no account of one
//! provider matches a rule that names one of another.

use crate::model::{
    access::GroupName,
    principal::{PersonClaims, Principal},
    provider_id::ProviderId,
};

/// An account of the default provider is named like one of another provider, or is in a group with
/// such a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the account, or a group of it, is named like those of the provider {0}")]
pub struct ReservedName(pub ProviderId);

/// How the accounts of one provider are named here. The default value is that of a provider beside
/// which there is no other.
#[derive(Clone, Debug, Default)]
pub struct AccountMapping {
    /// `None`: the default provider.
    provider: Option<ProviderId>,
    /// Whether its e-mail addresses count; those of the default provider always do.
    trusts_emails: bool,
    /// The further providers, whose names no account of the default one may have.
    others: Vec<ProviderId>,
}

impl AccountMapping {
    /// The mapping of the default provider, beside these others.
    pub fn of_default(others: Vec<ProviderId>) -> AccountMapping {
        AccountMapping {
            provider: None,
            trusts_emails: true,
            others,
        }
    }

    /// The mapping of a further provider.
    pub fn of_further(provider: ProviderId, trusts_emails: bool) -> AccountMapping {
        AccountMapping {
            provider: Some(provider),
            trusts_emails,
            others: Vec::new(),
        }
    }

    /// The provider; `None`: the default one.
    pub fn provider(&self) -> Option<&ProviderId> {
        self.provider.as_ref()
    }

    /// The account of a person as the provider describes them.
    ///
    /// # Errors
    /// See [`ReservedName`].
    pub(super) fn account(&self, person: PersonClaims) -> Result<PersonClaims, ReservedName> {
        match &self.provider {
            None => self.unless_reserved(person),
            Some(provider) => Ok(self.of_further_provider(provider, person)),
        }
    }

    /// The name here of an account, or of anything else of the provider.
    pub(super) fn qualify(&self, name: &str) -> String {
        match &self.provider {
            None => name.to_owned(),
            Some(provider) => provider.qualify(name),
        }
    }

    /// The name of an account at the provider; `None`: it is an account of another one.
    pub(super) fn subject_at_provider<'s>(&self, subject: &'s str) -> Option<&'s str> {
        match &self.provider {
            None => Some(subject),
            Some(provider) => provider.unqualify(subject),
        }
    }

    /// Whether a person of an earlier sign-in has names that accounts of the provider may have. A
    /// provider that was added since may have them now.
    pub(super) fn can_have(&self, person: &Principal) -> bool {
        let username = person.preferred_username.as_deref();
        match &self.provider {
            None => self
                .namesake(&person.subject, username, person.groups())
                .is_none(),
            Some(provider) => provider.unqualify(&person.subject).is_some(),
        }
    }

    /// Removes an e-mail address that does not count. Apps would trust the header with it, as they
    /// do for people of the default provider.
    pub(super) fn remove_untrusted_email(&self, person: &mut PersonClaims) {
        if self.provider.is_some() && !self.trusts_emails {
            person.email = None;
            person.is_email_verified = false;
        }
    }

    fn unless_reserved(&self, person: PersonClaims) -> Result<PersonClaims, ReservedName> {
        let username = person.preferred_username.as_deref();
        match self.namesake(&person.subject, username, &person.groups) {
            Some(other) => Err(ReservedName(other.clone())),
            None => Ok(person),
        }
    }

    /// The further provider whose accounts or groups have such names.
    fn namesake(
        &self,
        subject: &str,
        username: Option<&str>,
        groups: &[GroupName],
    ) -> Option<&ProviderId> {
        let groups = groups.iter().map(GroupName::as_str);
        let mut names = std::iter::once(subject).chain(username).chain(groups);
        names.find_map(|name| {
            let mut others = self.others.iter();
            others.find(|other| other.is_resembled_by(name))
        })
    }

    fn of_further_provider(&self, provider: &ProviderId, person: PersonClaims) -> PersonClaims {
        let qualify = |group: &GroupName| GroupName::new(&provider.qualify(group.as_str()));
        let groups: Vec<_> = person.groups.iter().filter_map(qualify).collect();
        // A name that is too long with the prefix is left out.
        let are_cut = groups.len() < person.groups.len();
        // With the prefix, an empty one would be a name, and the same for all who have it.
        let username = person.preferred_username.as_deref();
        let username = username.filter(|name| !name.is_empty());
        let mut account = PersonClaims {
            subject: provider.qualify(&person.subject),
            // Labs and apps may take it for the name of an account.
            preferred_username: username.map(|name| provider.qualify(name)),
            are_groups_partial: person.are_groups_partial || are_cut,
            groups,
            ..person
        };
        self.remove_untrusted_email(&mut account);
        account
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn corp() -> ProviderId {
        ProviderId::new("corp").expect("an id")
    }

    fn person(subject: &str, username: &str, groups: &[&str]) -> PersonClaims {
        PersonClaims {
            subject: subject.to_owned(),
            name: Some("Alice".to_owned()),
            email: Some("alice@example.com".to_owned()),
            is_email_verified: true,
            preferred_username: Some(username.to_owned()),
            groups: groups
                .iter()
                .filter_map(|name| GroupName::new(name))
                .collect(),
            ..PersonClaims::default()
        }
    }

    fn groups(account: &PersonClaims) -> Vec<&str> {
        account.groups.iter().map(GroupName::as_str).collect()
    }

    #[test]
    fn an_account_of_a_further_provider_shares_no_name_with_one_of_the_default_one() {
        let mapping = AccountMapping::of_further(corp(), false);
        let account = mapping.account(person("alice", "al", &["/a", "corp:b"]));
        let account = account.expect("an account");
        assert_eq!(account.subject, "corp:alice");
        assert_eq!(account.preferred_username.as_deref(), Some("corp:al"));
        assert_eq!(groups(&account), ["corp:a", "corp:corp:b"]);
        assert_eq!(account.name.as_deref(), Some("Alice"));
        assert!(!account.are_groups_partial);
        assert_eq!((account.email, account.is_email_verified), (None, false));
        assert_eq!(mapping.qualify("alice"), "corp:alice");
        assert_eq!(mapping.subject_at_provider("corp:alice"), Some("alice"));
        assert_eq!(mapping.subject_at_provider("alice"), None);
    }

    #[test]
    fn an_address_counts_only_if_the_provider_is_trusted_for_it() {
        let mapping = AccountMapping::of_further(corp(), true);
        let account = mapping
            .account(person("alice", "al", &[]))
            .expect("an account");
        assert_eq!(account.email.as_deref(), Some("alice@example.com"));
        assert!(account.is_email_verified);
    }

    #[test]
    fn a_session_from_before_a_provider_was_added_may_have_its_names() {
        let default = AccountMapping::of_default(vec![corp()]);
        let further = AccountMapping::of_further(corp(), false);
        for (subject, username, group, of_default, of_further) in [
            ("alice", "al", "a", true, false),
            ("corp:alice", "al", "a", false, true),
            ("alice", "corp:al", "a", false, false),
            ("alice", "al", "corp:a", false, false),
        ] {
            let person = Principal::new(person(subject, username, &[group]), &[]);
            assert_eq!(default.can_have(&person), of_default, "{person:?}");
            assert_eq!(further.can_have(&person), of_further, "{person:?}");
            assert!(AccountMapping::default().can_have(&person), "{person:?}");
        }
    }

    #[test]
    fn an_empty_username_stays_none() {
        let mapping = AccountMapping::of_further(corp(), false);
        let account = mapping.account(person("alice", "", &[]));
        assert_eq!(account.expect("an account").preferred_username, None);
    }

    #[test]
    fn a_group_whose_name_becomes_too_long_leaves_the_list_partial() {
        let mapping = AccountMapping::of_further(corp(), false);
        let long = "g".repeat(255);
        let account = mapping.account(person("alice", "al", &["a", &long]));
        let account = account.expect("an account");
        assert_eq!(groups(&account), ["corp:a"]);
        assert!(account.are_groups_partial);
    }

    #[test]
    fn no_account_of_the_default_provider_is_named_like_one_of_another() {
        let mapping = AccountMapping::of_default(vec![corp()]);
        for (subject, username, group, is_accepted) in [
            ("alice", "al", "a", true),
            ("corporate:alice", "corp", "corp", true),
            ("other:alice", "x:corp:al", "x/corp:a", true),
            ("corp:alice", "al", "a", false),
            ("alice", "corp:al", "a", false),
            ("alice", "al", "corp:a", false),
            // A slash at the beginning is no part of a group's name.
            ("alice", "al", "/corp:a", false),
            ("alice", "al", "//corp:a", false),
            ("corp:", "al", "a", false),
            ("Corp:alice", "al", "a", false),
            ("alice", " CORP:al", "a", false),
        ] {
            let account = mapping.account(person(subject, username, &[group]));
            let refused = ReservedName(corp());
            let wanted = if is_accepted {
                Ok(subject)
            } else {
                Err(&refused)
            };
            let found = account.as_ref().map(|account| &*account.subject);
            assert_eq!(found, wanted, "{subject} {username} {group}");
        }
        let alone = AccountMapping::default();
        let account = alone.account(person("corp:alice", "al", &["corp:a"]));
        let account = account.expect("an account");
        assert_eq!(
            (&*account.subject, groups(&account)),
            ("corp:alice", vec!["corp:a"])
        );
        assert!(account.email.is_some());
    }
}
