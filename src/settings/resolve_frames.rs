//! `apps.frame_ancestors`: the other origins of this site whose pages may frame an app.

use super::{file::ConfigFile, resolve_site, section::ConfigSection, values::origin};
use crate::model::{frame_ancestors::FrameAncestors, site::WebOrigin, vhost::HostLabel};

const KEY: &str = "frame_ancestors";

/// Reads the key of an app. Each origin must be one of this site: Ludgate trusts the pages there to
/// frame an app for its signed-in users.
pub(super) fn frame_ancestors(
    file: &ConfigFile<'_>,
    section: &ConfigSection<'_>,
) -> Option<FrameAncestors> {
    let written = section.texts(KEY).filter(|written| !written.is_empty())?;
    let site = file.section("site");
    // What is wrong with `site.url` is reported there.
    let own = origin(&resolve_site::public_url(&site)).ok()?;
    let domain = site.text("apps_domain");
    for text in &written {
        if !is_ours(text, &own, domain.as_deref()) {
            let what = format!(
                "{text:?} is no origin of this site: expected {own}, or the origin of a host \
                 below site.apps_domain, as browsers write it"
            );
            section.wrong(KEY, what, Some(format!("for example {KEY} = [\"{own}\"]")));
        }
    }
    FrameAncestors::new(written.into_iter().map(Into::into).collect())
}

/// Whether a text is the site's origin, or one that a host of an app can have.
fn is_ours(text: &str, own: &WebOrigin, domain: Option<&str>) -> bool {
    let host = || {
        let authority = text.strip_prefix(own.scheme())?.strip_prefix("://")?;
        let (label, _) = authority.split_once('.')?;
        let label = HostLabel::new(label.as_bytes())?;
        let host = format!("{label}.{}", domain?);
        Some(WebOrigin::new(own.secure, &host, own.port))
    };
    *text == *own.text || host().is_some_and(|host| *text == *host.text)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::settings;

    const SITE: &str = "[site]\nurl = \"https://hub.example.com:8443\"\n";
    const DOMAIN: &str = "apps_domain = \"apps.example.com\"\n";
    const APP: &str =
        "[[apps]]\nid = \"a\"\nupstream = \"http://127.0.0.1:1\"\naccess = \"user\"\n";

    fn parse(site: &str, ancestors: &str) -> Result<settings::Settings, settings::ConfigErrors> {
        let text = format!("{site}{APP}frame_ancestors = {ancestors}\n");
        settings::parse(&text, Path::new("."), std::iter::empty())
    }

    #[test]
    fn origins_of_this_site_may_frame_an_app() {
        let site = format!("{SITE}{DOMAIN}");
        let two = "[\"https://hub.example.com:8443\", \"https://web-80.apps.example.com:8443\"]";
        let settings = parse(&site, two).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        let ancestors = settings.apps[0].frame_ancestors.as_ref();
        assert_eq!(
            ancestors.expect("two origins").policy(),
            "frame-ancestors 'self' https://hub.example.com:8443 https://web-80.apps.example.com:8443"
        );
        let none = parse(&site, "[]").unwrap_or_else(|mistakes| panic!("{mistakes}"));
        assert_eq!(none.apps[0].frame_ancestors, None);
    }

    #[test]
    fn every_other_origin_is_an_error_that_names_the_key() {
        let with_domain = format!("{SITE}{DOMAIN}");
        for (site, text) in [
            (&*with_domain, "https://evil.test"),
            (&*with_domain, "https://hub.example.com"),
            (&*with_domain, "https://hub.example.com:8443/"),
            (&*with_domain, "http://hub.example.com:8443"),
            (&*with_domain, "https://HUB.example.com:8443"),
            (&*with_domain, "https://apps.example.com:8443"),
            (&*with_domain, "https://a.b.apps.example.com:8443"),
            (&*with_domain, "https://Web.apps.example.com:8443"),
            (&*with_domain, "https://*.apps.example.com:8443"),
            (&*with_domain, "https://web.apps.example.com:8443; x"),
            (&*with_domain, "*"),
            (&*with_domain, ""),
            (SITE, "https://web.apps.example.com:8443"),
        ] {
            let mistakes = parse(site, &format!("[{text:?}]")).expect_err("a mistake");
            let said = mistakes.to_string();
            assert!(said.contains("apps[0].frame_ancestors"), "{text}: {said}");
            assert!(said.contains("is no origin of this site"), "{text}: {said}");
        }
        let said = parse(SITE, "\"*\"").expect_err("a mistake").to_string();
        assert!(said.contains("apps[0].frame_ancestors"), "{said}");
    }
}
