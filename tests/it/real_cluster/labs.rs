//! Labs on a cluster: `ludgate labs` with the shipped rights, JupyterHub and JupyterLab from PyPI,
//! images from a registry.

mod browser;
mod document;
mod ended;
mod gateway;
mod hub;
mod outside;
mod prepull;
pub(super) mod process;
mod restart;
mod site;
mod spawn;
