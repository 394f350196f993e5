//! Extensions: authentication, addresses and streams that change, partial reliability, ECN, network control.

pub(crate) mod abandon;
pub(crate) mod address_changes;
pub(crate) mod asconf;
pub(crate) mod auth;
pub(crate) mod echo;
pub(crate) mod ecn;
pub(crate) mod forward;
pub(crate) mod network_control;
pub(crate) mod reconfig;
pub(crate) mod stream_changes;
