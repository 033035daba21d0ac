//! Keys of `[[apps]]` for further headers of the app's requests: `headers`, `basic_auth_file`,
//! `pass_access_token`.

use std::path::Path;

use http::HeaderName;

use super::{file::ConfigFile, section::ConfigSection, values::secret_file};
use crate::{
    forward::header_action::{is_spelling_of, may_be_set},
    model::{
        basic_credentials::BasicCredentials,
        header_template::{AppHeader, HeaderTemplate},
    },
};

const HEADERS: &str = "headers";
const BASIC_AUTH: &str = "basic_auth_file";
const ACCESS_TOKEN: &str = "pass_access_token";

/// The headers of an app's requests.
pub(super) fn headers(section: &ConfigSection<'_>) -> Box<[AppHeader]> {
    let mut headers: Vec<AppHeader> = Vec::new();
    for (name, template) in section.text_table(HEADERS) {
        let parsed = header_name(&name).and_then(|parsed| {
            let is_same = |other: &AppHeader| is_spelling_of(other.name.as_str(), parsed.as_str());
            if headers.iter().any(is_same) {
                return Err("is given twice, in different spellings".to_owned());
            }
            let value = HeaderTemplate::parse(&template).map_err(|error| error.to_string())?;
            Ok(AppHeader {
                name: parsed,
                value,
            })
        });
        match parsed {
            Ok(header) => headers.push(header),
            // A name is no secret; a value may be one.
            Err(what) => section.wrong(HEADERS, format!("{name:?} {what}"), None),
        }
    }
    headers.into()
}

fn header_name(name: &str) -> Result<HeaderName, String> {
    let parsed =
        HeaderName::from_bytes(name.as_bytes()).map_err(|_| "is no name of a header".to_owned())?;
    if parsed == http::header::AUTHORIZATION {
        return Err(format!("is set by {BASIC_AUTH} alone"));
    }
    if !may_be_set(&parsed) {
        return Err("is reserved: Ludgate sets or removes it itself; use another name".to_owned());
    }
    Ok(parsed)
}

/// The gateway's credentials at an app.
pub(super) fn basic_auth(section: &ConfigSection<'_>, folder: &Path) -> Option<BasicCredentials> {
    let keeps_authorization = section.switch("keep_authorization") == Some(true);
    if section.has(BASIC_AUTH) && keeps_authorization {
        let what = "cannot be combined with keep_authorization = true; remove one";
        section.wrong(BASIC_AUTH, what, None);
    }
    let secret = secret_file(section, BASIC_AUTH, folder)?;
    BasicCredentials::parse(&secret)
        .map_err(|what| section.wrong(BASIC_AUTH, format!("the content of the file {what}"), None))
        .ok()
}

