//! Fields of the alpha configuration: the option that each one equals, and those without one.

use super::entry::{OptionEntry, fixed, translated, unneeded, unsupported};
use crate::import::value::ValueKind::{Duration, Number, Switch, Text, Texts};

const INLINE: &str =
    "a certificate and its key are read from files; use tls_cert_file and tls_key_file";
const PARAMETERS: &str =
    "no parameters are added to the sign-in; set them at the provider, for this client";
const REWRITE: &str = "paths cannot be rewritten; the app gets the path below its prefix, and upstreams with this are left out";
const FILES: &str = "Ludgate serves no files and no fixed responses";

/// Fields that no option of the configuration file equals. Indexes of lists are left out.
pub(crate) const OPTIONS: &[OptionEntry] = &[
    translated("upstreamConfig.upstreams[].id", Text),
    translated("upstreamConfig.upstreams[].path", Text),
    translated("upstreamConfig.upstreams[].uri", Text),
    translated("upstreamConfig.upstreams[].passHostHeader", Switch),
    translated("upstreamConfig.upstreams[].timeout", Duration),
    unsupported("upstreamConfig.upstreams[].rewriteTarget", Text, REWRITE),
    fixed(
        "upstreamConfig.upstreams[].insecureSkipTLSVerify",
        Switch,
        "false",
        "certificates are always verified; name the app's CA in apps.ca, or its key in apps.certificate_pin",
    ),
    fixed("upstreamConfig.upstreams[].static", Switch, "false", FILES),
    unsupported("upstreamConfig.upstreams[].staticCode", Number, FILES),
    unneeded(
        "upstreamConfig.upstreams[].flushInterval",
        Duration,
        "each part of a response is sent on at once",
    ),
    fixed(
        "upstreamConfig.upstreams[].proxyWebSockets",
        Switch,
        "true",
        "WebSockets cannot be switched off; they pass the same access check",
    ),
    fixed(
        "upstreamConfig.upstreams[].disableKeepAlives",
        Switch,
        "false",
        "connections to apps are kept for limits.upstream_idle",
    ),
    unneeded(
        "upstreamConfig.proxyRawPath",
        Switch,
        "paths are forwarded byte for byte",
    ),
    translated("injectRequestHeaders[]", Text),
    unsupported(
        "injectResponseHeaders[]",
        Text,
        "Ludgate adds no such headers to responses; for auth requests see docs/forward-auth.md",
    ),
    unneeded("providers[].id", Text, "there is one provider"),
    unsupported(
        "providers[1]",
        Text,
        "there is one provider; a provider such as Dex or Keycloak can join several",
    ),
    unsupported(
        "providers[].additionalClaims",
        Texts,
        "list claims for access rules in identity.claims",
    ),
    unsupported("providers[].loginURLParameters[]", Text, PARAMETERS),
    unneeded(
        "providers[].ADFSConfig.skipScope",
        Switch,
        "identity.scopes says which scopes are requested",
    ),
    unsupported("server.tls.key.value", Text, INLINE),
    unsupported("server.tls.key.fromEnv", Text, INLINE),
    unsupported("server.tls.cert.value", Text, INLINE),
    unsupported("server.tls.cert.fromEnv", Text, INLINE),
];

