//! Addresses of two ends with the same number of addresses: the i-th of both belong to path i.

use anabranch_endpoint::{Address, Ends};
use anabranch_wire::Packet;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

#[derive(Clone, Copy, Debug)]
pub struct Paths {
    pub ipv6: bool,
    pub count: u8,
    pub mtu: u32,
}

impl Paths {
    /// The connecting and the listening end. The connecting one knows the first address of the other.
    pub fn ends(self) -> [Ends; 2] {
        let local =
            |end| (0..self.count).map(|path| Address::new(address(self.ipv6, end, path), self.mtu)).collect();
        let remote = vec![address(self.ipv6, 1, 0)];
        let connecting = Ends { local: local(0), local_port: 40_000, remote, remote_port: 5001 };
        [connecting, Ends::listening(local(1), 5001)]
    }
}

/// Address of an end (0 or 1) on a path.
pub fn address(ipv6: bool, end: u8, path: u8) -> IpAddr {
    if ipv6 {
        Ipv6Addr::new(0xfd00, 0, 0, path.into(), 0, 0, 0, u16::from(end) + 1).into()
    } else {
        Ipv4Addr::new(10, path, 0, end + 1).into()
    }
}

/// The path of a packet, which its destination determines.
pub fn path_of(packet: &Packet) -> u8 {
    path_at(packet.destination)
}

/// The path of an address.
pub fn path_at(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(address) => address.octets()[1],
        IpAddr::V6(address) => address.octets()[7],
    }
}
