//! Where a browser may be sent back to after signing in or out: a path on the site, an address at
//! another of our origins, or `/`.

use crate::{
    identity::oidc::pending::MAX_RETURN,
    incoming::{host, path},
    model::{path_prefix::below, site::Site, vhost::VirtualHost},
    route::path::{RENEWED, SIGN_OUT, USERINFO, on_host},
};

/// The path, or the whole address, to return to; anything that is not clearly ours becomes `/`.
///
/// Accepted: a path on the site, or a URL of exactly an origin that we serve. A path begins with
/// one slash and cannot be parsed as a host. All its bytes must be allowed by the path policy.
pub fn clean(asked: Option<&str>, site: &Site) -> String {
    let fitting =
        |asked: &&str| own_path(asked, site).is_some() || elsewhere(asked, site).is_some();
    let asked = asked.filter(fitting).unwrap_or("/");
    own_path(asked, site).unwrap_or(asked).to_owned()
}

/// The address of a target, as [`clean`] accepts it: a path on the site, else a whole URL. If the
/// URL is too long, the root of its origin.
pub fn address(vhost: &VirtualHost, target: &str, site: &Site) -> String {
    match vhost {
        VirtualHost::Site => target.to_owned(),
        VirtualHost::Host(_) | VirtualHost::Port(_) => {
            let whole = site.url(vhost, target);
            if whole.len() <= MAX_RETURN {
                whole
            } else {
                site.url(vhost, "/")
            }
        }
    }
}

fn own_path<'a>(asked: &'a str, site: &Site) -> Option<&'a str> {
    let whole = asked.strip_prefix(&*site.origin.text).unwrap_or(asked);
    let path = without_fragment(whole)?;
    let without_query = path.split('?').next().unwrap_or_default();
    let fine = whole.len() <= MAX_RETURN
        && path.starts_with('/')
        // Browsers parse `//host` and `/\host` as hosts; a lenient app may decode other paths to
        // these.
        && !path[1..].starts_with(['/', '\\'])
        && keeps_to_the_policy(path)
        && !starts_with_encoded_trick(path)
        // Returning to an endpoint of ours would go in circles.
        && below(without_query, &site.endpoints).is_none()
        && ![SIGN_OUT, USERINFO].contains(&without_query);
    fine.then_some(whole)
}

/// The virtual host and the target of an address at another of our origins. Its authority must be
/// spelled exactly as we spell it, so that all parsers agree on it.
pub fn elsewhere<'a>(asked: &'a str, site: &Site) -> Option<(VirtualHost, &'a str)> {
    if asked.len() > MAX_RETURN {
        return None;
    }
    let rest = asked
        .strip_prefix(site.origin.scheme())?
        .strip_prefix("://")?;
    let (authority, target) = rest.split_at(rest.find('/')?);
    let vhost = host::vhost(authority.as_bytes(), site)
        .ok()
        .filter(|vhost| *vhost != VirtualHost::Site)?;
    let canonical = *site.origin_of(&vhost).authority == *authority;
    let sent = without_fragment(target)?;
    let path = sent.split('?').next().unwrap_or_default();
    let is_ours = on_host(path).is_some() && sent != RENEWED;
    (canonical && keeps_to_the_policy(sent) && !is_ours).then_some((vhost, target))
}

/// An address without its fragment, which browsers do not send. `None` if the fragment has a byte
/// that is not allowed.
fn without_fragment(whole: &str) -> Option<&str> {
    let Some((sent, fragment)) = whole.split_once('#') else {
        return Some(whole);
    };
    let is_written = |byte: u8| {
        matches!(byte, 0x21..=0x7e) && !matches!(byte, b'"' | b'<' | b'>' | b'`' | b'\\' | b'#')
    };
    fragment.bytes().all(is_written).then_some(sent)
}

