//! Parses method, path and query of a request into a call.

use http::Method;
use ludgate_installs::resource_json::error::ResourceError;
use ludgate_model::dns::{MAX_LABEL, is_label, is_subdomain};
use url::form_urlencoded;

/// Prefix of all paths.
pub(super) const PREFIX: &str = "/api/v2/";
/// The target name of the cluster of the API.
pub(super) const HOME: &str = "self";

/// A change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The body is the new form.
    Replace,
    /// The body is a merge patch (RFC 7396).
    Patch,
    /// The object is deleted.
    Delete,
}

/// A call about definitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DefinitionCall {
    /// All of them.
    List,
    /// One of them.
    Get(String),
    /// A new one.
    Create,
    /// A change of one.
    Change(String, Change),
}

/// A call about installations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum InstallCall {
    /// All of them, or those of one namespace.
    List(Option<String>),
    /// A new one.
    Create,
    /// One of them.
    Get(InstallationName),
    /// Its earlier versions and values.
    History(InstallationName),
    /// A change of one.
    Change(InstallationName, Change),
    /// All of them, or those of one namespace, as a bundle.
    Export(Option<String>),
    /// Creates the missing installations of a bundle.
    Import,
}

/// The namespace and the name of an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InstallationName {
    pub(super) namespace: String,
    pub(super) name: String,
}

/// A call about definitions or installations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// On the cluster of the API.
    Definitions(DefinitionCall),
    /// On the cluster of the API or on a target.
    Installations {
        /// The name of a target, or [`HOME`].
        cluster: String,
        call: InstallCall,
    },
}

/// Parses a request's method, path and query. A project before the cluster is accepted and ignored:
/// rights come from namespaces.
///
/// # Errors
/// 404 for an unknown path, 405 for a method that the path does not support.
pub(super) fn parse(
    method: &Method,
    path: &str,
    query: Option<&str>,
) -> Result<Call, ResourceError> {
    let rest = path.strip_prefix(PREFIX).unwrap_or_default();
    let segments: Vec<&str> = rest.split('/').collect();
    match segments.as_slice() {
        ["applicationdefinitions"] => definitions(method).map(Call::Definitions),
        ["applicationdefinitions", name] => definition(method, name).map(Call::Definitions),
        ["clusters", cluster, rest @ ..] => on_cluster(method, cluster, rest, query),
        ["projects", project, "clusters", cluster, rest @ ..] if !project.is_empty() => {
            on_cluster(method, cluster, rest, query)
        }
        _ => Err(nothing_here()),
    }
}

fn definitions(method: &Method) -> Result<DefinitionCall, ResourceError> {
    match *method {
        Method::GET => Ok(DefinitionCall::List),
        Method::POST => Ok(DefinitionCall::Create),
        _ => Err(not_allowed()),
    }
}

fn definition(method: &Method, name: &str) -> Result<DefinitionCall, ResourceError> {
    if !is_subdomain(name) {
        return Err(nothing_here());
    }
    let name = name.to_owned();
    match *method {
        Method::GET => Ok(DefinitionCall::Get(name)),
        _ => Ok(DefinitionCall::Change(name, change(method)?)),
    }
}

fn on_cluster(
    method: &Method,
    cluster: &str,
    rest: &[&str],
    query: Option<&str>,
) -> Result<Call, ResourceError> {
    if !is_label(cluster.as_bytes(), MAX_LABEL) {
        return Err(nothing_here());
    }
    let call = match rest {
        ["applicationinstallations"] => match *method {
            Method::GET => InstallCall::List(namespace(query)?),
            Method::POST => InstallCall::Create,
            _ => return Err(not_allowed()),
        },
        ["applicationbundle"] => match *method {
            Method::GET => InstallCall::Export(namespace(query)?),
            Method::POST => InstallCall::Import,
            _ => return Err(not_allowed()),
        },
        ["applicationinstallations", namespace, name] => {
            let name = installation(namespace, name)?;
            match *method {
                Method::GET => InstallCall::Get(name),
                _ => InstallCall::Change(name, change(method)?),
            }
        }
        ["applicationinstallations", namespace, name, "history"] => match *method {
            Method::GET => InstallCall::History(installation(namespace, name)?),
            _ => return Err(not_allowed()),
        },
        _ => return Err(nothing_here()),
    };
    Ok(Call::Installations {
        cluster: cluster.to_owned(),
        call,
    })
}

