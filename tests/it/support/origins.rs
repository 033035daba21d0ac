//! One person's browser over several of our origins: a cookie jar per host, as cookies are kept,
//! whatever the port; redirects followed from origin to origin, through the provider too.

use std::{collections::BTreeMap, net::SocketAddr};

use super::{
    browser::{Browser, From, at_built_in_provider, field},
    message::Message,
    world::World,
};

/// More redirects than this are a circle.
const MAX_HOPS: usize = 12;

#[derive(Clone)]
pub struct Origins {
    gateway: SocketAddr,
    /// By host without port.
    jars: BTreeMap<String, Browser>,
    /// Every address that was opened on the way, the first one included.
    pub way: Vec<String>,
}

impl Origins {
    pub fn new(world: &World) -> Origins {
        Origins::with_gateway(world.running.address)
    }

    /// For a gateway without a `World`.
    pub fn with_gateway(gateway: SocketAddr) -> Origins {
        Origins {
            gateway,
            jars: BTreeMap::new(),
            way: Vec::new(),
        }
    }

    /// The browser as one host knows it.
    pub fn at(&mut self, authority: &str) -> &mut Browser {
        let name = authority.split(':').next().expect("a name").to_owned();
        let browser = self
            .jars
            .entry(name)
            .or_insert_with(|| Browser::new(self.gateway, authority));
        browser.host = authority.to_owned();
        browser
    }

    /// One request to a whole address, without following anything.
    pub async fn send(
        &mut self,
        method: &str,
        url: &str,
        from: From,
        more: &str,
        body: &[u8],
    ) -> Message {
        let (authority, target) = split(url);
        self.at(&authority)
            .send(method, &target, from, more, body)
            .await
    }

    pub async fn get(&mut self, url: &str, from: From, more: &str) -> Message {
        self.send("GET", url, from, more, b"").await
    }

    pub async fn open(&mut self, url: &str) -> Message {
        self.get(url, From::Navigation, "").await
    }

    pub async fn fetch(&mut self, url: &str) -> Message {
        self.get(url, From::Fetch, "").await
    }

    /// Opens an address and follows what comes, as a browser does; at the provider this person's
    /// name is clicked. Gives back the last address and its answer.
    pub async fn follow(&mut self, url: &str, person: &str) -> (String, Message) {
        let (mut url, mut from) = (url.to_owned(), From::Navigation);
        self.way.clear();
        for _ in 0..MAX_HOPS {
            self.way.push(url.clone());
            // A fragment stays in the browser.
            let (authority, target) = split(url.split('#').next().unwrap_or_default());
            let answer = self
                .at(&authority)
                .send("GET", &target, from, "", b"")
                .await;
            let Some(location) = answer
                .header("location")
                .filter(|_| answer.status() / 100 == 3)
            else {
                return (url, answer);
            };
            let base = url::Url::parse(&url).expect("a URL");
            url = base.join(&location).expect("a location").into();
            // Once a redirect leads to another site the browser says so for the rest of the way.
            from = From::ForeignNavigation;
            if url.contains("/authorize?") {
                let back = at_built_in_provider(&url, person).await;
                url = format!("http://{}{back}", self.site());
            }
        }
        panic!("a circle: {:#?}", self.way);
    }

    /// Signs out on the site, through its page.
    pub async fn sign_out(&mut self, world: &World) {
        let site = format!("http://{}", world.host);
        let page = self.open(&format!("{site}/oauth2/sign_out")).await.text();
        let form = format!("token={}", field(&page, "token"));
        let more = format!("Content-Type: application/x-www-form-urlencoded\r\nOrigin: {site}\r\n");
        let url = format!("{site}/oauth2/sign_out");
        let answer = self
            .send("POST", &url, From::Fetch, &more, form.as_bytes())
            .await;
        assert_eq!(answer.status(), 200, "{answer:?}");
    }

    fn site(&self) -> String {
        let start = self
            .way
            .iter()
            .find(|url| url.contains("/oauth2/start"))
            .expect("the site");
        split(start).0
    }
}

fn split(url: &str) -> (String, String) {
    let rest = url.split_once("://").expect("a whole address").1;
    let slash = rest.find('/').unwrap_or(rest.len());
    let target = if slash == rest.len() {
        "/"
    } else {
        &rest[slash..]
    };
    (rest[..slash].to_owned(), target.to_owned())
}
