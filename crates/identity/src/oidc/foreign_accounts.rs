//! Accounts of trusted issuers. Their names, groups and claims match no rule that was written for
//! people of the configured issuer, unless the configuration says so.

use serde_json::Value;

use super::{
    claims::{Claims, MAX_SUBJECT, TokenError},
    settings::ForeignAccounts,
};
use crate::model::{access::GroupName, principal::PersonClaims};

impl ForeignAccounts {
    /// The account behind a verified token. `claims` are those of the token, and `person` is what
    /// they would say about a person of the configured issuer.
    ///
    /// # Errors
    /// [`TokenError::Subject`] if the token does not name the account.
    pub(super) fn account(
        &self,
        claims: &Claims,
        person: PersonClaims,
    ) -> Result<PersonClaims, TokenError> {
        let token = serde_json::to_value(claims).map_err(|_| TokenError::Subject)?;
        let name = self.name(&token)?;
        let groups = match &self.groups_claim {
            Some(_) if self.group_prefix.is_empty() => person.groups,
            Some(_) => self.prefixed(&person.groups),
            None => Vec::new(),
        };
        Ok(PersonClaims {
            subject: format!("{}{name}", self.subject_prefix),
            groups,
            are_groups_partial: person.are_groups_partial,
            claims: person.claims,
            is_foreign: !self.are_users,
            // Addresses and usernames are those of the other issuer, and so is what it means by
            // `acr`.
            ..PersonClaims::default()
        })
    }

    fn prefixed(&self, groups: &[GroupName]) -> Vec<GroupName> {
        let prefixed = |group: &GroupName| GroupName::new(&format!("{}{group}", self.group_prefix));
        groups.iter().filter_map(prefixed).collect()
    }

    fn name<'t>(&self, token: &'t Value) -> Result<&'t str, TokenError> {
        let found = match self.user_claim.starts_with('/') {
            true => token.pointer(&self.user_claim),
            false => token.get(&self.user_claim),
        };
        found
            .and_then(Value::as_str)
            .filter(|name| (1..=MAX_SUBJECT).contains(&name.len()))
            .ok_or(TokenError::Subject)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn accounts() -> ForeignAccounts {
        ForeignAccounts {
            user_claim: "sub".to_owned(),
            subject_prefix: "ci:".to_owned(),
            groups_claim: Some("teams".to_owned()),
            group_prefix: "ci:".to_owned(),
            claims: Vec::new(),
            are_users: false,
        }
    }

    fn claims() -> Claims {
        let claims = json!({
            "iss": "https://ci.test", "aud": ["ludgate"], "exp": 2, "iat": 1, "sub": "repo:a/b",
            "email": "alice@example.com", "email_verified": true, "preferred_username": "alice",
            "repository": "a/b", "build": { "job": "nightly" }, "number": 7, "empty": "",
            "long": "x".repeat(MAX_SUBJECT + 1),
        });
        serde_json::from_value(claims).expect("claims")
    }

    /// What the claims would say about a person.
    fn alice() -> PersonClaims {
        PersonClaims {
            subject: "repo:a/b".to_owned(),
            name: Some("Alice".to_owned()),
            email: Some("alice@example.com".to_owned()),
            is_email_verified: true,
            preferred_username: Some("alice".to_owned()),
            groups: ["phusers", "/admins"]
                .into_iter()
                .filter_map(GroupName::new)
                .collect(),
            ..PersonClaims::default()
        }
    }

    fn groups(account: &PersonClaims) -> Vec<&str> {
        account.groups.iter().map(GroupName::as_str).collect()
    }

    #[test]
    fn an_account_shares_no_name_with_a_person() {
        let account = accounts().account(&claims(), alice()).expect("an account");
        assert_eq!(account.subject, "ci:repo:a/b");
        assert_eq!(groups(&account), ["ci:phusers", "ci:admins"]);
        assert!(account.is_foreign && !account.is_email_verified);
        assert_eq!(
            (account.name, account.email, account.preferred_username),
            (None, None, None)
        );
    }

    #[test]
    fn groups_and_the_rule_for_users_are_shared_only_if_the_operator_says_so() {
        let shared = ForeignAccounts {
            group_prefix: String::new(),
            are_users: true,
            ..accounts()
        };
        let account = shared.account(&claims(), alice()).expect("an account");
        assert_eq!(groups(&account), ["phusers", "admins"]);
        assert!(!account.is_foreign);
        let without_groups = ForeignAccounts {
            groups_claim: None,
            ..shared
        };
        let account = without_groups.account(&claims(), alice());
        assert_eq!(groups(&account.expect("an account")), [""; 0]);
    }

    #[test]
    fn the_name_of_an_account_is_the_text_of_one_claim() {
        for (claim, wanted) in [
            ("sub", Some("ci:repo:a/b")),
            ("repository", Some("ci:a/b")),
            ("/repository", Some("ci:a/b")),
            ("/build/job", Some("ci:nightly")),
            ("email", Some("ci:alice@example.com")),
            ("build", None),
            ("number", None),
            ("empty", None),
            ("long", None),
            ("missing", None),
            ("/build/missing", None),
        ] {
            let accounts = ForeignAccounts {
                user_claim: claim.to_owned(),
                ..accounts()
            };
            let account = accounts.account(&claims(), alice());
            let subject = account.map(|account| account.subject);
            let wanted = wanted.map(str::to_owned).ok_or(TokenError::Subject);
            assert_eq!(subject, wanted, "{claim}");
        }
    }
}
