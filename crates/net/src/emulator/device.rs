//! The interfaces by which hosts reach the emulated network.

use super::packet::RawPacket;
use super::segments::{NOTE, Train, cut};
use crate::device::unless_lost;
use crate::namespace::Namespace;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use std::io::{self, IoSlice};
use tun_rs::{DeviceBuilder, SyncDevice};

/// Longest IP packet, bytes.
const LONGEST: usize = 65_535;

/// A TUN interface in the network namespace of a host.
pub struct Port {
    device: SyncDevice,
    /// The kernel leaves checksums and the cutting of long packets to the other end.
    offloads: bool,
}

impl Port {
    /// Makes an interface in a namespace. It has no address and is down, until somebody sees to that. Whoever does should
    /// make its transmit queue longer than any burst of the host: a packet that finds no room there is lost before the
    /// network begins.
    ///
    /// # Errors
    /// Without the right to do so, without `/dev/net/tun`, if the name is taken, or if the kernel has no offloads and they
    /// are asked for.
    pub fn open(namespace: &Namespace, name: &str, mtu: u16, offloads: bool) -> io::Result<Self> {
        let device = namespace.run(|| {
            let builder = DeviceBuilder::new().name(name).mtu(mtu).enable(false);
            let device = builder.offload(offloads).build_sync()?;
            device.set_nonblocking(true)?;
            Ok(device)
        })?;
        Ok(Self { device, offloads })
    }

    /// What becomes readable when a packet has come.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }

    /// Takes what the host sends next, if it has sent anything, and hands on each of its packets, made in a `buffer`;
    /// `scratch` has room for the longest.
    ///
    /// # Errors
    /// If the interface is gone.
    pub fn receive(
        &self,
        scratch: &mut Scratch,
        mut buffer: impl FnMut() -> Vec<u8>,
        mut packet: impl FnMut(RawPacket),
    ) -> io::Result<bool> {
        let Some(len) = unless_lost(self.device.recv(&mut scratch.0))? else { return Ok(false) };
        let handed = &scratch.0[..len];
        if self.offloads {
            cut(handed, buffer, packet);
        } else {
            let mut bytes = buffer();
            bytes.extend_from_slice(handed);
            // What is no packet of IP goes nowhere.
            RawPacket::new(bytes).map_or_else(drop, &mut packet);
        }
        Ok(true)
    }

    /// Hands a train of packets to the host, which may be down or have no room for it. Without offloads a train is one
    /// packet.
    ///
    /// # Errors
    /// If the interface is gone.
    pub fn send(&self, train: &mut Train) -> io::Result<()> {
        let Some((note, parts)) = train.parts() else { return Ok(()) };
        let note = self.offloads.then_some(note.as_slice());
        let slices: Vec<_> = note.into_iter().chain(parts).map(IoSlice::new).collect();
        match rustix::io::writev(self.device.as_fd(), &slices) {
            // The host has taken the interface down.
            Err(Errno::IO) => Ok(()),
            result => unless_lost(result.map_err(io::Error::from)).map(drop),
        }
    }
}

/// Room for a packet of any length.
pub struct Scratch(Box<[u8]>);

impl Scratch {
    /// Such room.
    pub fn new() -> Self {
        Self(vec![0; NOTE + LONGEST].into())
    }
}
