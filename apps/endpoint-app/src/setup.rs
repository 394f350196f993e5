//! Devices and protocol of the arguments.

use crate::arguments::Arguments;
use crate::error::Error;
use anabranch_endpoint::Address;
use anabranch_host::Protocol;
use anabranch_net::{Clock, Network, Tun, Udp};
use anabranch_settings::protocol::Protocol as Settings;
use anabranch_wire::sctp::encapsulation::Ports;
use std::fs::File;
use std::io::{self, BufWriter};

/// The protocol with its settings.
///
/// # Errors
///
/// If a key or its value is wrong; one sentence.
pub fn protocol(arguments: &Arguments) -> Result<Protocol, Error> {
    let mut settings = Settings::new(arguments.protocol);
    for (key, value) in &arguments.settings {
        settings
            .set(key, value)
            .map_err(|problem| Error::Input(format!("--set {key}={value}: {problem}")))?;
    }
    Ok(match settings {
        Settings::Tcp(config) => Protocol::Tcp(config),
        Settings::Mptcp(config) => Protocol::Mptcp(config),
        Settings::Sctp(mut config) => {
            if !arguments.udp.is_empty() {
                config.encapsulation =
                    Some(Ports { source: arguments.udp_port, destination: arguments.peer_udp_port });
            }
            Protocol::Sctp(config)
        }
        Settings::Udp => unreachable!("the arguments have no such protocol"),
    })
}

/// Creates the devices, and the capture if there is one.
///
/// # Errors
///
/// If the machine refuses one of them; one sentence.
pub fn network(arguments: &Arguments) -> Result<Network, Error> {
    let mut network = Network::new(Clock::new());
    let mtu = u32::from(arguments.mtu);
    if let Some(file) = &arguments.pcap {
        let refused = |error: io::Error| Error::Input(format!("--pcap {}: {error}", file.display()));
        let out = BufWriter::new(File::create(file).map_err(refused)?);
        network.capture(Box::new(out)).map_err(refused)?;
    }
    for tun in &arguments.tuns {
        let device = Tun::new(&tun.name, tun.kernel, arguments.mtu).map_err(|error| {
            let remedy = match error.kind() {
                io::ErrorKind::PermissionDenied => "; it needs CAP_NET_ADMIN, so run it as root",
                io::ErrorKind::NotFound => "; the kernel has no /dev/net/tun",
                io::ErrorKind::ResourceBusy => "; the name is in use",
                _ => "",
            };
            Error::Refused(format!("cannot create the interface {}: {error}{remedy}", tun.name))
        })?;
        network.add(device, &[Address { ip: tun.own, mtu, backup: tun.backup }]);
    }
    for &ip in &arguments.udp {
        let local = (ip, arguments.udp_port).into();
        let device = Udp::bind(local).map_err(|error| {
            let remedy = match error.kind() {
                io::ErrorKind::AddrInUse => "; choose another --udp-port",
                io::ErrorKind::AddrNotAvailable => "; the machine does not have this address",
                _ => "",
            };
            Error::Refused(format!("cannot use UDP at {local}: {error}{remedy}"))
        })?;
        network.add(device, &[Address::new(ip, mtu)]);
    }
    Ok(network)
}
