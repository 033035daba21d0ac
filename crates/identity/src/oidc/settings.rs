//! The configuration of the OpenID Connect client.

use std::sync::Arc;

use openidconnect::IssuerUrl;
use url::Url;

use crate::model::{access::GroupName, secret::Secret};

/// The configuration of the provider and of its claims.
#[derive(Clone, Debug)]
pub struct OidcSettings {
    /// The issuer, byte for byte as the provider spells it.
    pub issuer: IssuerUrl,
    /// The client id.
    pub client_id: String,
    /// Absent for a public client; PKCE is used either way.
    pub client_secret: Option<Secret>,
    /// The scopes that are requested at sign-in; `openid` is always among them.
    pub scopes: Vec<String>,
    /// A claim's name, or a JSON pointer when it begins with `/`.
    pub groups_claim: String,
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