fn keeps_to_the_policy(target: &str) -> bool {
    path::check(target).is_ok()
        && path::check_below_root(&target[1..target.find('?').unwrap_or(target.len())]).is_ok()
}

/// `/%5ce`, `/%2fe`, `/%09/e`: an encoded slash, backslash or blank right at the start, in any
/// depth.
fn starts_with_encoded_trick(path: &str) -> bool {
    let mut start: Vec<u8> = path.bytes().take(24).collect();
    for _ in 0..3 {
        start = percent_encoding::percent_decode(&start).collect();
        if start
            .get(1)
            .is_some_and(|byte| matches!(byte, b'/' | b'\\') || *byte <= b' ')
        {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        cookie_names::CookieNames,
        site::{Site, WebOrigin},
        vhost::HostLabel,
    };

    #[test]
    fn an_address_of_another_origin_is_refused() {
        let origin = WebOrigin::new(true, "gw.test", 443);
        let mut site = Site::with_default_paths(origin, CookieNames::new(true, "c", &[]));
        site.apps_domain = Some("svc.test".into());
        let long = format!("/{}", "a".repeat(64 * 1024));
        for evil in [
            "",
            "e",
            "//e",
            "///e",
            "/\\e",
            "\\/e",
            "/\t/e",
            "/%09/e",
            "/%5ce",
            "/%255ce",
            "/%2fe",
            "https:e",
            "https:///e",
            "http://gw.test@e",
            "https://gw.test@e",
            "https://gw.test.e",
            "https://gw.test.e/",
            "http://gw.test/x",
            "javascript:1",
            "/%0d%0aSet-Cookie:a=b",
            "/..//e",
            "/a/../..//e",
            "data:,x",
            "https://gw.test//e",
            "/oauth2/start",
            "/oauth2/sign_out?rd=/",
            "/.ludgate/sign_out",
            "/.ludgate/userinfo?x",
            "https://web.svc.test/.ludgate/sign_out",
            "/a b",
            "/\u{e9}",
            &long,
            "https://svc.test/",
            "https://a.b.svc.test/",
            "https://websvc.test/",
            "https://web.svc.test@e/",
            "https://web.svc.test.e/",
            "https://web.svc.test:444/",
            "https://web.svc.test:443/",
            "https://WEB.svc.test/",
            "https://web.svc.test",
            "https://web.svc.test\\@e/",
            "http://web.svc.test/",
            "https://web.svc.test/.ludgate/enter?ticket=x",
            "https://web.svc.test/../x",
            "https://web.svc.test/%2e%2e/x",
            "//e#x",
            "/x#a b",
            "/x#<",
            "/x#a#b",
            "/x#\\e",
            "#x",
            "https://gw.test#@e/",
        ] {
            assert_eq!(clean(Some(evil), &site), "/", "{evil:?}");
        }
        for (fine, path) in [
            ("/apps/grp/x?y=//z", "/apps/grp/x?y=//z"),
            ("https://gw.test/apps/grp/%2F", "/apps/grp/%2F"),
            ("/", "/"),
            ("/apps/grp/x?y#/z?q=1", "/apps/grp/x?y#/z?q=1"),
        ] {
            assert_eq!(clean(Some(fine), &site), path);
            let parsed = url::Url::parse("https://gw.test/")
                .and_then(|base| base.join(path))
                .expect("a URL");
            assert_eq!(parsed.host_str(), Some("gw.test"));
        }
        assert_eq!(clean(None, &site), "/");
        let there = "https://web.svc.test//a?b=https://e";
        assert_eq!(clean(Some(there), &site), there);
        assert_eq!(
            url::Url::parse(there).expect("a URL").host_str(),
            Some("web.svc.test")
        );
        let vhost = VirtualHost::Host(HostLabel::new(b"web").expect("a label"));
        assert_eq!(elsewhere(there, &site), Some((vhost, "//a?b=https://e")));
        assert_eq!(address(&vhost, &long, &site), "https://web.svc.test/");
    }
}