/// Whether an app gets the access token of people.
pub(super) fn pass_access_token(file: &ConfigFile<'_>, section: &ConfigSection<'_>) -> bool {
    let is_on = section.switch(ACCESS_TOKEN).unwrap_or(false);
    if is_on && !file.has("identity") {
        section.wrong(
            ACCESS_TOKEN,
            "needs [identity], whose provider issues the token",
            None,
        );
    }
    is_on
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::{model::app::AppSpec, settings};

    const SITE: &str = "[identity]\nissuer = \"https://login.example.com\"\nclient_id = \"x\"\n\
                        claims = [\"/tenant\"]\n";

    /// The app with these keys, or the errors. Beside the file are some files with credentials.
    fn read(site: &str, keys: &str) -> Result<AppSpec, String> {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, content) in [
            ("password", "ludgate:s3cret\n"),
            ("no-colon", "CANARY"),
            ("no-user", ":CANARY"),
            ("two-lines", "a:CANARY\nb:CANARY\n"),
            ("empty", "\n"),
        ] {
            fs::write(folder.path().join(name), content).expect("written");
        }
        let text = format!(
            "{site}[[apps]]\nid = \"a\"\nupstream = \"http://a.test\"\naccess = \"user\"\n{keys}\n"
        );
        let read = settings::parse(&text, folder.path(), std::iter::empty());
        let settings = read.map_err(|errors| errors.to_string())?;
        settings.apps.into_iter().next().ok_or_else(String::new)
    }

    fn names(spec: &AppSpec) -> Vec<&str> {
        spec.headers
            .iter()
            .map(|header| header.name.as_str())
            .collect()
    }

    #[test]
    fn headers_are_read_inline_and_as_a_table() {
        for keys in [
            "headers = { \"X-Tenant\" = \"{claim:/tenant}\", \"Remote-User\" = \"{subject}\" }",
            "[apps.headers]\nX-Tenant = \"{claim:/tenant}\"\nRemote-User = \"{subject}\"",
        ] {
            let spec = read(SITE, keys).expect(keys);
            let mut found = names(&spec);
            found.sort_unstable();
            assert_eq!(found, ["remote-user", "x-tenant"], "{keys}");
        }
        let plain = read("", "").expect("an app without headers");
        assert!(plain.headers.is_empty() && plain.basic_auth.is_none());
        assert!(!plain.pass_access_token);
    }

    #[test]
    fn a_header_that_cannot_be_sent_is_an_error() {
        for (headers, wanted) in [
            ("7", "apps[0].headers: expected a table"),
            ("\"X-A: CANARY\"", "expected a table, found string"),
            ("{ \"X-A\" = 7 }", "\"X-A\" must have a text as its value"),
            ("{ \"X A\" = \"a\" }", "\"X A\" is no name of a header"),
            ("{ \"\" = \"a\" }", "is no name of a header"),
            ("{ \"Host\" = \"a\" }", "\"Host\" is reserved"),
            ("{ \"Cookie\" = \"a\" }", "\"Cookie\" is reserved"),
            ("{ \"Content_Length\" = \"1\" }", "is reserved"),
            ("{ \"X-Forwarded-Tenant\" = \"a\" }", "is reserved"),
            ("{ \"x_ludgate_tenant\" = \"a\" }", "is reserved"),
            (
                "{ \"Authorization\" = \"Bearer CANARY\" }",
                "\"Authorization\" is set by basic_auth_file alone",
            ),
            (
                "{ \"X-Tenant\" = \"a\", \"x_tenant\" = \"b\" }",
                "is given twice, in different spellings",
            ),
            ("{ \"X-A\" = \"\" }", "\"X-A\" must be a text that neither"),
            ("{ \"X-A\" = \"a\\r\\nB: CANARY\" }", "printable ASCII"),
            ("{ \"X-A\" = \"{CANARY}\" }", "there are {subject}, {email}"),
            ("{ \"X-A\" = \"{subject\" }", "belongs to no value"),
            ("{ \"X-A\" = \"{subject}{email}\" }", "without a separator"),
            (
                "{ \"X-A\" = \"{claim:/team}\" }",
                "lacks /team, which a header of a names",
            ),
        ] {
            let errors = read(SITE, &format!("headers = {headers}")).expect_err(headers);
            assert!(errors.contains(wanted), "{headers}: {errors}");
            assert!(!errors.contains("CANARY"), "{errors}");
        }
    }

    #[test]
    fn credentials_are_read_from_a_file_and_never_shown() {
        let spec = read("", "basic_auth_file = \"password\"").expect("valid");
        let sent = spec.basic_auth.as_ref().map(|it| it.authorization());
        let expected = "Basic bHVkZ2F0ZTpzM2NyZXQ=";
        assert_eq!(sent.and_then(|value| value.to_str().ok()), Some(expected));
        assert!(!format!("{spec:?}").contains("bHVkZ2F0ZTpzM2NyZXQ"));
        for (keys, wanted) in [
            ("basic_auth_file = \"missing\"", "missing cannot be read"),
            ("basic_auth_file = \"empty\"", "empty is empty"),
            ("basic_auth_file = \"no-colon\"", "with a colon between"),
            ("basic_auth_file = \"no-user\"", "no user before the colon"),
            ("basic_auth_file = \"two-lines\"", "must be one line"),
            ("basic_auth_file = true", "expected text"),
            (
                "basic_auth_file = \"password\"\nkeep_authorization = true",
                "cannot be combined with keep_authorization",
            ),
        ] {
            let errors = read("", keys).expect_err(keys);
            assert!(errors.contains("apps[0].basic_auth_file: "), "{errors}");
            assert!(errors.contains(wanted), "{keys}: {errors}");
            assert!(!errors.contains("CANARY"), "{errors}");
        }
    }

    #[test]
    fn the_apps_secrets_are_not_for_its_published_ports() {
        let keys = "headers = { \"X-Tenant\" = \"blue\" }\nbasic_auth_file = \"password\"\n\
                    pass_access_token = true\n\
                    published_ports = { \"80\" = { access = \"public\" } }";
        let site = format!("[site]\napps_domain = \"apps.example.net\"\n{SITE}");
        let spec = read(&site, keys).expect("valid");
        assert!(spec.basic_auth.is_some() && spec.pass_access_token);
        let port = spec.port(&spec.published_ports[0]).expect("a port");
        assert!(port.basic_auth.is_none() && !port.pass_access_token);
        assert_eq!(names(&port), ["x-tenant"]);
    }

    #[test]
    fn an_access_token_needs_a_provider() {
        assert!(read(SITE, "pass_access_token = true").is_ok());
        assert!(read("", "pass_access_token = false").is_ok());
        let errors = read("", "pass_access_token = true").expect_err("no provider");
        assert!(errors.contains("apps[0].pass_access_token: needs [identity]"));
    }
}
