//! The engine that runs Helm, against a real API server, with the rights of one namespace.

mod access;
mod cancel;
mod deploy;
mod killed;
mod secrets;
mod stuck;
