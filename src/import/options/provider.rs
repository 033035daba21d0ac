//! Options of the identity provider.

use super::entry::{OptionEntry, fixed, translated, unneeded, unsupported};
use crate::import::value::ValueKind::{Switch, Text, Texts};

const DISCOVERY: &str = "the addresses come from the discovery document of the issuer";
const ADMIN_API: &str =
    "groups come from a claim or from identity.groups_url, not from the Admin API of Google";

/// The options.
pub(crate) const OPTIONS: &[OptionEntry] = &[
    translated("provider", Text),
    translated("client_id", Text),
    translated("client_secret", Text),
    translated("client_secret_file", Text),
    translated("oidc_issuer_url", Text),
    translated("scope", Text),
    translated("oidc_groups_claim", Text),
    translated("oidc_email_claim", Text),
    translated("user_id_claim", Text),
    translated("oidc_extra_audiences", Texts),
    translated("provider_ca_files", Texts),
    translated("azure_tenant", Text),
    translated("login_url", Text),
    translated("allowed_groups", Texts),
    translated("allowed_roles", Texts),
    translated("keycloak_groups", Texts),
    translated("gitlab_groups", Texts),
    translated("gitlab_projects", Texts),
    translated("google_groups", Texts),
    translated("github_org", Text),
    translated("github_team", Text),
    translated("github_repo", Text),
    translated("github_users", Texts),
    translated("bitbucket_team", Text),
    translated("bitbucket_repository", Text),
    translated("entra_id_allowed_tenants", Texts),
    fixed(
        "code_challenge_method",
        Text,
        "S256",
        "the method is always S256, which the provider must allow for this client",
    ),
    fixed(
        "force_code_challenge_method",
        Text,
        "S256",
        "the method is always S256, which the provider must allow for this client",
    ),
    fixed(
        "auth_request_response_mode",
        Text,
        "query",
        "the response mode is always query",
    ),
    fixed(
        "insecure_oidc_allow_unverified_email",
        Switch,
        "false",
        "only verified addresses count in access rules; have the provider send email_verified, or use groups",
    ),
    fixed(
        "insecure_oidc_skip_issuer_verification",
        Switch,
        "false",
        "the issuer is always verified; use the issuer of one tenant",
    ),
    fixed(
        "oidc_audience_claims",
        Texts,
        "aud",
        "the audience is always the claim aud",
    ),
    fixed(
        "skip_oidc_discovery",
        Switch,
        "false",
        "the issuer must have a discovery document",
    ),
    fixed(
        "ssl_insecure_skip_verify",
        Switch,
        "false",
        "certificates are always verified; name the provider's CA in identity.ca",
    ),
    fixed(
        "use_system_trust_store",
        Switch,
        "false",
        "with identity.ca only its certificates are trusted; add the others to that file",
    ),
    unneeded(
        "insecure_oidc_skip_nonce",
        Switch,
        "the nonce is always checked",
    ),
    unneeded("redeem_url", Text, DISCOVERY),
    unneeded("profile_url", Text, DISCOVERY),
    unneeded("validate_url", Text, DISCOVERY),
    unneeded("oidc_jwks_url", Text, DISCOVERY),
    unneeded(
        "skip_claims_from_profile_url",
        Switch,
        "userinfo is asked only for claims that the ID token lacks",
    ),
    unneeded(
        "approval_prompt",
        Text,
        "OpenID Connect has no such parameter",
    ),
    unneeded(
        "provider_display_name",
        Text,
        "people go to the provider without a sign-in page that could name it",
    ),
    unneeded(
        "backend_logout_url",
        Text,
        "sign-out leads to the provider's own sign-out (identity.sign_out_at_provider)",
    ),
    unsupported(
        "acr_values",
        Text,
        "no acr_values are requested; require the level at the provider, for this client",
    ),
    unsupported(
        "prompt",
        Text,
        "no prompt is requested; set it at the provider, for this client",
    ),
    unsupported(
        "resource",
        Text,
        "no resource is requested; use scopes of the tenant's v2.0 endpoint",
    ),
    unsupported(
        "oidc_public_key_files",
        Texts,
        "keys come from the provider's jwks_uri only",
    ),
    unsupported(
        "oidc_enabled_signing_algs",
        Texts,
        "the list cannot be narrowed; set the algorithm at the provider, for this client",
    ),
    unsupported(
        "azure_graph_group_field",
        Text,
        "use identity.groups_url with the address of Microsoft Graph, and identity.groups_field",
    ),
    unsupported(
        "entra_id_federated_token_auth",
        Switch,
        "the client authenticates with a secret; make one for it",
    ),
    unsupported("google_admin_email", Text, ADMIN_API),
    unsupported("google_service_account_json", Text, ADMIN_API),
    unsupported(
        "google_use_application_default_credentials",
        Switch,
        ADMIN_API,
    ),
    unsupported("google_target_principal", Text, ADMIN_API),
    unsupported("google_use_organization_id", Switch, ADMIN_API),
    unsupported("google_admin_api_user_scope", Text, ADMIN_API),
    unsupported(
        "github_token",
        Text,
        "GitHub is no OpenID provider; put Dex or Keycloak in between",
    ),
    unsupported(
        "jwt_key",
        Text,
        "the client authenticates with a secret, not with a signed JWT",
    ),
    unsupported(
        "jwt_key_file",
        Text,
        "the client authenticates with a secret, not with a signed JWT",
    ),
    unsupported(
        "pubjwk_url",
        Text,
        "the client authenticates with a secret, not with a signed JWT",
    ),
    unsupported(
        "oidc_roles_claim",
        Text,
        "use a clause claim:<JSON pointer>=<value> in the access rule",
    ),
];
