//! The rules of sources of charts.

use ludgate_cluster::crd::chart_source::{
    ApplicationSource, COMMIT_PATTERN, GIT_METHODS, GitCredentials, GitReference, GitSource,
    HelmCredentials, HelmSource, REPOSITORY_URL_PATTERN,
};
use url::{Host, Url};

use super::field_error::FieldError;

/// Exceptions from the rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct SourceRules {
    /// Accepts `https` repositories on this machine, for tests. Clients of registries speak HTTP
    /// without TLS there, so people would not get what they ask for.
    pub allow_local_https: bool,
}

/// Checks a source. `field` is its path.
pub fn validate_source(
    source: &ApplicationSource,
    field: &str,
    rules: SourceRules,
) -> Vec<FieldError> {
    match (&source.helm, &source.git) {
        (Some(_), Some(_)) => {
            vec![FieldError::new(
                field,
                "only one source type can be provided",
            )]
        }
        (Some(helm), None) => validate_helm(helm, &format!("{field}.helm"), rules),
        (None, Some(git)) => validate_git(git, &format!("{field}.git")),
        (None, None) => vec![FieldError::new(field, "no source provided")],
    }
}

/// Checks a chart of a repository.
pub fn validate_helm(source: &HelmSource, field: &str, rules: SourceRules) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (name, value) in [
        ("chartName", &source.chart_name),
        ("chartVersion", &source.chart_version),
    ] {
        if value.is_empty() {
            errors.push(FieldError::new(format!("{field}.{name}"), "Required value"));
        }
    }
    if !has_scheme(&source.url) {
        let text = format!("should match '{REPOSITORY_URL_PATTERN}'");
        errors.push(FieldError::new(format!("{field}.url"), text));
    }
    errors.extend(validate_url(source, field, rules));
    let credentials = format!("{field}.credentials");
    errors.extend(validate_helm_credentials(
        source.credentials.as_ref(),
        &credentials,
    ));
    errors
}

/// The pattern of the schema.
fn has_scheme(url: &str) -> bool {
    let after = ["http://", "https://", "oci://"]
        .iter()
        .find_map(|scheme| url.strip_prefix(scheme));
    after.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('\n'))
}

/// Checks the address of a repository, and the flags that depend on its scheme.
fn validate_url(source: &HelmSource, field: &str, rules: SourceRules) -> Option<FieldError> {
    let at = |name: &str, text: &str| Some(FieldError::new(format!("{field}.{name}"), text));
    let parsed = Url::parse(&source.url).ok();
    let Some((url, host)) = parsed.as_ref().and_then(|url| Some((url, url.host()?))) else {
        return at("url", "value must be a valid URL");
    };
    if url.host_str() == Some("") {
        return at("url", "value must be a valid URL");
    }
    let is_local = is_local(&host);
    match (url.scheme(), source.plain_http, source.insecure) {
        ("http", _, Some(_)) => at("insecure", "must not be set for http"),
        ("http", Some(false), None) => at("plainHTTP", "must not be false for http"),
        ("https", Some(true), _) => at("plainHTTP", "must not be true for https"),
        ("https", _, _) if is_local && !rules.allow_local_https => {
            at("url", "localhost is only reached by http")
        }
        ("oci", Some(true), Some(_)) => at("insecure", "must not be set if plainHTTP is true"),
        ("oci", Some(false), _) if is_local => at(
            "plainHTTP",
            "must not be false, since localhost is only reached by http",
        ),
        _ => None,
    }
}

fn is_local(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => {
            let name = name.trim_end_matches('.');
            // The parser reads addresses only for the schemes of the web.
            let address = name.parse::<std::net::IpAddr>();
            name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|it| it.is_loopback())
        }
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    }
}

/// Checks the credentials of a repository, also for dependencies.
pub fn validate_helm_credentials(
    credentials: Option<&HelmCredentials>,
    field: &str,
) -> Option<FieldError> {
    let credentials = credentials?;
    let user = credentials.username.is_some();
    let password = credentials.password.is_some();
    let at = |name: &str, text: &str| Some(FieldError::new(format!("{field}.{name}"), text));
    if credentials.registry_config_file.is_some() && (user || password) {
        let text = "registryConfigFile can not be used in conjunction with username / password";
        return at("registryConfigFile", text);
    }
    match (user, password) {
        (true, false) => at("password", "password must be specified with username"),
        (false, true) => at("username", "username must be specified  with password"),
        (true, true) | (false, false) => None,
    }
}

fn validate_git(source: &GitSource, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if source.remote.is_empty() {
        errors.push(FieldError::new(format!("{field}.remote"), "Required value"));
    }
    errors.extend(validate_reference(
        &source.reference,
        &format!("{field}.ref"),
    ));
    if let Some(credentials) = &source.credentials {
        let field = format!("{field}.credentials");
        errors.extend(validate_git_credentials(credentials, &field));
    }
    errors
}

fn validate_reference(reference: &GitReference, field: &str) -> Option<FieldError> {
    let set = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    let (branch, tag) = (set(&reference.branch), set(&reference.tag));
    let commit = reference.commit.as_deref().filter(|text| !text.is_empty());
    let at = |name: &str, text: &str| Some(FieldError::new(format!("{field}{name}"), text));
    match (branch, commit, tag) {
        (false, None, false) => at(
            "",
            "at least a branch, a tag  or a commint and branch must be defined",
        ),
        (true, _, true) | (_, Some(_), true) => at(
            ".tag",
            "tag can not be used in conjunction with branch or commit",
        ),
        (false, Some(_), false) => at(".commit", "commit must be used in conjunction with branch"),
        (true, Some(commit), false) if !is_commit(commit) => {
            at(".commit", &format!("should match '{COMMIT_PATTERN}'"))
        }
        (true, _, false) | (false, None, true) => None,
    }
}

/// The pattern of the schema.
fn is_commit(text: &str) -> bool {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == 40 && text.bytes().all(is_hex)
}

fn validate_git_credentials(credentials: &GitCredentials, field: &str) -> Vec<FieldError> {
    let method = credentials.method.as_str();
    let needed = match method {
        "password" => vec![
            ("username", credentials.username.is_some()),
            ("password", credentials.password.is_some()),
        ],
        "token" => vec![("token", credentials.token.is_some())],
        "ssh-key" => vec![("sshKey", credentials.ssh_key.is_some())],
        unknown => {
            let field = format!("{field}.method");
            return vec![
                FieldError::unsupported(&field, unknown, &GIT_METHODS),
                FieldError::new(field, "unknown method"),
            ];
        }
    };
    let missing = needed.iter().filter(|(_, is_set)| !is_set);
    let errors = missing.map(|(name, _)| {
        let text = format!("{name} is required when method is {method}");
        FieldError::new(format!("{field}.{name}"), text)
    });
    errors.collect()
}

#[cfg(test)]
mod tests;