fn installation(namespace: &str, name: &str) -> Result<InstallationName, ResourceError> {
    if !is_label(namespace.as_bytes(), MAX_LABEL) || !is_subdomain(name) {
        return Err(nothing_here());
    }
    Ok(InstallationName {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

/// The namespace of a list. Other parameters are ignored.
fn namespace(query: Option<&str>) -> Result<Option<String>, ResourceError> {
    let mut pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    match pairs.find(|(name, _)| name == "namespace") {
        None => Ok(None),
        Some((_, namespace)) if is_label(namespace.as_bytes(), MAX_LABEL) => {
            Ok(Some(namespace.into_owned()))
        }
        Some(_) => Err(ResourceError::bad_request(
            "namespace must be a DNS label (RFC 1123)",
        )),
    }
}

fn change(method: &Method) -> Result<Change, ResourceError> {
    match *method {
        Method::PUT => Ok(Change::Replace),
        Method::PATCH => Ok(Change::Patch),
        Method::DELETE => Ok(Change::Delete),
        _ => Err(not_allowed()),
    }
}

fn nothing_here() -> ResourceError {
    ResourceError::new(404, "there is nothing at this path")
}

fn not_allowed() -> ResourceError {
    ResourceError::new(405, "this path does not have this method")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &Method, path: &str) -> Result<Call, u16> {
        let (path, query) = match path.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (path, None),
        };
        parse(method, path, query).map_err(|error| error.code)
    }

    #[test]
    fn each_route_is_a_call() {
        let name = || "a.b".to_owned();
        for (method, path, call) in [
            (
                Method::GET,
                "/api/v2/applicationdefinitions",
                DefinitionCall::List,
            ),
            (
                Method::POST,
                "/api/v2/applicationdefinitions",
                DefinitionCall::Create,
            ),
            (
                Method::GET,
                "/api/v2/applicationdefinitions/a.b",
                DefinitionCall::Get(name()),
            ),
            (
                Method::PUT,
                "/api/v2/applicationdefinitions/a.b",
                DefinitionCall::Change(name(), Change::Replace),
            ),
            (
                Method::PATCH,
                "/api/v2/applicationdefinitions/a.b",
                DefinitionCall::Change(name(), Change::Patch),
            ),
            (
                Method::DELETE,
                "/api/v2/applicationdefinitions/a.b",
                DefinitionCall::Change(name(), Change::Delete),
            ),
        ] {
            assert_eq!(read(&method, path), Ok(Call::Definitions(call)), "{path}");
        }
        let one = || InstallationName {
            namespace: "n".to_owned(),
            name: "a".to_owned(),
        };
        for (method, rest, call) in [
            (Method::GET, "", InstallCall::List(None)),
            (
                Method::GET,
                "?namespace=n",
                InstallCall::List(Some("n".to_owned())),
            ),
            (Method::POST, "", InstallCall::Create),
            (Method::GET, "/n/a", InstallCall::Get(one())),
            (Method::GET, "/n/a/history", InstallCall::History(one())),
            (
                Method::PUT,
                "/n/a",
                InstallCall::Change(one(), Change::Replace),
            ),
            (
                Method::DELETE,
                "/n/a",
                InstallCall::Change(one(), Change::Delete),
            ),
        ] {
            for start in [
                "/api/v2/clusters/edge",
                "/api/v2/projects/p%20q/clusters/edge",
            ] {
                let path = format!("{start}/applicationinstallations{rest}");
                let wanted = Call::Installations {
                    cluster: "edge".to_owned(),
                    call: call.clone(),
                };
                assert_eq!(read(&method, &path), Ok(wanted), "{path}");
            }
        }
    }

    #[test]
    fn a_cluster_has_one_bundle() {
        let path = "/api/v2/clusters/self/applicationbundle";
        for (method, call) in [
            (Method::GET, Ok(InstallCall::Export(None))),
            (Method::POST, Ok(InstallCall::Import)),
            (Method::PUT, Err(405)),
        ] {
            let cluster = HOME.to_owned();
            let wanted = call.map(|call| Call::Installations { cluster, call });
            assert_eq!(read(&method, path), wanted);
        }
    }

    #[test]
    fn other_paths_and_methods_are_refused() {
        let installs = "/api/v2/clusters/self/applicationinstallations";
        for (method, path, code) in [
            (Method::GET, "/api/v2/".to_owned(), 404),
            (
                Method::GET,
                "/api/v2/applicationdefinitions/".to_owned(),
                404,
            ),
            (
                Method::GET,
                "/api/v2/applicationdefinitions/..".to_owned(),
                404,
            ),
            (
                Method::GET,
                "/api/v2/applicationdefinitions/A".to_owned(),
                404,
            ),
            (
                Method::GET,
                "/api/v2/applicationdefinitions/a/b".to_owned(),
                404,
            ),
            (
                Method::PUT,
                "/api/v2/applicationdefinitions".to_owned(),
                405,
            ),
            (
                Method::POST,
                "/api/v2/applicationdefinitions/a".to_owned(),
                405,
            ),
            (Method::PUT, installs.to_owned(), 405),
            (Method::POST, format!("{installs}/n/a"), 405),
            (Method::PUT, format!("{installs}/n/a/history"), 405),
            (Method::GET, format!("{installs}/n"), 404),
            (Method::GET, format!("{installs}/n/a/"), 404),
            (Method::GET, format!("{installs}/n%2F/a"), 404),
            (Method::GET, format!("{installs}?namespace=../x"), 400),
            (
                Method::GET,
                "/api/v2/clusters/../applicationinstallations".to_owned(),
                404,
            ),
            (
                Method::GET,
                "/api/v2/projects//clusters/self/applicationinstallations".to_owned(),
                404,
            ),
        ] {
            assert_eq!(read(&method, &path), Err(code), "{method} {path}");
        }
    }
}
