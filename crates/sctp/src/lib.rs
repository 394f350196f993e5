//! SCTP (RFC 9260) and, with switches, CMT-SCTP: one association as a value.
//!
//! # Rooms
//! [`Association`] holds a state and what all states share: the settings, the paths, and what waits to leave. Up and
//! running, it has a sending half (messages, the scoreboard of chunks, SACKs, losses) and a receiving half (TSNs,
//! reassembly, acknowledgements). Concurrent multipath transfer adds no second copy of anything: every path has its
//! own queue of transmissions, missing reports, recovery phase and timer, and with one path they are plain SCTP's.
//!
//! # Cost
//! A chunk costs the same with a hundred or a million others outstanding, on both sides:
//! - the scoreboard is a ring indexed by TSN, so that any chunk is found in constant time;
//! - each transmission is an entry in its path's queue, in order of transmission; entries that have lost their meaning
//!   are dropped when they come to the front, so nothing is ever searched;
//! - missing reports are not counted chunk by chunk: the n-th largest of the transmission numbers that SACKs newly
//!   acknowledged separates the lost from the rest, and the lost are at the front of the queue;
//! - a SACK is compared with the one before it, and only the difference is worked on; its gap blocks are read once,
//!   and there are no more of them than fit a packet;
//! - the receiver keeps runs of TSNs in a tree, so that a chunk costs a logarithm of the number of gaps.
//!
//! # What differs from a plain reading of the RFC
//! - Congestion windows count whole chunks, as PMDCS in §7.2.1 does, and buffers payload, as `a_rwnd` does.
//! - Congestion avoidance begins when the window reaches the threshold, as TCP's does here, not above it (§7.2.1).
//! - A packet must fit the congestion window whole, unless [`Config::overshoot`] asks for the RFC's leniency.
//! - The retransmission timer follows the oldest transmission in flight, so that §7.2.4 rule 4 needs nothing of its own.
//! - Missing reports come from chunks that were sent once; which transmission of a repeated chunk arrived is unknown.
//! - A path that has fallen silent is probed, and times out early while others are heard from (`probing`).
//! - Losses and timeouts that turn out to have been none are taken back, and a path on which packets were seen to overtake
//!   each other waits a while longer than §7.2.4 has it before it counts one as lost.
//! - A SACK that takes back what was acknowledged and brings nothing new is taken for overtaken.
//! - An error on a path that is not active counts against the association only when no path is: with many pairs of
//!   addresses, those that no route connects would otherwise end it.
//! - HB.Max.Burst counts heartbeats under way to claimed addresses (§5.4), so that one which answers makes room at once.
//! - A message that is given up takes all its chunks along, also those that have arrived; those on their way are waited for.
//!   What tells the peer so has a timer of its own, with the path's timeout, in place of T3 (RFC 3758 §3.5 C5).
//! - Data that a restart of the peer finds unacknowledged is discarded, and the application told how much (§5.2.4 A).

mod abandon;
mod address_changes;
mod asconf;
mod association;
mod auth;
mod changeover;
mod chunks;
mod common;
mod config;
mod cookie;
mod counters;
mod echo;
mod ecn;
mod endpoint;
mod failure;
mod forward;
mod gaps;
mod ghosts;
mod handshake;
mod heartbeat;
mod immediate;
mod inbound;
mod inbox;
mod limits;
mod listener;
mod load;
mod network;
mod open;
mod origin;
mod outbound;
mod outstanding;
mod path;
mod phase;
mod pmtu;
mod probing;
mod rate;
mod reassembly;
mod reconfig;
mod reports;
mod requests;
mod restart;
mod retransmit;
mod sack;
mod sealing;
mod shutdown;
mod silence;
mod stream_changes;
mod streams;
#[cfg(test)]
mod tests;
mod transmit;
mod undo;
mod zero_checksum;

pub use association::Association;
pub use config::{Config, ConfigError, ImmediateSack, Paths, RetransmissionPath, SackPath, StreamScheduler};
pub use cookie::CookieKey;
pub use counters::Blocking;
pub use listener::{Answer, Listener};

pub use origin::{behind_auth, out_of_the_blue};
