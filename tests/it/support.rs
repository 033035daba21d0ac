//! The world that tests run in: a real gateway, recording backends, a provider, a browser, a clock by hand.

pub mod backend;
pub mod browser;
pub mod message;
pub mod oracles;
pub mod raw;
pub mod world;
