//! A real browser: Chromium without a window, driven over WebDriver
//! (<https://www.w3.org/TR/webdriver2/>) by the chromedriver that Debian packages with it. Every
//! value is a browser of its own, with nothing in it yet.

mod driver;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::{Value, json};

pub use driver::runs;

use driver::Driver;

/// A browser that starts beside a compiler needs longer than other answers do.
const DEADLINE: Duration = Duration::from_secs(90);

/// After this time chromedriver itself says what does not come; that is clearer than a silence
/// until `DEADLINE`.
const PAGE_DEADLINE: Duration = Duration::from_secs(60);

/// One browser. It ends with the value, at a failed test too, and every process of it.
pub struct Chromium {
    driver: Driver,
    session: String,
}

/// A cookie as the browser keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cookie {
    pub name: String,
    pub value: String,
    /// With a dot before it when subdomains get it too.
    pub domain: String,
    pub path: String,
    pub secure: bool,
    pub http_only: bool,
    /// `Strict`, `Lax` or `None`. Of a cookie that was set without, [`Chromium::cookies`] says
    /// `Lax`, as it is treated, and [`Chromium::all_cookies`] says nothing.
    pub same_site: Option<String>,
}

impl Chromium {
    /// `resolver_rules` say where names lead, as in `MAP *.test 127.0.0.1`. Names under `localhost`
    /// lead to 127.0.0.1 unless the rules say otherwise, and all others nowhere. Certificates are
    /// not verified.
    pub async fn start(resolver_rules: &str) -> Chromium {
        Chromium::believing(resolver_rules, None).await
    }

    /// The same, and a certificate with this key (SHA-256 of the public key, base64) is trusted as
    /// if a known CA had signed it: with an unverified certificate a browser ignores some headers.
    ///
    /// A browser that does not come up is started anew, at most twice, and why is printed: nothing
    /// of ours is under way yet.
    pub async fn believing(resolver_rules: &str, key: Option<&str>) -> Chromium {
        let mut tries = 0;
        loop {
            match Chromium::try_to_start(resolver_rules, key).await {
                Ok(browser) => return browser,
                Err(refused) if tries < 2 => eprintln!("{refused}"),
                Err(refused) => panic!("{refused}"),
            }
            tries += 1;
        }
    }

    async fn try_to_start(resolver_rules: &str, key: Option<&str>) -> Result<Chromium, String> {
        let driver = Driver::start().await;
        let flags = [
            "--headless",
            // Chromium refuses to run in its sandbox as root, and containers often forbid the
            // sandbox.
            "--no-sandbox",
            "--disable-gpu",
            // A container's /dev/shm is small, and all browsers of all tests would share it.
            "--disable-dev-shm-usage",
            "--disable-quic",
            // The environment may name a proxy; what is on loopback is not behind it.
            "--no-proxy-server",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ];
        let mut flags: Vec<String> = flags.map(str::to_owned).into();
        flags.push(format!(
            "--user-data-dir={}",
            driver.folder().join("profile").display()
        ));
        // The first rule that fits is taken.
        let loopback = "MAP *.localhost 127.0.0.1,MAP localhost 127.0.0.1,MAP 127.0.0.1 127.0.0.1";
        let comma = if resolver_rules.is_empty() { "" } else { "," };
        flags.push(format!(
            "--host-resolver-rules={resolver_rules}{comma}{loopback},MAP * ^NOTFOUND"
        ));
        flags.extend(key.map(|key| format!("--ignore-certificate-errors-spki-list={key}")));
        let patience = PAGE_DEADLINE.as_millis();
        let wanted = json!({
            "browserName": "chrome",
            "acceptInsecureCerts": key.is_none(),
            "timeouts": { "pageLoad": patience, "script": patience },
            "goog:loggingPrefs": { "browser": "SEVERE" },
            "goog:chromeOptions": { "args": flags },
        });
        let body = json!({ "capabilities": { "alwaysMatch": wanted } });
        let made = driver.asked("POST", "/session", Some(&body)).await?;
        let session = made["sessionId"]
            .as_str()
            .unwrap_or_else(|| panic!("no session: {made}"))
            .to_owned();
        Ok(Chromium { driver, session })
    }

    /// Goes to a page and waits until it is loaded. The page may lead on to others.
    pub async fn open(&self, url: &str) {
        self.post("/url", json!({ "url": url })).await;
    }

    /// What the address bar says.
    pub async fn url(&self) -> String {
        text_of(self.get("/url").await)
    }

    pub async fn title(&self) -> String {
        text_of(self.get("/title").await)
    }

    /// The document as it is now, in HTML.
    pub async fn source(&self) -> String {
        text_of(self.get("/source").await)
    }

    /// What there is to read on the page.
    pub async fn text(&self) -> String {
        text_of(self.run("return document.body.innerText").await)
    }

    /// Runs the body of a function in the page; what it returns must fit in JSON.
    pub async fn run(&self, script: &str) -> Value {
        self.post("/execute/sync", json!({ "script": script, "args": [] }))
            .await
    }

    /// The same for the body of an `async` function. A promise that is rejected fails the test.
    pub async fn run_async(&self, script: &str) -> Value {
        self.run(&format!("return (async () => {{\n{script}\n}})()"))
            .await
    }

