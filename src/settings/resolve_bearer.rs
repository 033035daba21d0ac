//! Opaque bearer tokens: the apps that take them, and how they are verified.

use url::Url;

use super::{file::ConfigFile, section::ConfigSection, values::confidential_url};
use crate::{identity::oidc::settings::IntrospectionSettings, model::app::BearerKind};

/// The key `bearer` of an app.
pub(super) fn bearer(file: &ConfigFile<'_>, app: &ConfigSection<'_>) -> BearerKind {
    let kind = app.required_or("bearer", BearerKind::Jwt, |text| match text {
        "jwt" => Ok(BearerKind::Jwt),
        "opaque" => Ok(BearerKind::Opaque),
        _ => Err(format!("{text:?} is neither jwt nor opaque")),
    });
    if kind == BearerKind::Opaque && !has_secret(file) {
        let what =
            "needs identity.client_secret_file: only a client with a secret may ask about tokens";
        app.wrong("bearer", what, None);
    }
    kind
}

fn has_secret(file: &ConfigFile<'_>) -> bool {
    let identity = file.section("identity");
    let has_text = |name| identity.text(name).is_some();
    file.has("identity") && (has_text("client_secret") || has_text("client_secret_file"))
}

/// The table `introspection` of [identity].
pub(super) fn introspection(identity: &ConfigSection<'_>) -> IntrospectionSettings {
    let read = |table: ConfigSection<'_>| IntrospectionSettings {
        url: url(&table),
        scopes: table.texts("scopes").unwrap_or_default(),
    };
    let read = identity.inner("introspection", "identity.introspection", read);
    read.unwrap_or_default()
}

fn url(table: &ConfigSection<'_>) -> Option<Url> {
    let text = table.text("url")?;
    confidential_url(&text)
        .map_err(|what| table.wrong("url", what, None))
        .ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::settings::{self, Settings};

    fn read(identity: &str, app: &str) -> Result<Settings, String> {
        let text = format!(
            "{identity}[[apps]]\nid = \"a\"\nupstream = \"http://a.test\"\naccess = \"user\"\n{app}\n"
        );
        let read = settings::parse(&text, Path::new("."), std::iter::empty());
        read.map_err(|errors| errors.to_string())
    }

    #[test]
    fn apps_with_opaque_tokens_need_a_client_with_a_secret() {
        let public = "[identity]\nissuer = \"https://id.test\"\nclient_id = \"ludgate\"\n";
        let secret = format!("{public}client_secret = \"x\"\n");
        for (identity, app, wanted) in [
            (public, "", BearerKind::Jwt),
            (public, "bearer = \"jwt\"", BearerKind::Jwt),
            (&*secret, "bearer = \"opaque\"", BearerKind::Opaque),
        ] {
            let settings = read(identity, app).expect(app);
            assert_eq!(settings.apps[0].bearer, wanted, "{app}");
        }
        for (identity, app, wanted) in [
            ("", "bearer = \"opaque\"", "needs identity.client_secret"),
            (
                public,
                "bearer = \"opaque\"",
                "needs identity.client_secret",
            ),
            (public, "bearer = \"any\"", "is neither jwt nor opaque"),
        ] {
            let errors = read(identity, app).expect_err(app);
            assert!(errors.contains(wanted), "{errors}");
        }
        let more = "introspection = { url = \"https://id.test/i\", scopes = [\"apps\"] }\n";
        let settings = read(&format!("{secret}{more}"), "").expect("valid");
        let introspection = settings.identity.expect("a provider").introspection;
        assert_eq!(introspection.scopes, ["apps"]);
        assert_eq!(
            introspection.url.expect("a URL").as_str(),
            "https://id.test/i"
        );
        for (table, wanted) in [
            ("{ url = \"http://id.test/i\" }", "must be an https address"),
            (
                "{ url = \"https://a:canary@id.test\" }",
                "must be an https address",
            ),
            (
                "{ url = \"https://a:canary@id.test:99999\" }",
                "is no URL: invalid port number",
            ),
            ("{ scope = [] }", "did you mean scopes?"),
            ("true", "expected a table"),
        ] {
            let read = read(&format!("{secret}introspection = {table}\n"), "");
            let Err(errors) = read else {
                panic!("{table} is accepted");
            };
            assert!(errors.contains(wanted), "{errors}");
            assert!(!errors.contains("canary"), "{errors}");
        }
    }
}
