//! Real packets on Linux: the machine's clock, secrets and network devices; the protocol cores on these, an
//! emulator of a scenario's network between hosts, and runs of a scenario in real time ([`user`]).
//!
//! For authors of programs that speak Multipath TCP or SCTP in user space, and of test beds. Read [`Stack`] first, a host
//! on a [`Network`] of [`Tun`] or [`Udp`] devices, and [`Application`], its user; for test beds
//! [`EmulatedNetwork`](emulator::EmulatedNetwork), then [`Emulator`](emulator::Emulator), which attaches it to network
//! namespaces.
//!
//! TUN devices and namespaces require root. The emulated network itself requires nothing, because it has no clock:
//!
//! ```
//! use anabranch_base::time::{Duration, Time};
//! use anabranch_net::emulator::EmulatedNetwork;
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
//!     source: client.address(scenario.ip),
//!     destination: server.address(scenario.ip),
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
//! A client of Multipath TCP on a new TUN device, as root:
//!
//! ```no_run
//! use anabranch_base::time::Duration;
//! use anabranch_endpoint::{Address, Event, Socket, Write};
//! use anabranch_host::{Limits, Protocol};
//! use anabranch_net::{Application, Clock, Network, Stack, Tun, secrets};
//! use anabranch_tcp::mptcp;
//!
//! struct Greeting(bool);
//!
//! impl Application for Greeting {
//!     fn event(&mut self, event: Event) {
//!         self.0 |= event == Event::Connected;
//!     }
//!     fn turn(&mut self, socket: &mut Socket<'_>) -> bool {
//!         let is_due = std::mem::take(&mut self.0);
//!         if is_due {
//!             socket.write(b"hello", Write::bytes(0));
//!             socket.close();
//!         }
//!         is_due
//!     }
//! }
//!
//! let address = Address::new([192, 0, 2, 1].into(), 1500);
//! let mut network = Network::new(Clock::new());
//! network.add(Tun::new("tun0", (address.ip, 24), 1500)?, &[address]);
//! let mut stack = Stack::new(network, Limits::default(), secrets()?);
//! let protocol = Protocol::Mptcp(mptcp::Config::default());
//! stack.connect(&protocol, (&[[192, 0, 2, 2].into()], 80), Greeting(false))?;
//! stack.run(stack.now() + Duration::from_secs(10), |stack| stack.reports().next().is_none())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![cfg(target_os = "linux")]

mod clock;
pub mod counters;
mod device;
pub mod emulator;
pub mod layout;
mod machine;
pub mod meter;
mod namespace;
mod network;
mod secrets;
mod stack;
mod tun;
mod udp;
pub mod user;

pub use clock::Clock;
pub use device::{Device, Fill};
pub use machine::Machine;
pub use namespace::Namespace;
pub use network::Network;
pub use secrets::secrets;
pub use stack::{Accept, Application, Stack};
pub use tun::Tun;
pub use udp::Udp;
