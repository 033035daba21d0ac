//! The configuration of the OpenID Connect client.

use std::sync::Arc;

use openidconnect::IssuerUrl;
use url::Url;

use super::account_mapping::AccountMapping;
use crate::model::{
    access::{GroupName, clause::ClaimPointer},
    secret::Secret,
};

/// The configuration of the provider and of its claims.
#[derive(Clone, Debug)]
pub struct OidcSettings {
    /// The issuer, byte for byte as the provider spells it.
    pub issuer: IssuerUrl,
    /// The names of its accounts here.
    pub accounts: AccountMapping,
    /// Its name for people; `None`: the host of its issuer.
    pub name: Option<String>,
    /// The client id.
    pub client_id: String,
    /// Absent for a public client; PKCE is used either way.
    pub client_secret: Option<Secret>,
    /// The scopes that are requested at sign-in; `openid` is always among them.
    pub scopes: Vec<String>,
    /// A claim's name, or a JSON pointer when it begins with `/`.
    pub groups_claim: String,
    /// The claims whose values are kept, because access rules name them.
    pub claims: Vec<ClaimPointer>,
    /// The source of groups that do not fit into a token.
    pub directory: Option<GroupDirectory>,
    /// Members of these groups are admins.
    pub admin_groups: Vec<GroupName>,
    /// Values that are accepted in `aud` of bearer tokens.
    pub audiences: Vec<String>,
    /// Whether a sign-out here continues with a sign-out at the provider.
    pub sign_out_at_provider: bool,
    /// PEM content of the CA behind the provider's certificate; `None`: the system's.
    pub ca: Option<Arc<[u8]>>,
    /// Further providers where people sign in; empty for one of them.
    pub providers: Vec<OidcSettings>,
    /// Other issuers whose bearer tokens are accepted.
    pub trusted_issuers: Vec<TrustedIssuer>,
    /// How opaque tokens are verified, at apps that take them.
    pub introspection: IntrospectionSettings,
}

/// How opaque tokens are verified.
#[derive(Clone, Debug, Default)]
pub struct IntrospectionSettings {
    /// The endpoint; `None`: the one of the provider's metadata.
    pub url: Option<Url>,
    /// Scopes that a token must have, each of them.
    pub scopes: Vec<String>,
}

/// Another issuer whose bearer tokens are accepted, such as that of a cluster's service accounts.
#[derive(Clone, Debug)]
pub struct TrustedIssuer {
    /// The issuer, byte for byte as it spells itself.
    pub issuer: IssuerUrl,
    /// A token must be for one of these (`aud`).
    pub audiences: Vec<String>,
    /// The accounts behind its tokens.
    pub accounts: ForeignAccounts,
    /// PEM content of the CA behind the issuer's certificate; `None`: the system's.
    pub ca: Option<Arc<[u8]>>,
}

/// How accounts of another issuer are told from people of the configured one.
#[derive(Clone, Debug)]
pub struct ForeignAccounts {
    /// The claim with the name of the account: a name, or a JSON pointer when it begins with `/`.
    pub user_claim: String,
    /// Stands before that name, so that it is no subject of the configured issuer.
    pub subject_prefix: String,
    /// The claim with the groups; `None`: its accounts are in none.
    pub groups_claim: Option<String>,
    /// Stands before each group. Empty: they are the groups of the configured issuer.
    pub group_prefix: String,
    /// The claims that access rules may name; rules about all others do not match.
    pub claims: Vec<ClaimPointer>,
    /// Whether the rule `user` admits its accounts.
    pub are_users: bool,
}

impl TrustedIssuer {
    /// The settings of a client that only verifies tokens of this issuer. `people` are the names of
    /// the accounts of the default provider, among which those of this issuer are.
    pub(super) fn verification(&self, people: &AccountMapping) -> OidcSettings {
        OidcSettings {
            issuer: self.issuer.clone(),
            accounts: people.clone(),
            name: None,
            client_id: String::new(),
            client_secret: None,
            scopes: Vec::new(),
            groups_claim: self.accounts.groups_claim.clone().unwrap_or_default(),
            claims: self.accounts.claims.clone(),
            directory: None,
            // An admin group of ours says nothing about other issuers.
            admin_groups: Vec::new(),
            audiences: self.audiences.clone(),
            sign_out_at_provider: false,
            ca: self.ca.clone(),
            providers: Vec::new(),
            trusted_issuers: Vec::new(),
            introspection: IntrospectionSettings::default(),
        }
    }
}

/// The source of groups that do not fit into a token.
#[derive(Clone, Debug)]
pub struct GroupDirectory {
    /// The URL of the caller's groups: a JSON list of strings or objects, at the top level or in
    /// `value`.
    pub url: Url,
    /// The field of each object that holds the group.
    pub field: String,
}
