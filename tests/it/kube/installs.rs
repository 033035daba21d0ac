//! The controller of installations, against a real API server and with real Helm.

mod changed_spec;
mod collisions;
mod default_apps;
mod definitions;
mod deletion;
mod downloads;
mod example;
mod health;
mod killed;
mod permissions;
mod releases;
mod seeded;
mod seeding;
mod stuck;
mod targets;
