//! SCTP (RFC 9260) and, with switches, CMT-SCTP: one association as a value.
//!
//! For authors of a stack or a simulator. Read [`Association`] first, then [`Config`], then [`Listener`], which answers
//! packets of no association. An association is an [`Endpoint`](anabranch_endpoint::Endpoint), whose page states the order
//! of calls.
//!
//! Two messages over a wire with a delay of ten milliseconds:
//!
//! ```
//! use anabranch_base::time::{Duration, Time};
//! use anabranch_endpoint::drive::Collected;
//! use anabranch_endpoint::{Address, Endpoint, Ends, Event, Secrets, Write};
//! use anabranch_multipath::{congestion, scheduler};
//! use anabranch_sctp::{Association, Config};
//! use anabranch_wire::Pattern;
//!
//! let congestion = congestion::Choice::find("reno").expect("the name is in the table");
//! let config = Config::new(congestion, scheduler::find("round-robin").expect("the name is in the table"));
//! let client = Ends::connecting(([10, 0, 0, 1], 40_000).into(), 1500, ([10, 0, 0, 2], 9899).into());
//! let server = Ends::listening(vec![Address::new([10, 0, 0, 2].into(), 1500)], 9899);
//! let mut ends = [
//!     Association::connecting(config.clone(), &client, Secrets::new([1; 32]))?,
//!     Association::listening(config, &server, Secrets::new([2; 32]))?,
//! ];
//! let mut now = Time::ZERO;
//! ends[0].connect(now);
//!
//! let mut messages = Vec::new();
//! while messages.len() < 2 {
//!     let outputs = ends.each_mut().map(|end| Collected::from(end, now));
//!     if outputs[0].events.contains(&Event::Connected) {
//!         ends[0].write(now, Write::bytes(9000));
//!         ends[0].write(now, Write::bytes(80));
//!     }
//!     now += Duration::from_millis(10);
//!     for (end, output) in ends.iter_mut().zip(outputs.into_iter().rev()) {
//!         output.packets.into_iter().for_each(|packet| end.handle_packet(now, packet, &Pattern));
//!         end.handle_timeout(now);
//!     }
//!     messages.extend(ends[1].read(now, u64::MAX));
//! }
//! // SCTP keeps the boundaries of messages; the first one took several packets.
//! assert_eq!(messages.iter().map(|message| message.len).collect::<Vec<_>>(), [9000, 80]);
//! # Ok::<(), anabranch_sctp::ConfigError>(())
//! ```
//!
//! # Structure
//! [`Association`] holds a state, and the data shared by all states: the settings, the paths, and the queues
//! of packets and events. Once established, it has a sending half (messages, the scoreboard of chunks, SACKs,
//! losses) and a receiving half (TSNs, reassembly, acknowledgements). Concurrent multipath transfer
//! duplicates none of this: every path has its own queue of transmissions, missing reports, recovery phase
//! and timer, and with one path they are plain SCTP's.
//!
//! The folders follow this: `association` has the states, `sender` and `receiver` the halves, `path` what belongs to one
//! path, and `extensions` what both ends have to support. Files beside them have the data that all of these share.
//!
//! # Cost
//! A chunk costs the same with a hundred or a million others outstanding, on both sides:
//! - the scoreboard is a ring indexed by TSN, so that any chunk is found in constant time;
//! - each transmission is an entry in its path's queue, in order of transmission; entries that no longer matter
//!   are dropped when they come to the front, so nothing is ever searched;
//! - missing reports are not counted chunk by chunk: the n-th largest of the transmission numbers that SACKs newly
//!   acknowledged separates the lost from the rest, and the lost are at the front of the queue;
//! - a SACK is compared with the one before it, and only the difference is worked on; its gap blocks are read once,
//!   and there are no more of them than fit a packet;
//! - the receiver keeps runs of TSNs in a tree, so that a chunk costs a logarithm of the number of gaps.
//!
//! # Differences from a literal reading of the RFC
//! - Congestion windows count whole chunks, as PMDCS in §7.2.1 does. Buffers count payload, as `a_rwnd` does.
//! - Congestion avoidance begins when the window reaches the threshold, as in this project's TCP, not above it
//!   (§7.2.1).
//! - A packet must fit the congestion window whole, unless [`Config::overshoot`] asks for the RFC's leniency.
//! - The retransmission timer follows the oldest transmission in flight, so that §7.2.4 rule 4 needs no
//!   separate code.
//! - Missing reports come from chunks that were sent once; for a retransmitted chunk, it is unknown which transmission
//!   arrived.
//! - A silent path is probed, and times out early while acknowledgements come for other paths (`probing`).
//! - The effects of spurious retransmissions and timeouts are undone. A path that has reordered packets waits
//!   longer than §7.2.4 requires before it counts a chunk as lost.
//! - A SACK that reneges on chunks and acknowledges nothing new counts as overtaken by a later one.
//! - An error on a path that is not active counts against the association only when no path is: with many pairs of
//!   addresses, those that no route connects would otherwise end it.
//! - HB.Max.Burst counts outstanding heartbeats to unconfirmed addresses (§5.4), so that an answer makes room
//!   for the next at once.
//! - A message that is given up includes all its chunks, also those that have arrived; chunks in flight are
//!   waited for. The FORWARD TSN has a separate timer with the path's timeout, in place of T3 (RFC 3758 §3.5
//!   C5).
//! - Data that is unacknowledged when the peer restarts is discarded, and an event reports the number of
//!   bytes to the application (§5.2.4 A).

mod association;
mod common;
mod config;
mod cookie;
mod counters;
mod extensions;
mod inbox;
mod limits;
mod open;
mod origin;
mod path;
mod phase;
mod receiver;
mod requests;
mod sender;
#[cfg(test)]
mod tests;
mod totals;

pub use association::listener::{Answer, Listener};
pub use association::state::Association;
pub use config::{
    Config, ConfigError, ImmediateSack, Paths, RetransmissionPath, SackPath, StreamPaths, StreamScheduler,
};
pub use cookie::CookieKey;
pub use counters::Blocking;
pub use origin::{behind_auth, out_of_the_blue};
