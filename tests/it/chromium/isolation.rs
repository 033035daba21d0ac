//! A real browser between apps on hosts of their own: what one app does, no other app and not the
//! site notices.

use crate::support::{
    chromium::{Chromium, Cookie},
    secure::Secure,
};

const RULES: &str = "MAP *.test 127.0.0.1";

/// Opens a page and clicks a name where the provider asks who it is.
async fn sign_in(browser: &Chromium, secure: &Secure, url: &str, person: &str) {
    browser.open(url).await;
    if browser.url().await.starts_with(secure.provider.issuer()) {
        browser
            .click(&format!("a[href*=\"login_as={person}\"]"))
            .await;
    }
    let wanted = url.to_owned();
    browser.wait_for_url(move |url| url == wanted).await;
}

/// The cookies that stand for a person, by host.
async fn sessions(browser: &Chromium) -> Vec<Cookie> {
    let mut all = browser.all_cookies().await;
    all.retain(|cookie| {
        let of_host = ["gw.test", "grp.svc.test"].contains(&cookie.domain.as_str());
        of_host && ["__Host-ludgate", "__Host-ludgate-app"].contains(&cookie.name.as_str())
    });
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_signs_in_once_and_is_handed_over_and_signing_out_ends_it_everywhere() {
    let secure = Secure::start().await;
    let browser = Chromium::believing(RULES, Some(&secure.key)).await;
    let page = secure.host("grp", "/page?x=%41");
    sign_in(&browser, &secure, &page, "alice").await;
    assert_eq!(browser.text().await, "grp /page");
    // A second host needs no provider; fragments stay with the browser.
    browser.open(&secure.host("evil", "/other#part")).await;
    assert_eq!(browser.url().await, secure.host("evil", "/other#part"));
    for cookie in browser.all_cookies().await {
        assert!(
            cookie.name.starts_with("__Host-") && !cookie.domain.starts_with('.'),
            "{cookie:?}"
        );
        assert!(
            cookie.secure && cookie.http_only && cookie.path == "/",
            "{cookie:?}"
        );
        assert_eq!(cookie.same_site.as_deref(), Some("Lax"), "{cookie:?}");
    }
    browser.open(&secure.site("/oauth2/sign_out")).await;
    browser.click("button").await;
    browser.wait_for_url(|url| url.ends_with("/apps/")).await;
    let left: Vec<_> = browser
        .all_cookies()
        .await
        .into_iter()
        .filter(|c| c.domain == "gw.test")
        .collect();
    assert!(left.is_empty(), "nothing of the site is left: {left:?}");
    let before = secure.grp.count();
    for label in ["grp", "evil"] {
        browser.open(&secure.host(label, "/page")).await;
        assert!(
            browser.url().await.starts_with(secure.provider.issuer()),
            "{}",
            browser.url().await
        );
    }
    assert_eq!(
        secure.grp.count(),
        before,
        "the cookies of the hosts are worth nothing"
    );
    let left: Vec<_> = browser
        .all_cookies()
        .await
        .into_iter()
        .map(|cookie| cookie.name)
        .collect();
    assert!(
        !left.iter().any(|name| name == "__Host-ludgate-app"),
        "and are gone once seen: {left:?}"
    );
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_on_one_host_cannot_read_set_or_destroy_the_session_of_another_or_of_the_site() {
    let secure = Secure::start().await;
    let browser = Chromium::believing(RULES, Some(&secure.key)).await;
    sign_in(&browser, &secure, &secure.host("grp", "/page"), "alice").await;
    sign_in(&browser, &secure, &secure.host("evil", "/page"), "alice").await;
    let planted = "x".repeat(43);
    let whole = sessions(&browser).await;
    assert_eq!(whole.len(), 2, "{whole:?}");
    // By script on the page of the evil app.
    for trick in [
        format!("__Host-ludgate-app={planted}; Path=/; Secure"),
        format!("__Host-ludgate-app={planted}; Domain=svc.test; Path=/; Secure"),
        format!("ludgate-app={planted}; Domain=svc.test; Path=/"),
        format!("__Host-ludgate={planted}; Domain=test; Path=/; Secure"),
        format!("__Host-ludgate={planted}; Domain=gw.test; Path=/; Secure"),
        format!("__host-ludgate-app={planted}; Domain=svc.test; Path=/; Secure"),
        format!("=__Host-ludgate-app={planted}; Domain=svc.test; Path=/; Secure"),
        format!("\\t __Host-ludgate-app ={planted}; Domain=svc.test; Path=/; Secure"),
        "__Host-ludgate-app=; Domain=svc.test; Path=/; Max-Age=0; Secure".to_owned(),
        format!("phapplication-session-id={planted}; Domain=svc.test; Path=/; Secure"),
        format!("__Host-ludgate-bind={planted}; Domain=svc.test; Path=/; Secure"),
        format!("__Host-ludgate-app={planted}; Domain=grp.svc.test; Path=/; Secure"),
    ] {
        browser.open(&secure.host("evil", "/page")).await;
        let seen = browser
            .run(&format!(
                "document.cookie = \"{trick}\"; return document.cookie"
            ))
            .await;
        let seen = seen.as_str().expect("text");
        assert!(
            whole.iter().all(|cookie| !seen.contains(&cookie.value)),
            "it reads none: {seen}"
        );
        still_alice(&browser, &secure, &whole, &trick).await;
    }
    // By answers of the evil app's server.
    for (header, value) in [
        (
            "Set-Cookie",
            format!("__Host-ludgate-app={planted}; Path=/; Secure"),
        ),
        (
            "Set-Cookie",
            format!("__Host-ludgate={planted}; Path=/; Secure; Domain=gw.test"),
        ),
        (
            "Set-Cookie",
            format!("tossed={planted}; Path=/; Domain=svc.test"),
        ),
        (
            "Set-Cookie",
            "__Host-ludgate-app=; Path=/; Max-Age=0; Secure".to_owned(),
        ),
        ("Clear-Site-Data", "\"cookies\"".to_owned()),
        ("Clear-Site-Data", "\"*\"".to_owned()),
    ] {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{header}: {value}\r\n");
        secure
            .evil
            .script(format!("{head}Content-Length: 4\r\n\r\nevil").into_bytes());
        browser.open(&secure.host("evil", "/page")).await;
        assert_eq!(browser.text().await, "evil");
        secure.evil.script(None);
        let all = browser.all_cookies().await;
        assert!(
            !all.iter()
                .any(|cookie| cookie.name == "tossed" && cookie.domain != "evil.svc.test"),
            "{all:?}"
        );
        still_alice(&browser, &secure, &whole, &value).await;
    }
    browser.close().await;
}

/// Asserts that the other page has changed nothing: same cookies, same user, no redirect.
async fn still_alice(browser: &Chromium, secure: &Secure, whole: &[Cookie], trick: &str) {
    assert_eq!(sessions(browser).await, whole, "{trick}");
    let page = secure.host("grp", "/page");
    browser.open(&page).await;
    assert_eq!(browser.url().await, page, "{trick}");
    assert_eq!(browser.text().await, "grp /page", "{trick}");
    let seen = secure
        .grp
        .seen()
        .into_iter()
        .rfind(|request| request.target() == "/page")
        .expect("reached");
    assert_eq!(
        seen.header("x-forwarded-user").as_deref(),
        Some("alice"),
        "{trick}"
    );
    assert_eq!(
        browser
            .run("return document.cookie.includes('__Host-')")
            .await,
        false,
        "HttpOnly: {trick}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_one_host_gets_nothing_from_another_by_fetch_frame_or_websocket() {
    let secure = Secure::start().await;
    let browser = Chromium::believing(RULES, Some(&secure.key)).await;
    sign_in(&browser, &secure, &secure.host("grp", "/page"), "alice").await;
    sign_in(&browser, &secure, &secure.host("evil", "/page"), "alice").await;
    let before = secure.grp.count();
    let grp = secure.host("grp", "");
    // Its cookie is same-site and goes along; it is not taken for the person's own wish.
    for script in [
        format!(
            "return fetch('{grp}/x', {{credentials: 'include'}}).then(r => r.text(), e => 'refused')"
        ),
        format!(
            "return fetch('{grp}/x', {{credentials: 'include', mode: 'no-cors', method: 'POST'}}).then(r => r.type, e => 'refused')"
        ),
        format!(
            "return new Promise(done => {{ const i = new Image(); i.onload = () => done('loaded'); i.onerror = () => done('refused'); i.src = '{grp}/x' }})"
        ),
        format!(
            "return new Promise(done => {{ const w = new WebSocket('{}/ws'); w.onopen = () => done('open'); w.onerror = () => done('refused') }})",
            grp.replace("https", "wss")
        ),
        format!(
            "return new Promise(done => {{ const f = document.createElement('iframe'); f.onload = () => done('framed'); f.src = '{grp}/x'; document.body.append(f) }})"
        ),
    ] {
        let came = browser.run_async(&script).await;
        assert!(
            ["refused", "opaque", "framed"]
                .iter()
                .any(|word| came == *word),
            "{script}: {came}"
        );
    }
    assert_eq!(secure.grp.count(), before, "O5: the app saw none of it");
    // A form that posts across is no wish of the person's either.
    browser.run(&format!("const f = document.createElement('form'); f.method = 'POST'; f.action = '{grp}/x'; document.body.append(f); f.submit()")).await;
    browser.wait_for_url(|url| url.starts_with(&grp)).await;
    assert_eq!(secure.grp.count(), before, "O5: nor that");
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_floods_the_cookie_jar_does_not_lock_its_neighbours() {
    let secure = Secure::start().await;
    let browser = Chromium::believing(RULES, Some(&secure.key)).await;
    sign_in(&browser, &secure, &secure.host("grp", "/page"), "alice").await;
    sign_in(&browser, &secure, &secure.host("evil", "/page"), "alice").await;
    // As many as a browser holds for all hosts below one registrable domain; all of them go to
    // every neighbour.
    browser.run("for (let n = 0; n < 400; n++) document.cookie = `flood${n}=1; Domain=svc.test; Path=/; Secure; Priority=High`").await;
    let page = secure.host("grp", "/page");
    browser.open(&page).await;
    assert_eq!(browser.url().await, page);
    assert_eq!(browser.text().await, "grp /page");
    let sent = browser
        .run("return document.cookie.split('; ').length")
        .await;
    assert!(
        sent.as_u64().is_some_and(|count| count > 100),
        "{sent} cookies were sent along"
    );
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_on_its_own_host_may_clear_what_is_its_own() {
    let secure = Secure::start().await;
    let browser = Chromium::believing(RULES, Some(&secure.key)).await;
    sign_in(&browser, &secure, &secure.host("evil", "/page"), "alice").await;
    let whole = browser.all_cookies().await;
    browser
        .run("localStorage.setItem('kept', '1'); document.cookie = 'own=1; Secure'")
        .await;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nClear-Site-Data: \"*\"\r\nContent-Length: 4\r\n\r\nevil";
    secure.evil.script(head.as_bytes().to_vec());
    browser.open(&secure.host("evil", "/page")).await;
    assert_eq!(
        browser.run("return localStorage.getItem('kept')").await,
        serde_json::Value::Null
    );
    let after = browser.all_cookies().await;
    assert!(
        whole.iter().all(|cookie| after.contains(cookie)),
        "no cookie went with it: {after:?}"
    );
    browser.close().await;
}
