//! The interfaces by which hosts reach the emulated network.

use crate::device::unless_lost;
use crate::namespace::Namespace;
use rustix::fd::{AsFd, BorrowedFd};
use std::io;
use tun_rs::{DeviceBuilder, SyncDevice};

/// Longest IP packet, bytes.
const LONGEST: usize = 65_535;

/// A TUN interface in the network namespace of a host. Packets are those of a wire, with all checksums and no longer than
/// the MTU.
pub struct Port {
    device: SyncDevice,
}

impl Port {
    /// Makes an interface in a namespace. It has no address and is down, until somebody sees to that. Whoever does should
    /// make its transmit queue longer than any burst of the host: a packet that finds no room there is lost before the
    /// network begins.
    ///
    /// # Errors
    /// Without the right to do so, without `/dev/net/tun`, or if the name is taken.
    pub fn open(namespace: &Namespace, name: &str, mtu: u16) -> io::Result<Self> {
        let device = namespace.run(|| {
            let device = DeviceBuilder::new().name(name).mtu(mtu).enable(false).build_sync()?;
            device.set_nonblocking(true)?;
            Ok(device)
        })?;
        Ok(Self { device })
    }

    /// What becomes readable when a packet has come.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }

    /// The next packet that the host sends, behind what `buffer` holds; `scratch` has room for the longest.
    ///
    /// # Errors
    /// If the interface is gone.
    pub fn receive(&self, scratch: &mut Scratch, buffer: &mut Vec<u8>) -> io::Result<bool> {
        let received = unless_lost(self.device.recv(&mut scratch.0))?;
        if let Some(len) = received {
            buffer.extend_from_slice(&scratch.0[..len]);
        }
        Ok(received.is_some())
    }

    /// Hands a packet to the host, which may be down or have no room for it.
    ///
    /// # Errors
    /// If the interface is gone.
    pub fn send(&self, bytes: &[u8]) -> io::Result<()> {
        match self.device.send(bytes) {
            // The host has taken the interface down.
            Err(error) if rustix::io::Errno::from_io_error(&error) == Some(rustix::io::Errno::IO) => Ok(()),
            result => unless_lost(result).map(drop),
        }
    }
}

/// Room for a packet of any length.
pub struct Scratch(Box<[u8]>);

impl Scratch {
    /// Such room.
    pub fn new() -> Self {
        Self(vec![0; LONGEST].into())
    }
}
