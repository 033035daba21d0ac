//! Images of labs against a real API server. Tests write the nodes, the statuses of pods and the
//! registry.

mod nodes;
mod prepull;
mod registry;
mod rig;
