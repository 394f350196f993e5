//! Uplink care: rules, routes and endpoints of the links by which this machine reaches the world come and go with carrier and
//! address, so that connections of Multipath TCP use the links that there are.

mod budget;
mod reconciler;
mod endpoints;
mod netlink;
mod origins;
mod parts;
mod plan;
mod probes;
mod routing;
mod script;
mod service;
mod view;

pub use origins::addresses;
pub use script::script;
pub use service::{run, runs};