/// Fields and the options that they equal.
const ALPHA_NAMES: &[(&str, &str)] = &[
    ("providers[].clientID", "client_id"),
    ("providers[].clientSecret", "client_secret"),
    ("providers[].clientSecretFile", "client_secret_file"),
    ("providers[].provider", "provider"),
    ("providers[].name", "provider_display_name"),
    ("providers[].caFiles", "provider_ca_files"),
    ("providers[].useSystemTrustStore", "use_system_trust_store"),
    ("providers[].loginURL", "login_url"),
    (
        "providers[].authRequestResponseMode",
        "auth_request_response_mode",
    ),
    ("providers[].redeemURL", "redeem_url"),
    ("providers[].profileURL", "profile_url"),
    (
        "providers[].skipClaimsFromProfileURL",
        "skip_claims_from_profile_url",
    ),
    ("providers[].resource", "resource"),
    ("providers[].validateURL", "validate_url"),
    ("providers[].scope", "scope"),
    ("providers[].allowedGroups", "allowed_groups"),
    ("providers[].code_challenge_method", "code_challenge_method"),
    ("providers[].backendLogoutURL", "backend_logout_url"),
    ("providers[].keycloakConfig.groups", "keycloak_groups"),
    ("providers[].keycloakConfig.roles", "allowed_roles"),
    ("providers[].azureConfig.tenant", "azure_tenant"),
    (
        "providers[].azureConfig.graphGroupField",
        "azure_graph_group_field",
    ),
    (
        "providers[].microsoftEntraIDConfig.allowedTenants",
        "entra_id_allowed_tenants",
    ),
    (
        "providers[].microsoftEntraIDConfig.federatedTokenAuth",
        "entra_id_federated_token_auth",
    ),
    ("providers[].bitbucketConfig.team", "bitbucket_team"),
    (
        "providers[].bitbucketConfig.repository",
        "bitbucket_repository",
    ),
    ("providers[].githubConfig.org", "github_org"),
    ("providers[].githubConfig.team", "github_team"),
    ("providers[].githubConfig.repo", "github_repo"),
    ("providers[].githubConfig.token", "github_token"),
    ("providers[].githubConfig.users", "github_users"),
    ("providers[].gitlabConfig.group", "gitlab_groups"),
    ("providers[].gitlabConfig.projects", "gitlab_projects"),
    ("providers[].googleConfig.group", "google_groups"),
    ("providers[].googleConfig.adminEmail", "google_admin_email"),
    (
        "providers[].googleConfig.serviceAccountJson",
        "google_service_account_json",
    ),
    (
        "providers[].googleConfig.useApplicationDefaultCredentials",
        "google_use_application_default_credentials",
    ),
    (
        "providers[].googleConfig.targetPrincipal",
        "google_target_principal",
    ),
    (
        "providers[].googleConfig.useOrganizationID",
        "google_use_organization_id",
    ),
    (
        "providers[].googleConfig.adminAPIUserScope",
        "google_admin_api_user_scope",
    ),
    ("providers[].loginGovConfig.jwtKey", "jwt_key"),
    ("providers[].loginGovConfig.jwtKeyFile", "jwt_key_file"),
    ("providers[].loginGovConfig.pubjwkURL", "pubjwk_url"),
    ("providers[].oidcConfig.issuerURL", "oidc_issuer_url"),
    (
        "providers[].oidcConfig.insecureAllowUnverifiedEmail",
        "insecure_oidc_allow_unverified_email",
    ),
    (
        "providers[].oidcConfig.insecureSkipIssuerVerification",
        "insecure_oidc_skip_issuer_verification",
    ),
    (
        "providers[].oidcConfig.insecureSkipNonce",
        "insecure_oidc_skip_nonce",
    ),
    (
        "providers[].oidcConfig.skipDiscovery",
        "skip_oidc_discovery",
    ),
    ("providers[].oidcConfig.jwksURL", "oidc_jwks_url"),
    (
        "providers[].oidcConfig.publicKeyFiles",
        "oidc_public_key_files",
    ),
    ("providers[].oidcConfig.publicKeys", "oidc_public_key_files"),
    ("providers[].oidcConfig.emailClaim", "oidc_email_claim"),
    ("providers[].oidcConfig.groupsClaim", "oidc_groups_claim"),
    ("providers[].oidcConfig.userIDClaim", "user_id_claim"),
    (
        "providers[].oidcConfig.audienceClaims",
        "oidc_audience_claims",
    ),
    (
        "providers[].oidcConfig.extraAudiences",
        "oidc_extra_audiences",
    ),
    (
        "providers[].oidcConfig.enabledSigningAlgs",
        "oidc_enabled_signing_algs",
    ),
    ("server.bindAddress", "http_address"),
    ("server.secureBindAddress", "https_address"),
    ("server.tls.key.fromFile", "tls_key_file"),
    ("server.tls.cert.fromFile", "tls_cert_file"),
    ("server.tls.minVersion", "tls_min_version"),
    ("server.tls.cipherSuites", "tls_cipher_suites"),
    ("metricsServer.bindAddress", "metrics_address"),
    ("metricsServer.secureBindAddress", "metrics_secure_address"),
    ("metricsServer.tls.key.fromFile", "metrics_tls_key_file"),
    ("metricsServer.tls.cert.fromFile", "metrics_tls_cert_file"),
];

/// The name of a field, without regard to case, as some versions write it in upper case: the
/// option that it equals, or its own.
pub(crate) fn find_alpha(path: &str) -> Option<&'static str> {
    let is_path = |name: &str| name.eq_ignore_ascii_case(path);
    let equal = ALPHA_NAMES.iter().find(|(field, _)| is_path(field));
    let own = || OPTIONS.iter().find(|entry| is_path(entry.name));
    equal
        .map(|(_, option)| *option)
        .or_else(|| own().map(|entry| entry.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::options;

    #[test]
    fn each_field_leads_to_an_option() {
        for (field, option) in ALPHA_NAMES {
            assert_eq!(find_alpha(field), Some(*option));
            assert!(options::find(option).is_some(), "{option}");
        }
        assert_eq!(find_alpha("Server.BindAddress"), Some("http_address"));
        assert_eq!(find_alpha("providers[].clientId2"), None);
    }
}
