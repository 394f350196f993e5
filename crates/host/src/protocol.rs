//! The protocols of a host, and the construction of an end of each.

use crate::udp::Udp;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::endpoint::Endpoint;
use anabranch_endpoint::{Ends, Secrets};
use anabranch_multipath::scheduler::KnownPath;
use anabranch_sctp as sctp;
use anabranch_settings::protocol::Protocol as Settings;
use anabranch_tcp::{mptcp, tcp};
use anabranch_wire::sctp as wire_sctp;
use anabranch_wire::tcp::Segment;
use anabranch_wire::udp::Datagram;
use core::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// A transport protocol with separate ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transport {
    /// TCP, including Multipath TCP.
    Tcp,
    /// SCTP by its own ports, with or without UDP encapsulation.
    Sctp,
    /// UDP.
    Udp,
}

/// A protocol with its settings.
#[derive(Clone, Debug)]
pub enum Protocol {
    /// TCP.
    Tcp(tcp::Config),
    /// Multipath TCP.
    Mptcp(mptcp::Config),
    /// SCTP or CMT-SCTP.
    Sctp(Box<sctp::Config>),
    /// UDP, connected.
    Udp,
}

impl From<Settings> for Protocol {
    fn from(settings: Settings) -> Self {
        match settings {
            Settings::Tcp(config) => Self::Tcp(config),
            Settings::Mptcp(config) => Self::Mptcp(config),
            Settings::Sctp(config) => Self::Sctp(config),
            Settings::Udp => Self::Udp,
        }
    }
}

impl Protocol {
    /// The transport whose ports the protocol uses.
    pub const fn transport(&self) -> Transport {
        match self {
            Self::Tcp(_) | Self::Mptcp(_) => Transport::Tcp,
            Self::Sctp(_) => Transport::Sctp,
            Self::Udp => Transport::Udp,
        }
    }

    /// A connecting end.
    ///
    /// # Errors
    /// If a setting is invalid.
    pub fn connecting(&self, ends: &Ends, secrets: Secrets) -> Result<Core, sctp::ConfigError> {
        Ok(match self {
            Self::Tcp(config) => {
                Core::Tcp(Box::new(tcp::Connection::connecting(config.clone(), ends, secrets)))
            }
            Self::Mptcp(config) => {
                Core::Mptcp(Box::new(mptcp::Connection::connecting(config.clone(), ends, secrets)))
            }
            Self::Sctp(config) => {
                Core::Sctp(Box::new(sctp::Association::connecting((**config).clone(), ends, secrets)?))
            }
            Self::Udp => Core::Udp(Box::new(udp(ends, ends.first_remote()))),
        })
    }

    /// A listening end for one connection; `from` is the connecting end where the protocol needs it.
    ///
    /// # Errors
    /// If a setting is invalid.
    pub fn listening(
        &self,
        ends: &Ends,
        from: SocketAddr,
        secrets: Secrets,
    ) -> Result<Core, sctp::ConfigError> {
        Ok(match self {
            Self::Tcp(config) => {
                Core::Tcp(Box::new(tcp::Connection::listening(config.clone(), ends, secrets)))
            }
            Self::Mptcp(config) => {
                Core::Mptcp(Box::new(mptcp::Connection::listening(config.clone(), ends, secrets)))
            }
            Self::Sctp(config) => {
                Core::Sctp(Box::new(sctp::Association::listening((**config).clone(), ends, secrets)?))
            }
            Self::Udp => Core::Udp(Box::new(udp(ends, from))),
        })
    }
}

impl Protocol {
    /// Replaces the characteristics of paths that schedulers may use.
    pub fn set_known_paths(&mut self, known: &Arc<[KnownPath]>) {
        match self {
            Self::Mptcp(config) => config.known_paths = known.clone(),
            Self::Sctp(config) => config.known_paths = known.clone(),
            Self::Tcp(_) | Self::Udp => {}
        }
    }

    /// Replaces an address of either host by another on the same interface, which has the same routes.
    pub fn renumber(&mut self, old: IpAddr, new: IpAddr) {
        match self {
            Self::Mptcp(config) => config.renumber(old, new),
            Self::Sctp(config) => config.renumber(old, new),
            Self::Tcp(_) | Self::Udp => {}
        }
    }
}

fn udp(ends: &Ends, remote: SocketAddr) -> Udp {
    let (local, mtu) = ends.first_local();
    Udp::new(local, remote, mtu)
}

/// An end of any of the protocols.
#[derive(Debug)]
pub enum Core {
    /// TCP.
    Tcp(Box<tcp::Connection>),
    /// Multipath TCP.
    Mptcp(Box<mptcp::Connection>),
    /// SCTP.
    Sctp(Box<sctp::Association>),
    /// UDP.
    Udp(Box<Udp>),
}

impl Core {
    /// The endpoint.
    pub fn endpoint(&self) -> &dyn Endpoint {
        match self {
            Self::Tcp(core) => core.as_ref(),
            Self::Mptcp(core) => core.as_ref(),
            Self::Sctp(core) => core.as_ref(),
            Self::Udp(core) => core.as_ref(),
        }
    }

    /// The endpoint for calls that change it.
    pub fn endpoint_mut(&mut self) -> &mut (dyn Endpoint + 'static) {
        match self {
            Self::Tcp(core) => core.as_mut(),
            Self::Mptcp(core) => core.as_mut(),
            Self::Sctp(core) => core.as_mut(),
            Self::Udp(core) => core.as_mut(),
        }
    }

    /// Changes the user timeout (RFC 5482), as a call of the application does; `None` is no limit. Returns false if the
    /// protocol has no user timeout.
    pub fn set_user_timeout(&mut self, now: Time, timeout: Option<Duration>) -> bool {
        match self {
            Self::Tcp(core) => core.set_user_timeout(now, timeout),
            Self::Mptcp(core) => core.set_user_timeout(now, timeout),
            Self::Sctp(_) | Self::Udp(_) => return false,
        }
        true
    }

    /// The endpoint of any protocol, without this enum.
    pub fn into_endpoint(self) -> Box<dyn Endpoint> {
        match self {
            Self::Tcp(core) => core,
            Self::Mptcp(core) => core,
            Self::Sctp(core) => core,
            Self::Udp(core) => core,
        }
    }

    /// The transport whose ports the connection uses.
    pub const fn transport(&self) -> Transport {
        match self {
            Self::Tcp(_) | Self::Mptcp(_) => Transport::Tcp,
            Self::Sctp(_) => Transport::Sctp,
            Self::Udp(_) => Transport::Udp,
        }
    }
}

/// Local and remote end of a connection.
pub(super) type Tuple = (SocketAddr, SocketAddr);

/// The tuple of a segment that arrived.
pub(super) const fn tuple_of(segment: &Segment, (source, destination): (IpAddr, IpAddr)) -> Tuple {
    (SocketAddr::new(destination, segment.destination_port), SocketAddr::new(source, segment.source_port))
}

/// The tuple of a datagram that arrived.
pub(super) const fn datagram_tuple(datagram: &Datagram, (source, destination): (IpAddr, IpAddr)) -> Tuple {
    (SocketAddr::new(destination, datagram.destination_port), SocketAddr::new(source, datagram.source_port))
}

/// The ports of an SCTP packet that arrived: local, remote.
pub(super) const fn ports_of(packet: &wire_sctp::Packet) -> (u16, u16) {
    (packet.destination_port, packet.source_port)
}
