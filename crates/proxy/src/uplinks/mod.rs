//! Uplink care: rules, routes and endpoints of the links by which this machine reaches the world come and go with carrier and
//! address, so that connections of Multipath TCP use the links that there are.

mod budget;
mod endpoints;
mod netlink;
mod origins;
mod parts;
mod plan;
mod probes;
mod reconciler;
mod routing;
mod script;
mod service;
mod view;

pub(crate) use netlink::Changes;
pub use origins::addresses;
pub(crate) use routing::{GROUPS as ROUTING_GROUPS, NFTABLES_GROUP};
pub use script::script;
pub use service::{run, runs};
