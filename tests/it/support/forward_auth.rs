//! Another proxy in front of an app, with auth requests to the gateway: its configuration as in the
//! documentation, and the sign-in of a person at an app behind it.

use std::path::Path;

use ludgate::settings::Settings;

use super::{
    browser::{Browser, at_built_in_provider, path_of},
    message::Message,
    world::World,
};

/// The proxies of tests connect from this machine.
pub fn trust_this_machine(settings: &mut Settings) {
    settings.peers.trusted = vec!["127.0.0.1/32".parse().expect("a network")];
    settings
        .listen
        .trusted_proxies
        .clone_from(&settings.peers.trusted);
}

/// The first block of code below a heading of docs/forward-auth.md, with the examples replaced.
pub fn documented(heading: &str, changes: &[(&str, &str)]) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/forward-auth.md");
    let document = std::fs::read_to_string(path).expect("a document");
    let section = document.split(&format!("\n## {heading}\n")).nth(1);
    let block = section.and_then(|text| text.split("\n```").nth(1));
    let block = block.unwrap_or_else(|| panic!("no block below {heading:?}"));
    let mut block = block.split_once('\n').expect("lines").1.to_owned();
    for (example, text) in changes {
        assert!(block.contains(example), "{heading} has no {example:?}");
        block = block.replace(example, text);
    }
    block
}

/// Signs in at the host of an app, starting at the address that the proxy redirects to. Returns the
/// response at the host, and the browser with the site's cookies.
pub async fn sign_in_at(
    world: &World,
    host: &mut Browser,
    location: &str,
    person: &str,
) -> (Message, Browser) {
    let site = format!("http://{}/oauth2/start?", world.host);
    assert!(location.starts_with(&site), "{location}");
    let mut at_site = world.browser();
    let started = at_site.open(&path_of(location)).await;
    let provider = started.header("location").expect("the provider");
    let back = at_built_in_provider(&provider, person).await;
    let ticket = at_site.open(&back).await;
    let enter = ticket
        .header("location")
        .unwrap_or_else(|| panic!("no ticket: {}", ticket.text()));
    (host.open(&path_of(&enter)).await, at_site)
}
