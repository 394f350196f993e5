//! Interfaces and addresses of the machine that are up, from `rtnetlink(7)`.

use crate::device::Attachment;
use crate::netlink::{Lists, attributes, word};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Multicast groups of changes of interfaces and of IPv4 and IPv6 addresses.
const MULTICAST_GROUPS: u32 = 0x1 | 0x10 | 0x100;
/// An interface, and a request for all of them (`RTM_NEWLINK`, `RTM_GETLINK`).
const NEW_LINK: u16 = 16;
const GET_LINK: u16 = 18;
/// An address, and a request for all of them (`RTM_NEWADDR`, `RTM_GETADDR`).
const NEW_ADDRESS: u16 = 20;
const GET_ADDRESS: u16 = 22;
/// Lengths of `struct ifinfomsg` and `struct ifaddrmsg`.
const LINK_BYTES: usize = 16;
const ADDRESS_BYTES: usize = 8;
/// Attributes of an address: the address, which is the peer's on a point-to-point interface; and the machine's own
/// address.
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// `IFF_UP | IFF_RUNNING`, and `IFF_LOOPBACK`.
const UP_AND_RUNNING: u32 = 0x41;
const LOOPBACK_FLAG: u32 = 0x8;

/// An address of the machine and the length of its prefix in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Assigned {
    address: IpAddr,
    prefix: u8,
    interface: u32,
}

/// Interfaces and addresses of the network namespace of the thread that created this value.
///
/// After each notification the whole state is read, so that notifications that the kernel dropped cause no loss.
#[derive(Debug)]
pub struct Carriers {
    notifications: OwnedFd,
    lists: Lists,
    /// Flags of an interface by its index.
    interfaces: BTreeMap<u32, u32>,
    addresses: Vec<Assigned>,
}

impl Carriers {
    /// Reads the state and subscribes to its changes.
    ///
    /// # Errors
    /// If the kernel refuses the sockets.
    pub fn follow() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let notifications = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&notifications, &SocketAddrNetlink::new(0, MULTICAST_GROUPS))?;
        let lists = Lists::open(None)?;
        let mut new = Self { notifications, lists, interfaces: BTreeMap::new(), addresses: Vec::new() };
        new.read()?;
        Ok(new)
    }

    /// Readable after a change.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.notifications.as_fd()
    }

    /// Reads the state again if there was a notification. Returns whether there was one.
    ///
    /// # Errors
    /// If the kernel refuses the requests.
    pub fn refresh(&mut self) -> io::Result<bool> {
        let (mut buffer, mut any) = ([0; 16], false);
        loop {
            match recv(&self.notifications, &mut buffer, RecvFlags::TRUNC) {
                Ok(_) | Err(Errno::NOBUFS | Errno::INTR) => any = true,
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
        if any {
            self.read()?;
        }
        Ok(any)
    }

    /// Returns true if this part of the machine is up.
    pub fn has(&self, attachment: Attachment) -> bool {
        let up = |index: u32| {
            self.interfaces.get(&index).is_some_and(|flags| flags & UP_AND_RUNNING == UP_AND_RUNNING)
        };
        match attachment {
            Attachment::Nothing => true,
            Attachment::Interface(index) => up(index),
            Attachment::Address(ip) => {
                self.addresses.iter().any(|assigned| self.covers(assigned, ip) && up(assigned.interface))
            }
        }
    }

    /// Returns true if an address belongs to the machine by this assignment: on the loopback interface, all addresses
    /// of the IPv4 subnet do.
    fn covers(&self, assigned: &Assigned, ip: IpAddr) -> bool {
        let loopback =
            self.interfaces.get(&assigned.interface).is_some_and(|flags| flags & LOOPBACK_FLAG != 0);
        match (assigned.address, ip) {
            (IpAddr::V4(own), IpAddr::V4(other)) if loopback => {
                let host_bits = 32_u32.saturating_sub(assigned.prefix.into());
                (own.to_bits() ^ other.to_bits()).checked_shr(host_bits).unwrap_or_default() == 0
            }
            (own, other) => own == other,
        }
    }

    fn read(&mut self) -> io::Result<()> {
        let interface = |body: &[u8]| Some((word(body, 4)?, word(body, 8)?));
        let interfaces = self.lists.read((GET_LINK, &[0; LINK_BYTES]), NEW_LINK, interface)?;
        self.addresses = self.lists.read((GET_ADDRESS, &[0; ADDRESS_BYTES]), NEW_ADDRESS, assigned)?;
        self.interfaces = interfaces.into_iter().collect();
        Ok(())
    }
}

/// The address of a message.
fn assigned(body: &[u8]) -> Option<Assigned> {
    let (prefix, interface) = (*body.get(1)?, word(body, 4)?);
    let mut address = None;
    for (kind, value) in attributes(body.get(ADDRESS_BYTES..)?) {
        match kind {
            IFA_LOCAL => address = ip(value),
            IFA_ADDRESS => address = address.or_else(|| ip(value)),
            _ => {}
        }
    }
    Some(Assigned { address: address?, prefix, interface })
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = || <[u8; 4]>::try_from(bytes).ok().map(|bytes| Ipv4Addr::from(bytes).into());
    v4().or_else(|| <[u8; 16]>::try_from(bytes).ok().map(|bytes| Ipv6Addr::from(bytes).into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses_are_up_and_others_are_not() {
        let mut carriers = Carriers::follow().expect("netlink");
        let has = |ip: [u8; 4]| carriers.has(Attachment::Address(ip.into()));
        assert!(has([127, 0, 0, 1]) && has([127, 200, 0, 9]));
        assert!(!has([192, 0, 2, 77]));
        assert!(carriers.has(Attachment::Nothing) && !carriers.has(Attachment::Interface(u32::MAX)));
        carriers.refresh().expect("the state can be read again");
        assert!(carriers.has(Attachment::Address([127, 0, 0, 1].into())));
    }

    #[test]
    fn own_address_of_a_point_to_point_interface_counts() {
        // AF_INET, 30 bits, interface 7; IFA_ADDRESS 10.0.0.1 (the peer), IFA_LOCAL 10.0.0.2.
        let mut body = vec![2, 30, 0, 0];
        body.extend_from_slice(&7_u32.to_ne_bytes());
        for (kind, last) in [(IFA_ADDRESS, 1), (IFA_LOCAL, 2)] {
            body.extend_from_slice(&8_u16.to_ne_bytes());
            body.extend_from_slice(&kind.to_ne_bytes());
            body.extend_from_slice(&[10, 0, 0, last]);
        }
        let expected = Assigned { address: [10, 0, 0, 2].into(), prefix: 30, interface: 7 };
        assert_eq!(assigned(&body), Some(expected));
    }
}
