//! The stack behind the shared-object interface of packetdrill, with a virtual clock.
//!
//! packetdrill runs scripts of system calls and packets. With `--so_filename` it calls a library instead of the kernel;
//! this crate is such a library. Read [`Machine`] first: sockets over a [`Host`](anabranch_host::Host), packets in memory,
//! and a virtual clock. The clock advances only when the caller asks for the time, sleeps or waits for a packet. So a script
//! takes no real time, and repeats exactly. [`abi`] has the interface of C; `tests/packetdrill.py` runs scripts.
//!
//! A connection to a peer that the caller plays:
//!
//! ```
//! use anabranch_packetdrill::{Machine, Settings};
//! use anabranch_wire::{Body, Packet};
//!
//! let mut machine = Machine::new(Settings::default());
//! let socket = machine.socket(libc::SOCK_STREAM, libc::IPPROTO_TCP)?;
//! machine.set_nonblocking(socket, true)?;
//! let peer = "192.0.2.1:8080".parse().expect("an address with a port");
//! assert_eq!(machine.connect(socket, peer), Err(libc::EINPROGRESS));
//!
//! let (bytes, _) = machine.next_packet().expect("a SYN");
//! let Body::Tcp(syn) = Packet::parse(&bytes).expect("a packet").body else { panic!("TCP") };
//! assert_eq!((syn.destination_port, syn.options.mss), (8080, Some(1460)));
//! # Ok::<(), i32>(())
//! ```
#![cfg(target_os = "linux")]

pub mod abi;
mod calls;
mod connection;
mod info;
mod machine;
mod options;
mod push;
mod settings;
mod shared;
mod socket;

pub use machine::Machine;
pub use settings::Settings;
pub use shared::Shared;

/// A number of `errno.h`.
pub type Errno = i32;
