//! The devices of a host, and waiting for their packets.

use crate::carrier::Carriers;
use crate::clock::{Clock, timespec};
use crate::device::{Attachment, Device, Fill};
use crate::tap::Tap;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::Address;
use anabranch_wire::Packet;
use core::net::IpAddr;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::BorrowedFd;

/// Maximum number of packets of an interface before the next one is read: those that one SACK acknowledges. An interface
/// without packets costs a system call. With a larger number, data of one path leaves more gaps before that of another.
const MAX_IN_A_ROW: usize = 8;

/// A device and the addresses of this host that use it.
struct Interface {
    device: Box<dyn Device>,
    attachment: Attachment,
    addresses: Vec<Address>,
    /// True if the device has failed permanently, for example because its interface was deleted.
    failed: bool,
}

/// All devices of a host, with one clock. A packet leaves by the device of its source address.
///
/// If a device fails, its packets and addresses are lost, and the host continues.
pub struct Network {
    clock: Clock,
    interfaces: Vec<Interface>,
    /// Addresses that the application has removed.
    removed: Vec<IpAddr>,
    /// `None` if the state of interfaces is not followed, so that all devices count as up.
    carriers: Option<Carriers>,
    /// True if the usable addresses may have changed.
    changed: bool,
    /// Index of the interface that is read next.
    next_interface: usize,
    /// Number of packets that this interface has given in a row.
    in_a_row: usize,
    scratch: Vec<u8>,
    tap: Option<Tap>,
}

impl Network {
    /// A network without devices.
    pub const fn new(clock: Clock) -> Self {
        Self {
            clock,
            interfaces: Vec::new(),
            removed: Vec::new(),
            carriers: None,
            changed: false,
            next_interface: 0,
            in_a_row: 0,
            scratch: Vec::new(),
            tap: None,
        }
    }

    /// Adds a device; packets from these addresses leave by it.
    pub fn add(&mut self, device: impl Device + 'static, addresses: &[Address]) {
        self.add_boxed(Box::new(device), addresses.to_vec());
    }

    pub(crate) fn add_boxed(&mut self, device: Box<dyn Device>, addresses: Vec<Address>) {
        let attachment = device.attachment();
        self.interfaces.push(Interface { device, attachment, addresses, failed: false });
        let kernel = self.interfaces.iter().filter_map(|interface| interface.device.kernel_address());
        let kernel: Vec<IpAddr> = kernel.collect();
        self.interfaces.iter_mut().for_each(|interface| interface.device.set_kernel_addresses(&kernel));
        self.changed = true;
    }

    /// Follows the state of the machine's interfaces and addresses from now on: the addresses of a device that is down
    /// are not usable.
    ///
    /// # Errors
    ///
    /// If the kernel has no `rtnetlink(7)`.
    pub fn follow_carriers(&mut self) -> io::Result<()> {
        self.carriers = Some(Carriers::follow()?);
        self.changed = true;
        Ok(())
    }

    /// Writes all packets to a capture (pcapng) from now on.
    ///
    /// # Errors
    ///
    /// If the header cannot be written.
    pub fn capture(&mut self, out: Box<dyn io::Write + Send>) -> io::Result<()> {
        self.tap = Some(Tap::new(out, self.clock)?);
        Ok(())
    }

    /// Ends the capture.
    ///
    /// # Errors
    ///
    /// The first error that occurred when the capture was written.
    pub fn finish_capture(&mut self) -> io::Result<()> {
        self.tap.take().map_or(Ok(()), Tap::finish)
    }

