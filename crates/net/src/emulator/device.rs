//! The interfaces by which hosts are attached to the emulated network.

use super::packet::RawPacket;
use super::segments::{Train, split_output};
use crate::device::unless_lost;
use crate::namespace::Namespace;
use crate::offload::MAX_OUTPUT_BYTES;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use std::io::{self, IoSlice};
use tun_rs::{DeviceBuilder, SyncDevice};

/// A TUN interface in the network namespace of a host.
pub struct Port {
    device: SyncDevice,
    /// True if the kernel leaves checksums and the segmentation of long packets to this program.
    offloads: bool,
    /// Index of the interface in its namespace.
    index: u32,
}

impl Port {
    /// Creates an interface in a namespace. It has no address and is down, until configured. Its transmit
    /// queue should be longer than any burst of the host: a packet that does not fit is lost before it enters
    /// the network.
    ///
    /// # Errors
    ///
    /// If the caller lacks the right to do so, without `/dev/net/tun`, if the name is taken, or if offloads are requested
    /// and the kernel has none.
    pub fn open(namespace: &Namespace, name: &str, mtu: u16, offloads: bool) -> io::Result<Self> {
        let (device, index) = namespace.run(|| {
            let builder = DeviceBuilder::new().name(name).mtu(mtu).enable(false);
            let device = builder.offload(offloads).build_sync()?;
            device.set_nonblocking(true)?;
            let index = device.if_index()?;
            Ok((device, index))
        })?;
        Ok(Self { device, offloads, index })
    }

    /// Index of the interface in its namespace.
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// The file descriptor that becomes readable when a packet has arrived.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }

    /// Reads the next output of the host, if there is any, and passes each packet in it to `packet`. `buffer`
    /// creates the buffer of a packet; `scratch` has room for the longest output.
    ///
    /// # Errors
    ///
    /// If the interface was removed.
    pub fn receive(
        &self,
        scratch: &mut Scratch,
        mut buffer: impl FnMut() -> Vec<u8>,
        mut packet: impl FnMut(RawPacket),
    ) -> io::Result<bool> {
        let Some(len) = unless_lost(self.device.recv(&mut scratch.0))? else { return Ok(false) };
        let handed = &scratch.0[..len];
        if self.offloads {
            split_output(handed, buffer, packet);
        } else {
            let mut bytes = buffer();
            bytes.extend_from_slice(handed);
            // Data that is not an IP packet is dropped.
            RawPacket::new(bytes).map_or_else(drop, &mut packet);
        }
        Ok(true)
    }

    /// Passes a train of packets to the host; it is lost if the host is down or has no room. Without offloads
    /// a train is one packet.
    ///
    /// # Errors
    ///
    /// If the interface was removed.
    pub fn send(&self, train: &mut Train) -> io::Result<()> {
        let Some((offload, parts)) = train.parts() else { return Ok(()) };
        let offload = self.offloads.then_some(offload.as_slice());
        let slices: Vec<_> = offload.into_iter().chain(parts).map(IoSlice::new).collect();
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
    /// A new buffer.
    pub fn new() -> Self {
        Self(vec![0; MAX_OUTPUT_BYTES].into())
    }
}
