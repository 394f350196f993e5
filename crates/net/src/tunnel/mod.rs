//! A testbed on two machines: tunnels for the packets of links between them, and the agreement of both ends.
//!
//! Each machine runs its hosts and emulates the directions of links that begin at its nodes. A packet at the
//! end of a direction between the machines is sent through the tunnel of its link, and the other machine forwards it. A
//! tunnel is GRE (RFC 2784, RFC 2890) or GRE in UDP (RFC 8086). Read [`Part`] first.

mod contact;
mod counters;
mod ended;
mod message;
mod outer;
mod part;
mod probe;

pub use counters::TunnelCounters;
pub use part::{Part, PartError};
