//! TCP (RFC 9293). A TCP connection and a Multipath TCP subflow are the same code: a [`Tcb`] with a different owner.

mod autotuning;
mod connection;
mod deadlines;
mod input;
mod limiting;
mod limits;
mod numbers;
mod output;
mod phase;
mod pmtu;
mod rack;
mod rate;
mod receiver;
mod recovery;
mod scoreboard;
mod selective;
mod suspect;
mod tcb;
mod time_based;
mod time_wait;
mod timers;
mod undo;
mod window_use;

#[cfg(test)]
mod adversarial_tests;
#[cfg(test)]
mod growth_tests;
#[cfg(test)]
mod life_tests;
#[cfg(test)]
mod path_mtu_tests;
#[cfg(test)]
mod proofs;
#[cfg(test)]
mod selective_tests;
#[cfg(test)]
mod spurious_tests;
#[cfg(test)]
mod tests;

pub use anabranch_settings::tcp::{Config, Recovery};
pub use connection::Connection;
pub use input::window_shift;
pub(crate) use limits::Demand;
pub(crate) use numbers::of_connection;
pub use numbers::{Numbers, Tuple, initial_sequence, timestamp_offset};
pub(crate) use output::segment_of;
pub use recovery::LossState;
pub use tcb::{Context, Route, State, Tcb};
pub use time_wait::TimeWaitState;
