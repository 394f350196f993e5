//! A TUN interface: whole IP packets to and from the machine's own network stack.

use crate::device::{Attachment, Device, Fill, unless_lost};
use anabranch_wire::Packet;
use core::net::IpAddr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use tun_rs::{DeviceBuilder, SyncDevice};

/// Longest IP packet, bytes.
const MAX_PACKET_BYTES: usize = 65_535;

/// A network interface whose packets this program sends and receives. Dropping this value removes the
/// interface.
///
/// The interface has no offloads: packets are in their wire form, with all checksums and no longer than the MTU.
pub struct Tun {
    device: SyncDevice,
    name: String,
    index: u32,
}

impl Tun {
    /// Creates an interface in the network namespace of the calling thread and brings it up. The machine's
    /// own address on it is `address`, in a subnet of `prefix` bits; this program may use all others of the
    /// subnet, and any addresses routed there.
    ///
    /// # Errors
    ///
    /// If the caller lacks the right to do so (`CAP_NET_ADMIN`), without `/dev/net/tun`, if the name is taken, or if the
    /// address or the MTU is refused.
    pub fn new(name: &str, (address, prefix): (IpAddr, u8), mtu: u16) -> io::Result<Self> {
        let builder = DeviceBuilder::new().name(name).mtu(mtu);
        let builder = match address {
            IpAddr::V4(address) => builder.ipv4(address, prefix, None),
            IpAddr::V6(address) => builder.ipv6(address, prefix),
        };
        let device = builder.build_sync()?;
        device.set_nonblocking(true)?;
        let index = device.if_index()?;
        Ok(Self { device, name: name.to_owned(), index })
    }
}

impl Device for Tun {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn attachment(&self) -> Attachment {
        Attachment::Interface(self.index)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }

    fn receive(&mut self, bytes: &mut Vec<u8>) -> io::Result<Option<Packet>> {
        loop {
            bytes.resize(MAX_PACKET_BYTES, 0);
            let Some(len) = unless_lost(self.device.recv(bytes))? else { return Ok(None) };
            bytes.truncate(len);
            if let Ok(packet) = Packet::parse(bytes) {
                return Ok(Some(packet));
            }
        }
    }

    fn send(&mut self, packet: &Packet, fill: Fill<'_>, bytes: &mut Vec<u8>) -> io::Result<()> {
        bytes.clear();
        packet.emit_with(bytes, fill);
        unless_lost(self.device.send(bytes)).map(drop)
    }
}
