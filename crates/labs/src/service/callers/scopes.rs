//! Which callers have which scope, by rules of the configuration.

use std::collections::BTreeSet;

use ludgate_model::access::GroupName;
use serde_json::{Map, Value};

use super::{caller::LabScope, claims};

/// A claim with several scopes in one text (RFC 9068 section 2.2.3).
const SCOPE_CLAIM: &str = "scope";

/// A rule that gives a scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScopeRule {
    /// `user`: each caller with a name.
    User,
    /// `name:<username>`: this caller.
    Name(String),
    /// `group:<group>`: members of the group.
    Group(GroupName),
    /// `claim:<claim>=<value>`: tokens with this value, or with it in a list. The claim is a name
    /// or a JSON pointer.
    Claim {
        /// Name or JSON pointer.
        name: String,
        /// The value.
        value: String,
    },
    /// `proxy`: each request that a listed proxy lets through, since it has checked the scope.
    Proxy,
}

impl ScopeRule {
    /// Reads a rule as the configuration writes it.
    ///
    /// # Errors
    /// What is allowed, as text.
    pub fn parse(text: &str) -> Result<ScopeRule, String> {
        let unknown = || {
            format!(
                "{text:?} is no rule; allowed are user, proxy, name:NAME, group:GROUP and \
                 claim:CLAIM=VALUE"
            )
        };
        match text {
            "user" => return Ok(ScopeRule::User),
            "proxy" => return Ok(ScopeRule::Proxy),
            _ => {}
        }
        let (kind, rest) = text.split_once(':').ok_or_else(unknown)?;
        match kind {
            "name" if !rest.is_empty() => Ok(ScopeRule::Name(rest.to_owned())),
            "group" => GroupName::new(rest)
                .map(ScopeRule::Group)
                .ok_or_else(unknown),
            "claim" => match rest.split_once('=') {
                Some((name, value)) if !name.is_empty() && !value.is_empty() => {
                    Ok(ScopeRule::Claim {
                        name: name.to_owned(),
                        value: value.to_owned(),
                    })
                }
                Some(_) | None => Err(unknown()),
            },
            _ => Err(unknown()),
        }
    }

    fn holds(&self, subject: &ScopeSubject<'_>) -> bool {
        match self {
            ScopeRule::User => !subject.username.is_empty(),
            ScopeRule::Name(name) => subject.username == name,
            ScopeRule::Group(group) => subject.groups.contains(group),
            ScopeRule::Claim { name, value } => subject
                .claims
                .and_then(|claims| claims::find(claims, name))
                .is_some_and(|found| has_value(found, value, name == SCOPE_CLAIM)),
            ScopeRule::Proxy => subject.is_proxied,
        }
    }
}

/// Whether a claim is the value, or a list that contains it.
fn has_value(claim: &Value, wanted: &str, is_scope: bool) -> bool {
    match claim {
        Value::String(text) if is_scope => text.split(' ').any(|word| word == wanted),
        Value::String(text) => text == wanted,
        Value::Array(list) => list.iter().any(|one| one.as_str() == Some(wanted)),
        Value::Bool(flag) => flag.to_string() == wanted,
        Value::Number(number) => number.to_string() == wanted,
        Value::Null | Value::Object(_) => false,
    }
}

/// The rules of each scope. One rule that holds is enough; without rules a scope is given to no
/// caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScopeRules {
    /// Who may start a lab.
    pub notebook: Vec<ScopeRule>,
    /// Who may open a file server.
    pub files: Vec<ScopeRule>,
    /// Who is a hub.
    pub hub: Vec<ScopeRule>,
    /// Who may read images and prepulls, and manage file servers.
    pub admin: Vec<ScopeRule>,
}

/// What is known of a caller.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScopeSubject<'s> {
    pub(super) username: &'s str,
    pub(super) groups: &'s [GroupName],
    /// Claims of a verified token.
    pub(super) claims: Option<&'s Map<String, Value>>,
    /// Whether a listed proxy sent the request.
    pub(super) is_proxied: bool,
}

impl ScopeRules {
    /// The scopes of a caller.
    pub(super) fn granted_to(&self, subject: &ScopeSubject<'_>) -> BTreeSet<LabScope> {
        self.granted(|rule| rule.holds(subject))
    }

    /// The scopes of a request that a listed proxy lets through without a name.
    pub(super) fn granted_to_proxies(&self) -> BTreeSet<LabScope> {
        self.granted(|rule| *rule == ScopeRule::Proxy)
    }

    fn granted(&self, holds: impl Fn(&ScopeRule) -> bool) -> BTreeSet<LabScope> {
        let scopes = [
            (LabScope::Notebook, &self.notebook),
            (LabScope::Files, &self.files),
            (LabScope::Hub, &self.hub),
            (LabScope::Admin, &self.admin),
        ];
        let granted = scopes
            .into_iter()
            .filter(|(_, rules)| rules.iter().any(&holds));
        granted.map(|(scope, _)| scope).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn holds(rule: &str, username: &str, groups: &[&str], claims: &Value) -> bool {
        let groups: Vec<GroupName> = groups.iter().filter_map(|n| GroupName::new(n)).collect();
        let subject = ScopeSubject {
            username,
            groups: &groups,
            claims: claims.as_object(),
            is_proxied: false,
        };
        ScopeRule::parse(rule).unwrap().holds(&subject)
    }

    #[test]
    fn a_rule_holds_for_a_name_a_group_or_a_claim() {
        let claims = json!({
            "azp": "jupyterhub",
            "scope": "openid exec:notebook",
            "realm_access": { "roles": ["hub"] },
            "name": "exec:notebook admin",
        });
        for (rule, expected) in [
            ("user", true),
            ("name:rachel", true),
            ("name:Rachel", false),
            ("group:science", true),
            ("group:/science", true),
            ("group:sci", false),
            ("claim:azp=jupyterhub", true),
            ("claim:azp=jupyter", false),
            ("claim:scope=exec:notebook", true),
            ("claim:scope=exec", false),
            ("claim:/realm_access/roles=hub", true),
            // Only scopes are several words in one text.
            ("claim:name=admin", false),
            ("proxy", false),
        ] {
            assert_eq!(
                holds(rule, "rachel", &["/science"], &claims),
                expected,
                "{rule}"
            );
        }
        assert!(!holds("user", "", &[], &Value::Null));
    }

    #[test]
    fn what_is_no_rule_is_refused_with_those_that_are() {
        for text in ["", "everyone", "group:", "name:", "claim:a", "claim:=b"] {
            let error = ScopeRule::parse(text).unwrap_err();
            assert!(error.contains("group:GROUP"), "{error}");
        }
    }

    #[test]
    fn without_rules_there_are_no_scopes() {
        let subject = ScopeSubject {
            username: "rachel",
            groups: &[],
            claims: None,
            is_proxied: true,
        };
        assert!(ScopeRules::default().granted_to(&subject).is_empty());
        let rules = ScopeRules {
            hub: vec![ScopeRule::Proxy],
            ..ScopeRules::default()
        };
        assert_eq!(rules.granted_to(&subject), BTreeSet::from([LabScope::Hub]));
        assert_eq!(rules.granted_to_proxies(), BTreeSet::from([LabScope::Hub]));
    }
}
