//! The service of labs against a real API server. Tests write the phases of pods, and their Events.

mod deletion;
mod events;
mod faults;
mod file_routes;
mod file_servers;
mod leftovers;
mod replicas;
mod restart;
mod spawn;
mod store_away;
