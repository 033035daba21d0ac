//! The controller of installations, against a real API server and with real Helm.

mod collisions;
mod default_apps;
mod definitions;
mod deletion;
mod downloads;
mod example;
mod health;
mod killed;
mod permissions;
mod seeded;
mod stuck;
mod targets;
