//! The devices of a host, as users name them.

use crate::clock::Clock;
use crate::network::Network;
use crate::tun::Tun;
use crate::udp::Udp;
use anabranch_endpoint::Address;
use core::fmt;
use core::net::IpAddr;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

/// A TUN interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Name of the device.
    pub name: String,
    /// The kernel's address, and the length of its prefix in bits.
    pub kernel: (IpAddr, u8),
    /// The address of this host.
    pub own: IpAddr,
    /// True if paths from this device carry data only while no other path can.
    pub backup: bool,
}

impl Interface {
    /// Parses a TUN interface: its name, the kernel's `ADDRESS/PREFIX`, and the address of this stack. `None` if one is
    /// invalid, or if the two addresses are equal or of different families.
    pub fn parse(name: &str, kernel: &str, own: &str) -> Option<Self> {
        let (kernel, prefix) = kernel.split_once('/')?;
        let kernel: IpAddr = kernel.parse().ok()?;
        let (own, prefix): (IpAddr, u8) = (own.parse().ok()?, prefix.parse().ok()?);
        let bits = if kernel.is_ipv4() { 32 } else { 128 };
        let fits = !name.is_empty() && own.is_ipv4() == kernel.is_ipv4() && prefix <= bits && own != kernel;
        fits.then(|| Self { name: name.to_owned(), kernel: (kernel, prefix), own, backup: false })
    }
}

/// The devices of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    /// TUN interfaces.
    pub tuns: Vec<Interface>,
    /// Addresses of the machine that carry SCTP in UDP (RFC 6951).
    pub udp: Vec<IpAddr>,
    /// The UDP port.
    pub udp_port: u16,
    /// Largest IP packet, bytes.
    pub mtu: u16,
    /// File for a capture of all packets.
    pub pcap: Option<PathBuf>,
}

/// The reason why a device cannot be created.
#[derive(Debug)]
#[non_exhaustive]
pub enum DevicesError {
    /// The capture cannot be written.
    Capture(PathBuf, io::Error),
    /// The machine refuses a device; one sentence.
    Refused(String),
}

impl fmt::Display for DevicesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capture(file, error) => write!(f, "cannot write {}: {error}", file.display()),
            Self::Refused(sentence) => f.write_str(sentence),
        }
    }
}

impl core::error::Error for DevicesError {}

impl Devices {
    /// Standard port of SCTP in UDP (RFC 6951 §5.1).
    pub const UDP_PORT: u16 = 9899;
    /// MTU of Ethernet, bytes.
    pub const MTU: u16 = 1500;
    /// Least MTU of IPv6 (RFC 8200 §5), bytes.
    pub const MIN_MTU: u16 = 1280;

    /// Creates the devices, and the capture if there is one.
    ///
    /// # Errors
    ///
    /// If the machine refuses one of them.
    pub fn open(&self) -> Result<Network, DevicesError> {
        let mut network = Network::new(Clock::new());
        let mtu = u32::from(self.mtu);
        for tun in &self.tuns {
            let device = Tun::new(&tun.name, tun.kernel, self.mtu).map_err(|error| {
                let remedy = match error.kind() {
                    io::ErrorKind::PermissionDenied => "; it needs CAP_NET_ADMIN, so run it as root",
                    io::ErrorKind::NotFound => "; the kernel has no /dev/net/tun",
                    io::ErrorKind::ResourceBusy => "; the name is in use",
                    _ => "",
                };
                DevicesError::Refused(format!("cannot create the interface {}: {error}{remedy}", tun.name))
            })?;
            network.add(device, &[Address { ip: tun.own, mtu, backup: tun.backup }]);
        }
        for &ip in &self.udp {
            let local = (ip, self.udp_port).into();
            let device = Udp::bind(local).map_err(|error| {
                let remedy = match error.kind() {
                    io::ErrorKind::AddrInUse => "; choose another UDP port",
                    io::ErrorKind::AddrNotAvailable => "; the machine does not have this address",
                    _ => "",
                };
                DevicesError::Refused(format!("cannot use UDP at {local}: {error}{remedy}"))
            })?;
            network.add(device, &[Address::new(ip, mtu)]);
        }
        // An existing capture file is emptied last, so that it stays if a device is refused.
        if let Some(file) = &self.pcap {
            capture(&mut network, file).map_err(|error| DevicesError::Capture(file.clone(), error))?;
        }
        Ok(network)
    }
}

fn capture(network: &mut Network, file: &Path) -> io::Result<()> {
    network.capture(Box::new(BufWriter::new(File::create(file)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interface_is_parsed_from_its_texts() {
        let parsed = Interface::parse("tun0", "10.0.1.1/24", "10.0.1.2").expect("valid");
        assert_eq!((parsed.kernel, parsed.own), (([10, 0, 1, 1].into(), 24), [10, 0, 1, 2].into()));
        for (name, kernel, own) in [
            ("", "10.0.1.1/24", "10.0.1.2"),
            ("t", "10.0.1.1", "10.0.1.2"),
            ("t", "10.0.1.1/33", "10.0.1.2"),
            ("t", "10.0.1.1/24", "10.0.1.1"),
            ("t", "10.0.1.1/24", "fd00::1"),
            ("t", "fd00::1/129", "fd00::2"),
        ] {
            assert_eq!(Interface::parse(name, kernel, own), None, "{name} {kernel} {own}");
        }
    }

    #[test]
    fn refused_device_keeps_an_earlier_capture() {
        let file = std::env::temp_dir().join(format!("anabranch-devices-{}", std::process::id()));
        std::fs::write(&file, "earlier").expect("the folder for temporary files is writable");
        // RFC 5737: no machine has this address.
        let udp = vec![[192, 0, 2, 77].into()];
        let devices = Devices { udp, pcap: Some(file.clone()), ..Devices::default() };
        assert!(matches!(devices.open().map(|_| ()), Err(DevicesError::Refused(_))));
        assert_eq!(std::fs::read_to_string(&file).expect("the file exists"), "earlier");
        std::fs::remove_file(file).expect("the file belongs to this test");
    }

    #[test]
    fn unwritable_capture_is_reported() {
        let devices = Devices { pcap: Some("/no/such/folder/x".into()), ..Devices::default() };
        let refused = devices.open().map(|_| ()).expect_err("no such folder").to_string();
        assert!(refused.starts_with("cannot write /no/such/folder/x: "), "{refused}");
    }
}
