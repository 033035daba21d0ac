//! The REST API of applications, with the shipped rights and those of people, on a real API server.
//! No controller runs here.

mod changes;
mod definitions;
mod document;
mod installations;
mod people;
mod rig;
mod targets;
mod terminal;
