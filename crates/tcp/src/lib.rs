//! TCP and Multipath TCP without input or output.
//!
//! [`tcp::Connection`] is TCP alone; [`mptcp::Connection`] combines several of its subflows. Both implement
//! [`Endpoint`](anabranch_endpoint::Endpoint), whose page states the order of calls. Neither owns a clock, socket,
//! thread or random source.

pub mod mptcp;
pub mod tcp;
