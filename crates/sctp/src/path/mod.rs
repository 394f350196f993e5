//! A path: its state, round-trip times, heartbeats, MTU, silence and copies.

pub(crate) mod changeover;
pub(crate) mod copies;
pub(crate) mod heartbeat;
pub(crate) mod network_reports;
pub(crate) mod pmtu;
pub(crate) mod reports;
pub(crate) mod silence;
pub(crate) mod state;
