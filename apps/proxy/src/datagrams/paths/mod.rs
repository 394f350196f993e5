//! Datagrams over UDP on several paths between two Anabranch proxies.

mod control;
mod frame;
mod order;
mod replay;
mod session;
mod side;

pub use frame::{Keys, MAX_PATHS, Nonce};
pub use side::PathsSide;
