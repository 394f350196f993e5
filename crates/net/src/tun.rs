//! A TUN interface: whole IP packets to and from the machine's own network stack.

use crate::device::{Attachment, Device, Fill, unless_lost};
use crate::emulator::split_output;
use crate::offload::{self, MAX_OUTPUT_BYTES};
use crate::train::{Train, Uncut};
use anabranch_wire::{Packet, ParseError};
use core::net::IpAddr;
use rustix::buffer::spare_capacity;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use tun_rs::{DeviceBuilder, SyncDevice};

/// A network interface whose packets this program sends and receives. Dropping this value removes the
/// interface.
///
/// The interface has the offloads of `IFF_VNET_HDR`: the kernel passes consecutive segments of a TCP connection as one
/// packet of up to 64 KiB with an unfinished checksum, and gets those of this stack in the same form; those with mappings
/// of Multipath TCP only if they are for its own addresses at such interfaces of this host. A capture of received packets
/// shows the long ones, as on a network card with such offloads.
pub struct Tun {
    device: SyncDevice,
    name: String,
    /// The kernel's own address.
    address: IpAddr,
    index: u32,
    train: Train,
    /// Datagrams of a long packet that follow the one returned last.
    datagrams: VecDeque<Vec<u8>>,
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
        let device = builder.offload(true).build_sync()?;
        device.set_nonblocking(true)?;
        let index = device.if_index()?;
        let name = name.to_owned();
        let train = Train::new(Uncut::At(vec![address]));
        Ok(Self { device, name, address, index, train, datagrams: VecDeque::new() })
    }

    /// The packet in `output`, which begins with the offload header. The datagrams behind the first one of a long packet are
    /// kept.
    fn parse(&mut self, output: &mut Vec<u8>) -> Result<Packet, ParseError> {
        if let Some(parsed) = offload::parse_output(output) {
            return parsed;
        }
        split_output(output, Vec::new, |packet| {
            let mut finished = Vec::new();
            packet.append_finished(&mut finished);
            self.datagrams.push_back(finished);
        });
        *output = self.datagrams.pop_front().unwrap_or_default();
        Packet::parse(output)
    }
}

impl Device for Tun {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn attachment(&self) -> Attachment {
        Attachment::Interface(self.index)
    }

    fn kernel_address(&self) -> Option<IpAddr> {
        Some(self.address)
    }

    fn set_kernel_addresses(&mut self, addresses: &[IpAddr]) {
        self.train.set_uncut(Uncut::At(addresses.to_vec()));
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }

    fn receive(&mut self, bytes: &mut Vec<u8>) -> io::Result<Option<Packet>> {
        loop {
            let parsed = if let Some(datagram) = self.datagrams.pop_front() {
                *bytes = datagram;
                Packet::parse(bytes)
            } else {
                bytes.clear();
                bytes.reserve(MAX_OUTPUT_BYTES);
                let read = rustix::io::read(self.device.as_fd(), spare_capacity(bytes));
                if unless_lost(read.map_err(io::Error::from))?.is_none() {
                    return Ok(None);
                }
                self.parse(bytes)
            };
            if let Ok(packet) = parsed {
                return Ok(Some(packet));
            }
        }
    }

    fn send(&mut self, packet: &Packet, fill: Fill<'_>, _scratch: &mut Vec<u8>) -> io::Result<()> {
        self.train.send(packet, fill, |bytes| write(&self.device, bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.train.flush(|bytes| write(&self.device, bytes))
    }
}

/// Passes a packet with its offload header to the kernel.
fn write(device: &SyncDevice, bytes: &[u8]) -> io::Result<()> {
    unless_lost(rustix::io::write(device.as_fd(), bytes).map_err(io::Error::from)).map(drop)
}
