//! Real packets on Linux: the machine's clock, secrets and network devices; the protocol cores on these, an
//! emulator of a scenario's network between hosts, and runs of a scenario in real time ([`user`]).
//!
//! For authors of programs that speak Multipath TCP or SCTP in user space, and of test beds. Read [`Stack`] first, the handle
//! to a host on a [`Network`] of [`Tun`] or [`Udp`] devices, then [`Stream`] and [`Association`], its connections.
//! [`Engine`] is the same host without a thread, for applications that are called at every event. For test beds read
//! [`EmulatedNetwork`](emulator::EmulatedNetwork), then [`Emulator`](emulator::Emulator), which attaches it to network
//! namespaces.
//!
//! TUN devices and namespaces require root. The emulated network itself requires nothing, because it has no clock:
//!
//! ```
//! use anabranch_base::time::{Duration, Time};
//! use anabranch_net::emulator::EmulatedNetwork;
//! use anabranch_netem::IpVersion;
//! use anabranch_wire::{Body, Ecn, Packet, udp};
//!
//! let text = r#"
//! duration = "10 s"
//!
//! [[link]]
//! name = "wire"
//! between = ["client", "server"]
//! rate = "10 Mbit/s"
//! delay = "20 ms"
//!
//! [[flow]]
//! from = "client"
//! to = "server"
//! protocol = "tcp"
//! "#;
//! let scenario = anabranch_scenario::parse(text, "wire.toml", &[])?;
//! let mut emulated = EmulatedNetwork::new(&scenario, 1)?;
//! let [client, server] = [0, 1].map(|end| emulated.network().interfaces(0, end)[0]);
//!
//! let packet = Packet {
//!     source: client.address(IpVersion::V4),
//!     destination: server.address(IpVersion::V4),
//!     ecn: Ecn::NotEct,
//!     body: Body::Udp(udp::Datagram::default()),
//! };
//! let mut bytes = Vec::new();
//! packet.emit(&mut bytes);
//! emulated.advance(Time::ZERO, &mut |_| {});
//! emulated.send(Time::ZERO, client, bytes);
//!
//! let mut arrivals = Vec::new();
//! let due = emulated.next_timeout().expect("the packet is under way");
//! emulated.advance(due, &mut |arrived| arrivals.push((arrived.to, arrived.at)));
//! // 28 bytes take 22.4 µs, and the propagation 20 ms.
//! assert_eq!(arrivals, [(server, Time::ZERO + Duration::from_nanos(20_022_400))]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Two hosts over UDP (RFC 6951) that exchange a message by CMT-SCTP, without root:
//!
//! ```
//! use anabranch_endpoint::Address;
//! use anabranch_host::{Backlog, Limits, Listening, Protocol};
//! use anabranch_net::{Clock, Message, Network, Stack, Stop, Udp};
//! use anabranch_settings::sctp::Config;
//! use anabranch_wire::sctp::encapsulation::Ports;
//! use core::net::IpAddr;
//! use std::time::Duration;
//!
//! // A host with these addresses, and its protocol.
//! fn host(addresses: &[IpAddr]) -> std::io::Result<(Stack, Protocol)> {
//!     let mut network = Network::new(Clock::new());
//!     for &ip in addresses {
//!         network.add(Udp::bind((ip, 9899).into())?, &[Address::new(ip, 1500)]);
//!     }
//!     let config = Config::for_cmt().encapsulation(Some(Ports::default()));
//!     Ok((Stack::start(network, Limits::default())?, Protocol::Sctp(Box::new(config))))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let [here, there] = [[1, 2], [3, 4]].map(|hosts| hosts.map(|n| IpAddr::from([127, 0, 113, n])));
//! let (server, protocol) = host(&there)?;
//! let listener = server.listen(Listening { protocol, port: 7, backlog: Backlog::default() }).await?;
//!
//! let (client, protocol) = host(&here)?;
//! let association = client.associate(protocol, &there, 7).await?;
//! association.send(Message { ppid: 5, ..Message::new(b"hello".to_vec()) }).await?;
//!
//! let accepted = listener.accept_association().await?;
//! let message = accepted.receive().await?.expect("a message");
//! assert_eq!((message.bytes.as_slice(), message.ppid), (b"hello".as_slice(), 5));
//! client.stop(Stop::Drain(Duration::from_secs(5))).await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`Stack::connect`] and [`Listener::accept`] do the same for Multipath TCP over [`Tun`] devices
//! (`examples/mptcp_client.rs`).
#![cfg(target_os = "linux")]

mod carrier;
mod clock;
pub mod counters;
mod device;
mod devices;
pub mod emulator;
mod engine;
pub mod layout;
mod machine;
mod memory;
pub mod meter;
mod namespace;
mod netlink;
mod network;
mod offload;
mod recording_file;
mod secrets;
mod stack;
mod tap;
mod train;
#[cfg(test)]
mod train_pair_tests;
mod translators;
mod tun;
pub mod tunnel;
mod udp;
pub mod user;

pub use clock::Clock;
pub use device::{Attachment, Device, Fill};
pub use devices::{Devices, DevicesError, Interface};
pub use engine::{Acceptor, Application, Engine};
pub use machine::Machine;
pub use memory::Memory;
pub use namespace::Namespace;
pub use network::Network;
pub use recording_file::create_recording;
pub use secrets::secrets;
pub use stack::{
    Association, AssociationStream, ConnectionReport, EndBytes, Error, Listener, Message, Queue, Received,
    Stack, Stop, Stopped, Stream, WriteEnd,
};
pub use tun::Tun;
pub use udp::Udp;
