//! A small but real OpenID provider: discovery, keys, authorization code with PKCE, refresh with
//! rotation, device codes, userinfo, end-session, back-channel logout. For the demo and the tests;
//! it asks for no password.
//!
//! `http` is its server, `keys` signs, `tokens` answers at the token endpoint, `device` gives codes
//! to terminals, `state` holds its people and tokens. `test_hooks` is for tests alone.

mod device;
#[cfg(feature = "testing")]
mod hooks;
pub mod http;
pub mod keys;
mod state;
#[cfg(feature = "testing")]
pub mod test_hooks;
pub mod tokens;

use std::io;

use crate::model::clock::Clock;
pub use state::{DemoProvider, Person, RegisteredClient};

impl DemoProvider {
    /// Starts it on a free loopback port.
    ///
    /// # Errors
    /// When no port is available, or no key can be made.
    pub async fn start(client: RegisteredClient, clock: Clock) -> io::Result<DemoProvider> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        DemoProvider::start_on(listener, client, clock)
    }

    /// Starts it on a given listener; for tests in which it stops and starts again.
    ///
    /// # Errors
    /// When no key can be made.
    pub fn start_on(
        listener: tokio::net::TcpListener,
        client: RegisteredClient,
        clock: Clock,
    ) -> io::Result<DemoProvider> {
        let issuer = format!("http://{}", listener.local_addr()?);
        let provider = DemoProvider::new(issuer, client, clock)?;
        tokio::spawn(http::serve(provider.clone(), listener));
        Ok(provider)
    }
}
