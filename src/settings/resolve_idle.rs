//! `[controller.idle]`: the gateways that report when apps were used last.

use std::{path::Path, time::Duration};

use super::{section::ConfigSection, values::secret_file};
use crate::{
    controllers::idle::settings::{GatewayAddress, IdleSettings},
    model::secret::Secret,
};

/// The table `idle` of `[controller]`. `Some(None)`: there is none. `None` only together with an
/// error.
pub(super) fn idle(controller: &ConfigSection<'_>, folder: &Path) -> Option<Option<IdleSettings>> {
    if !controller.has("idle") {
        return Some(None);
    }
    let read = |section: ConfigSection<'_>| table(&section, folder);
    controller.inner("idle", "controller.idle", read)?.map(Some)
}

/// Reports a time in `idle_after` of a table while `[controller.idle]` is missing: no app would
/// ever be idle.
pub(super) fn check_idle_after(
    table: &ConfigSection<'_>,
    idle_after: Option<Duration>,
    controller: &ConfigSection<'_>,
) {
    let is_on = idle_after.is_some_and(|after| !after.is_zero());
    if is_on && !controller.has("idle") {
        let what = "needs [controller.idle]: only the gateways know when an app was used";
        let example = "[controller.idle]\n    gateways = [\"ludgate-admin.hub.svc:9090\"]\n    \
                       token_file = \"admin-token\"";
        table.wrong("idle_after", what, Some(example.to_owned()));
    }
}

fn table(section: &ConfigSection<'_>, folder: &Path) -> Option<IdleSettings> {
    let gateways = gateways(section);
    let token = token(section, folder);
    Some(IdleSettings {
        gateways: gateways?,
        token: token?,
    })
}

fn gateways(section: &ConfigSection<'_>) -> Option<Vec<GatewayAddress>> {
    let Some(written) = section.texts("gateways") else {
        // A value of the wrong kind was reported already.
        if !section.has("gateways") {
            section.missing("gateways");
        }
        return None;
    };
    if written.is_empty() {
        section.wrong("gateways", "names no gateway", None);
        return None;
    }
    let parse = |text: &String| {
        let parsed = GatewayAddress::parse(text);
        let example = || Some("for example \"ludgate-admin.hub.svc:9090\"".to_owned());
        parsed
            .map_err(|error| section.wrong("gateways", format!("{text:?} {error}"), example()))
            .ok()
    };
    written.iter().map(parse).collect()
}

fn token(section: &ConfigSection<'_>, folder: &Path) -> Option<Secret> {
    let inline = section.text("token").map(Secret::new);
    let from_file = secret_file(section, "token_file", folder);
    match (section.has("token"), section.has("token_file")) {
        (true, true) => {
            section.wrong("token", "and token_file are both given", None);
            return None;
        }
        (false, false) => section.missing("token_file"),
        (true, false) | (false, true) => {}
    }
    let key = if inline.is_some() {
        "token"
    } else {
        "token_file"
    };
    let token = inline.or(from_file)?;
    // It is sent in a header, where other characters are errors.
    let is_sendable = |byte: u8| byte.is_ascii_graphic();
    if token.expose().is_empty() || !token.expose().bytes().all(is_sendable) {
        section.wrong(key, "must hold visible ASCII characters only", None);
        return None;
    }
    Some(token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{ConfigErrors, file::ConfigFile};

    const GATEWAYS: &str = "gateways = [\"ludgate-admin.hub.svc:9090\", \"192.0.2.1:9090\"]\n";

    fn read(keys: &str) -> Result<Option<IdleSettings>, ConfigErrors> {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("admin-token"), "from-file\n").expect("a file");
        let text = format!("[controller.idle]\n{keys}");
        ConfigFile::read(&text, std::iter::empty(), |file| {
            idle(&file.section("controller"), folder.path())
        })
    }

    #[test]
    fn gateways_and_the_token_are_read() {
        for (token, wanted) in [
            ("token_file = \"admin-token\"\n", "from-file"),
            ("token = \"inline\"\n", "inline"),
        ] {
            let settings = read(&format!("{GATEWAYS}{token}")).expect("valid");
            let settings = settings.expect("a table");
            let gateways = settings.gateways.iter().map(GatewayAddress::to_string);
            let gateways: Vec<String> = gateways.collect();
            assert_eq!(gateways, ["ludgate-admin.hub.svc:9090", "192.0.2.1:9090"]);
            assert_eq!(settings.token.expose(), wanted);
            assert!(!format!("{settings:?}").contains(wanted), "it is a secret");
        }
    }

    #[test]
    fn without_the_table_there_are_no_settings() {
        let read = ConfigFile::read("[controller]\n", std::iter::empty(), |file| {
            idle(&file.section("controller"), Path::new("."))
        });
        assert!(read.expect("valid").is_none());
    }

    #[test]
    fn each_mistake_names_its_key() {
        let token = "token = \"inline\"\n";
        for (keys, wanted) in [
            (
                token.to_owned(),
                "controller.idle.gateways: is required".to_owned(),
            ),
            (
                format!("gateways = []\n{token}"),
                "controller.idle.gateways: names no gateway".to_owned(),
            ),
            (
                format!("gateways = \"hub:9090\"\n{token}"),
                "controller.idle.gateways: expected a list of texts".to_owned(),
            ),
            (
                format!("gateways = [\"http://hub:9090\"]\n{token}"),
                "controller.idle.gateways: \"http://hub:9090\" is no host and port".to_owned(),
            ),
            (
                GATEWAYS.to_owned(),
                "controller.idle.token_file: is required".to_owned(),
            ),
            (
                format!("{GATEWAYS}{token}token_file = \"admin-token\"\n"),
                "controller.idle.token: and token_file are both given".to_owned(),
            ),
            (
                format!("{GATEWAYS}token = \"two words\"\n"),
                "controller.idle.token: must hold visible ASCII".to_owned(),
            ),
            (
                format!("{GATEWAYS}token_file = \"nowhere\"\n"),
                "controller.idle.token_file: nowhere cannot be read".to_owned(),
            ),
            (
                format!("{GATEWAYS}{token}gateway = 1\n"),
                "controller.idle.gateway: unknown key".to_owned(),
            ),
        ] {
            let errors = read(&keys).expect_err("invalid");
            assert!(errors.to_string().contains(&wanted), "{keys}\n{errors}");
            assert_eq!(errors.0.len(), 1, "{errors}");
        }
    }

    #[test]
    fn a_time_without_gateways_is_a_mistake_that_names_what_is_missing() {
        let check = |text: &str, after: Option<u64>| {
            ConfigFile::read(text, std::iter::empty(), |file| {
                let controller = file.section("controller");
                check_idle_after(&controller, after.map(Duration::from_secs), &controller);
                Some(())
            })
        };
        let without = "[controller]\napplications = true\n";
        for after in [None, Some(0)] {
            check(without, after).expect("never idle");
        }
        check("[controller.idle]\ntoken = \"inline\"\n", Some(60)).expect("there are gateways");
        let errors = check(without, Some(60))
            .expect_err("no gateways")
            .to_string();
        for part in ["idle_after: needs [controller.idle]", "token_file"] {
            assert!(errors.contains(part), "{errors}");
        }
    }
}
