//! TCP and Multipath TCP without input or output.
//!
//! For authors of a stack or a simulator. [`tcp::Connection`] is TCP alone; [`mptcp::Connection`] combines several
//! subflows of TCP. Read the [`Config`](tcp::Config) of either next. Both implement
//! [`Endpoint`](anabranch_endpoint::Endpoint), whose page states the order of calls. Neither owns a clock, socket,
//! thread or random source.
//!
//! A connection over a wire with a delay of ten milliseconds:
//!
//! ```
//! use anabranch_base::time::{Duration, Time};
//! use anabranch_endpoint::drive::Collected;
//! use anabranch_endpoint::{Endpoint, Ends, Event, Secrets, Write};
//! use anabranch_tcp::tcp::{Config, Connection};
//! use anabranch_wire::Pattern;
//!
//! let (a, b) = (([10, 0, 0, 1], 40_000).into(), ([10, 0, 0, 2], 80).into());
//! let client = Ends::connecting(a, 1500, b);
//! let server = Ends::connecting(b, 1500, a);
//! let mut ends = [
//!     Connection::connecting(Config::default(), &client, Secrets::new([1; 32])),
//!     Connection::listening(Config::default(), &server, Secrets::new([2; 32])),
//! ];
//! let mut now = Time::ZERO;
//! ends[0].connect(now);
//!
//! let (mut written, mut received) = (0, 0);
//! while received < 50_000 {
//!     let outputs = ends.each_mut().map(|end| Collected::from(end, now));
//!     if outputs[0].events.contains(&Event::Connected) {
//!         written = ends[0].write(now, Write::bytes(50_000));
//!     }
//!     now += Duration::from_millis(10);
//!     for (end, output) in ends.iter_mut().zip(outputs.into_iter().rev()) {
//!         output.packets.into_iter().for_each(|packet| end.handle_packet(now, packet, &Pattern));
//!         end.handle_timeout(now);
//!     }
//!     received += ends[1].read(now, u64::MAX).map_or(0, |delivery| delivery.len);
//! }
//! assert_eq!((written, received), (50_000, 50_000));
//! // A path of one round trip: two delays.
//! let path = ends[0].report().paths[0];
//! assert_eq!(path.srtt, Some(Duration::from_millis(20)));
//! ```
//!
//! Multipath TCP between hosts with two addresses each; the path manager opens a subflow for each pair:
//!
//! ```
//! use anabranch_base::time::{Duration, Time};
//! use anabranch_endpoint::drive::Collected;
//! use anabranch_endpoint::{Address, Endpoint, Ends, Secrets, Write};
//! use anabranch_multipath::path_manager;
//! use anabranch_tcp::mptcp::{Config, Connection};
//! use anabranch_wire::Pattern;
//!
//! let addresses = |host: u8| [0, 1].map(|link| Address::new([10, 0, link, host].into(), 1500)).to_vec();
//! let client =
//!     Ends { local: addresses(1), local_port: 40_000, remote: vec![[10, 0, 0, 2].into()], remote_port: 80 };
//! let server = Ends::listening(addresses(2), 80);
//! let config = Config::default().path_manager(path_manager::parse("disjoint")?);
//! let mut ends = [
//!     Connection::connecting(config.clone(), &client, Secrets::new([1; 32])),
//!     Connection::listening(config, &server, Secrets::new([2; 32])),
//! ];
//! let mut now = Time::ZERO;
//! ends[0].connect(now);
//!
//! let (mut written, mut received) = (0, 0);
//! while received < 1_000_000 {
//!     written += ends[0].write(now, Write::bytes(1_000_000 - written));
//!     let outputs = ends.each_mut().map(|end| Collected::from(end, now));
//!     now += Duration::from_millis(10);
//!     for (end, output) in ends.iter_mut().zip(outputs.into_iter().rev()) {
//!         output.packets.into_iter().for_each(|packet| end.handle_packet(now, packet, &Pattern));
//!         end.handle_timeout(now);
//!     }
//!     received += ends[1].read(now, u64::MAX).map_or(0, |delivery| delivery.len);
//! }
//! assert!(!ends[0].is_fallback());
//! let report = ends[0].report();
//! assert_eq!(report.paths.len(), 2);
//! assert!(report.paths.iter().all(|path| path.usable && path.counters.bytes_acked > 0));
//! # Ok::<(), String>(())
//! ```

pub mod mptcp;
pub mod tcp;
