//! The devices of a host, and waiting for their packets.

use crate::clock::{Clock, timespec};
use crate::device::{Device, Fill};
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::Address;
use anabranch_wire::Packet;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::io;

/// A device and the addresses of this host that use it.
struct Interface {
    device: Box<dyn Device>,
    addresses: Vec<Address>,
}

/// All devices of a host, by one clock. A packet leaves by the device of its source address.
pub struct Network {
    clock: Clock,
    interfaces: Vec<Interface>,
    /// Index of the interface that is polled first; every packet advances it.
    next_interface: usize,
    scratch: Vec<u8>,
}

impl Network {
    /// A network without devices.
    pub fn new(clock: Clock) -> Self {
        Self { clock, interfaces: Vec::new(), next_interface: 0, scratch: Vec::new() }
    }

    /// Adds a device; packets from these addresses leave by it.
    pub fn add(&mut self, device: impl Device + 'static, addresses: &[Address]) {
        self.interfaces.push(Interface { device: Box::new(device), addresses: addresses.to_vec() });
    }

    /// All addresses, in the order of the devices.
    pub fn addresses(&self) -> impl Iterator<Item = Address> + '_ {
        self.interfaces.iter().flat_map(|interface| interface.addresses.iter().copied())
    }

    /// The time now.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// The next received packet of any device; `bytes`, whose contents are replaced, gets its payload.
    ///
    /// # Errors
    ///
    /// If a device fails or was removed.
    pub fn receive(&mut self, bytes: &mut Vec<u8>) -> io::Result<Option<Packet>> {
        for _ in 0..self.interfaces.len() {
            self.next_interface = (self.next_interface + 1) % self.interfaces.len();
            let packet = self.interfaces[self.next_interface].device.receive(bytes)?;
            if packet.is_some() {
                return Ok(packet);
            }
        }
        Ok(None)
    }

    /// Sends a packet with payload bytes from `fill`. A packet from an address without a device is dropped.
    ///
    /// # Errors
    ///
    /// If a device fails or was removed.
    pub fn send(&mut self, packet: &Packet, fill: Fill<'_>) -> io::Result<()> {
        let has = |interface: &&mut Interface| {
            interface.addresses.iter().any(|address| address.ip == packet.source)
        };
        let device = self.interfaces.iter_mut().find(has);
        device.map_or(Ok(()), |interface| interface.device.send(packet, fill, &mut self.scratch))
    }

    /// Waits until a packet has arrived, or until `due`.
    ///
    /// # Errors
    ///
    /// If a device fails or was removed.
    pub fn wait(&self, due: Time) -> io::Result<()> {
        let left = due.since(self.now());
        if left == Duration::ZERO {
            return Ok(());
        }
        let fds = self.interfaces.iter().map(|interface| interface.device.fd());
        let mut fds: Vec<PollFd<'_>> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        match poll(&mut fds, Some(&timespec(left))) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
