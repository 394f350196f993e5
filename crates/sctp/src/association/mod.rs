//! The life of an association: handshake, states, arriving and leaving packets, failure and end.

pub(crate) mod authenticate;
pub(crate) mod chunks;
pub(crate) mod endpoint;
pub(crate) mod entries;
pub(crate) mod failure;
pub(crate) mod handshake;
pub(crate) mod limited;
pub(crate) mod listener;
pub(crate) mod network;
pub(crate) mod restart;
pub(crate) mod shutdown;
pub(crate) mod state;
pub(crate) mod transmit;
pub(crate) mod wanted;
pub(crate) mod zero_checksum;