    /// A person's click in the middle of the first element that fits; waits for the page that it
    /// leads to.
    pub async fn click(&self, css: &str) {
        let element = self.element(css).await;
        self.post(&format!("/element/{element}/click"), json!({}))
            .await;
    }

    /// Chooses a file in the first file field that fits, as a person does in its dialog.
    pub async fn choose_file(&self, css: &str, file: &Path) {
        let element = self.element(css).await;
        let body = json!({ "text": file.display().to_string() });
        self.post(&format!("/element/{element}/value"), body).await;
    }

    /// The id of the first element that fits.
    async fn element(&self, css: &str) -> String {
        let found = self
            .post("/element", json!({ "using": "css selector", "value": css }))
            .await;
        let element = found
            .as_object()
            .and_then(|pairs| pairs.values().next())
            .and_then(Value::as_str);
        let element = element.unwrap_or_else(|| panic!("{css}: {found}"));
        element.to_owned()
    }

    /// The cookies that the page now open would be sent, by name.
    pub async fn cookies(&self) -> Vec<Cookie> {
        cookies_of(self.get("/cookie").await)
    }

    /// Every cookie of the browser, by name.
    pub async fn all_cookies(&self) -> Vec<Cookie> {
        let command = json!({ "cmd": "Storage.getCookies", "params": {} });
        cookies_of(self.post("/goog/cdp/execute", command).await["cookies"].take())
    }

    /// Waits until the address bar says what is wanted, and tells what that is.
    pub async fn wait_for_url(&self, wanted: impl Fn(&str) -> bool) -> String {
        let begin = Instant::now();
        loop {
            let url = self.url().await;
            if wanted(&url) {
                return url;
            }
            if begin.elapsed() >= DEADLINE {
                panic!(
                    "waited for another page than {url}:\n{}",
                    self.source().await
                );
            }
            // WebDriver has no event to wait for.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The errors in the console since the last call: failed requests, refused WebSockets,
    /// exceptions, and what scripts write there. A failed request begins with its address.
    pub async fn errors(&self) -> Vec<String> {
        let log = self.post("/se/log", json!({ "type": "browser" })).await;
        let entries = log.as_array().unwrap_or_else(|| panic!("no log: {log}"));
        let messages = entries.iter().map(|entry| entry["message"].clone());
        messages.map(text_of).collect()
    }

    /// Opens an empty tab; from now on everything is done there.
    pub async fn new_tab(&self) {
        let made = self.post("/window/new", json!({ "type": "tab" })).await;
        self.post("/window", json!({ "handle": made["handle"] }))
            .await;
    }

    /// The page as a person sees it, as a PNG file.
    /// Goes on in another window than this one, once there is one.
    pub async fn other_window(&self) {
        let current = text_of(self.get("/window").await);
        let other = async {
            loop {
                let all = self.get("/window/handles").await;
                let names = all
                    .as_array()
                    .cloned()
                    .unwrap_or_default()
                    .into_iter()
                    .map(text_of);
                if let Some(other) = names.into_iter().find(|name| *name != current) {
                    return other;
                }
            }
        };
        let other = tokio::time::timeout(PAGE_DEADLINE, other)
            .await
            .expect("another window");
        self.post("/window", json!({ "handle": other })).await;
    }

    /// Goes back to the one window that is left.
    pub async fn only_window(&self) {
        let only = async {
            loop {
                let all = self.get("/window/handles").await;
                if let Some([only]) = all.as_array().map(Vec::as_slice) {
                    return text_of(only.clone());
                }
            }
        };
        let only = tokio::time::timeout(PAGE_DEADLINE, only)
            .await
            .expect("the other window closes by itself");
        self.post("/window", json!({ "handle": only })).await;
    }

    pub async fn screenshot(&self) -> Vec<u8> {
        STANDARD
            .decode(text_of(self.get("/screenshot").await))
            .expect("base64")
    }

    /// The ids of chromedriver and of everything that it started.
    pub fn processes(&self) -> Vec<u32> {
        self.driver.processes()
    }

    /// Ends the browser as a person would; a value that is merely dropped is killed.
    pub async fn close(self) {
        self.driver
            .command("DELETE", &format!("/session/{}", self.session), None)
            .await;
    }

    async fn get(&self, command: &str) -> Value {
        self.driver
            .command("GET", &format!("/session/{}{command}", self.session), None)
            .await
    }

    async fn post(&self, command: &str, body: Value) -> Value {
        self.driver
            .command(
                "POST",
                &format!("/session/{}{command}", self.session),
                Some(&body),
            )
            .await
    }
}

fn text_of(answer: Value) -> String {
    answer
        .as_str()
        .unwrap_or_else(|| panic!("not a text: {answer}"))
        .to_owned()
}

fn cookies_of(answer: Value) -> Vec<Cookie> {
    let mut cookies: Vec<Cookie> = serde_json::from_value(answer.clone())
        .unwrap_or_else(|e| panic!("no cookies ({e}): {answer}"));
    cookies.sort_by(|a, b| (&a.name, &a.domain, &a.path).cmp(&(&b.name, &b.domain, &b.path)));
    cookies
}