    /// All addresses, in the order of the devices.
    pub fn addresses(&self) -> impl Iterator<Item = Address> + '_ {
        self.interfaces.iter().flat_map(|interface| interface.addresses.iter().copied())
    }

    /// The addresses whose devices are up and that were not removed, if they may have changed since the last call.
    pub fn changed_addresses(&mut self) -> Option<Vec<Address>> {
        if !core::mem::take(&mut self.changed) {
            return None;
        }
        let Self { interfaces, carriers, removed, .. } = self;
        let up = |interface: &&Interface| {
            let carried = carriers.as_ref().is_none_or(|carriers| carriers.has(interface.attachment));
            carried && !interface.failed
        };
        let addresses =
            interfaces.iter().filter(up).flat_map(|interface| interface.addresses.iter().copied());
        Some(addresses.filter(|address| !removed.contains(&address.ip)).collect())
    }

    /// Stops using an address. Returns false if no device has it.
    pub fn remove_address(&mut self, ip: IpAddr) -> bool {
        let known = self.addresses().any(|address| address.ip == ip);
        if known && !self.removed.contains(&ip) {
            self.removed.push(ip);
            self.changed = true;
        }
        known
    }

    /// Uses a removed address again. Returns false if no device has it.
    pub fn restore_address(&mut self, ip: IpAddr) -> bool {
        self.removed.retain(|removed| *removed != ip);
        self.changed = true;
        self.addresses().any(|address| address.ip == ip)
    }

    /// The time now.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// The next received packet of any device; `bytes`, whose contents are replaced, gets its payload.
    pub fn receive(&mut self, bytes: &mut Vec<u8>) -> Option<Packet> {
        if self.in_a_row >= MAX_IN_A_ROW {
            self.advance();
        }
        for _ in 0..self.interfaces.len() {
            let interface = &mut self.interfaces[self.next_interface];
            if interface.failed {
                self.advance();
                continue;
            }
            match interface.device.receive(bytes) {
                Ok(None) => self.advance(),
                Ok(Some(packet)) => {
                    self.in_a_row += 1;
                    if let Some(tap) = &mut self.tap {
                        tap.received(self.next_interface, &interface.device.name(), (&packet, bytes));
                    }
                    return Some(packet);
                }
                Err(_) => {
                    (interface.failed, self.changed) = (true, true);
                    self.advance();
                }
            }
        }
        None
    }

    /// Reads the next interface from now on.
    fn advance(&mut self) {
        (self.next_interface, self.in_a_row) = ((self.next_interface + 1) % self.interfaces.len(), 0);
    }

    /// Sends a packet with payload bytes from `fill`, at the latest when [`flush`](Self::flush) is called. A packet from an
    /// address without a device is dropped.
    pub fn send(&mut self, packet: &Packet, fill: Fill<'_>) {
        let Self { interfaces, scratch, .. } = self;
        let has = |(_, interface): &(usize, &mut Interface)| {
            !interface.failed && interface.addresses.iter().any(|address| address.ip == packet.source)
        };
        let Some((at, interface)) = interfaces.iter_mut().enumerate().find(has) else { return };
        if let Some(tap) = &mut self.tap {
            tap.sent(at, &interface.device.name(), (packet, &mut *fill));
        }
        if interface.device.send(packet, fill, scratch).is_err() {
            (interface.failed, self.changed) = (true, true);
        }
    }

    /// Sends the packets that the devices have kept.
    pub fn flush(&mut self) {
        for interface in self.interfaces.iter_mut().filter(|interface| !interface.failed) {
            if interface.device.flush().is_err() {
                (interface.failed, self.changed) = (true, true);
            }
        }
    }

    /// Waits until a packet has arrived, the addresses have changed, or `wake` is readable; or until `due`.
    ///
    /// # Errors
    ///
    /// If the kernel cannot wait.
    pub fn wait(&mut self, due: Time, wake: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let left = due.since(self.now());
        if left == Duration::ZERO || self.changed {
            return Ok(());
        }
        let working = self.interfaces.iter().filter(|interface| !interface.failed);
        let devices = working.map(|interface| interface.device.fd());
        let fds = self.carriers.iter().map(Carriers::fd).chain(wake).chain(devices);
        let mut fds: Vec<PollFd<'_>> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        match poll(&mut fds, Some(&timespec(left))) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let notified = self.carriers.is_some() && fds.first().is_some_and(|fd| !fd.revents().is_empty());
        if notified && let Some(carriers) = &mut self.carriers {
            self.changed |= carriers.refresh()?;
        }
        Ok(())
    }
}
