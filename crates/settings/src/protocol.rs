//! A protocol with its settings.

use super::key::Key;
use super::protocols::{PROTOCOLS, Protocols};
use super::row::{Row, Table};
use super::setting::Value;
use super::{mptcp, sctp, tcp};
use anabranch_multipath::congestion;
use anabranch_multipath::rtt::RtoBounds;

/// A protocol with its settings.
#[derive(Clone, Debug, PartialEq)]
pub enum Protocol {
    /// TCP.
    Tcp(tcp::Config),
    /// Multipath TCP.
    Mptcp(mptcp::Config),
    /// SCTP, or CMT-SCTP.
    Sctp(Box<sctp::Config>),
    /// UDP, which has no settings.
    Udp,
}

impl Protocol {
    /// One protocol with its default settings.
    ///
    /// # Panics
    ///
    /// If the set is not one protocol.
    pub fn new(protocol: Protocols) -> Self {
        match protocol {
            Protocols::TCP => Self::Tcp(tcp::Config::default()),
            Protocols::MPTCP => Self::Mptcp(mptcp::Config::default()),
            Protocols::SCTP => Self::Sctp(Box::default()),
            Protocols::CMT_SCTP => Self::Sctp(Box::new(sctp::Config::for_cmt())),
            Protocols::UDP => Self::Udp,
            several => panic!("{several:?} is not one protocol"),
        }
    }

    /// The protocol as a set.
    pub const fn kind(&self) -> Protocols {
        match self {
            Self::Tcp(_) => Protocols::TCP,
            Self::Mptcp(_) => Protocols::MPTCP,
            Self::Sctp(config) if config.cmt => Protocols::CMT_SCTP,
            Self::Sctp(_) => Protocols::SCTP,
            Self::Udp => Protocols::UDP,
        }
    }

    /// The name used in scenarios.
    pub fn name(&self) -> &'static str {
        let kind = self.kind();
        PROTOCOLS.iter().find(|entry| entry.value == kind).expect("the list names every protocol").name
    }

    /// The keys of the protocol with their values, in the order of documents.
    pub fn entries(&self) -> Vec<(&'static Key, Value)> {
        fn all<C: Table>(config: &C, protocol: Protocols) -> Vec<(&'static Key, Value)> {
            let rows = C::rows().iter().filter(|row| row.key.protocols.contains(protocol));
            rows.map(|row| (&row.key, row.get(config))).collect()
        }
        let kind = self.kind();
        match self {
            Self::Tcp(config) => all(config, kind),
            Self::Mptcp(config) => all(config, kind),
            Self::Sctp(config) => all(&**config, kind),
            Self::Udp => Vec::new(),
        }
    }

    /// The value of a key of this protocol.
    pub fn get(&self, name: &str) -> Option<Value> {
        fn one<C: Table>(config: &C, protocol: Protocols, name: &str) -> Option<Value> {
            let is_it = |row: &&Row<C>| row.key.name == name && row.key.protocols.contains(protocol);
            C::rows().iter().find(is_it).map(|row| row.get(config))
        }
        let kind = self.kind();
        match self {
            Self::Tcp(config) => one(config, kind, name),
            Self::Mptcp(config) => one(config, kind, name),
            Self::Sctp(config) => one(&**config, kind, name),
            Self::Udp => None,
        }
    }

    /// Sets a key to a value.
    ///
    /// # Errors
    ///
    /// If the protocol has no such key, or the key cannot have the value; one sentence.
    pub fn put(&mut self, name: &str, value: Value) -> Result<(), String> {
        match self {
            Self::Tcp(config) => config.put(name, value),
            Self::Mptcp(config) => config.put(name, value),
            Self::Sctp(config) => config.put(name, value),
            Self::Udp => Err("udp has no settings".to_owned()),
        }
    }

    /// Sets a key to the value that a text describes.
    ///
    /// # Errors
    ///
    /// If the protocol has no such key or the value is wrong: one sentence with the remedy.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), String> {
        match self {
            Self::Tcp(config) => config.set(name, text),
            Self::Mptcp(config) => config.set(name, text),
            Self::Sctp(config) => config.set(name, text),
            Self::Udp => Err("udp has no settings".to_owned()),
        }
    }

    /// The congestion control; `None` for UDP.
    pub fn congestion(&self) -> Option<&congestion::Choice> {
        match self {
            Self::Tcp(config) => Some(&config.congestion),
            Self::Mptcp(config) => Some(&config.tcp.congestion),
            Self::Sctp(config) => Some(&config.congestion),
            Self::Udp => None,
        }
    }

    /// The congestion control, for a change of it.
    pub fn congestion_mut(&mut self) -> Option<&mut congestion::Choice> {
        match self {
            Self::Tcp(config) => Some(&mut config.congestion),
            Self::Mptcp(config) => Some(&mut config.tcp.congestion),
            Self::Sctp(config) => Some(&mut config.congestion),
            Self::Udp => None,
        }
    }

    /// The settings of TCP, or of the subflows of Multipath TCP.
    pub const fn tcp(&self) -> Option<&tcp::Config> {
        match self {
            Self::Tcp(config) => Some(config),
            Self::Mptcp(config) => Some(&config.tcp),
            Self::Sctp(_) | Self::Udp => None,
        }
    }

    /// The bounds of the retransmission timeout; `None` for UDP.
    pub const fn rto(&self) -> Option<RtoBounds> {
        match self {
            Self::Tcp(config) => Some(config.rto),
            Self::Mptcp(config) => Some(config.tcp.rto),
            Self::Sctp(config) => Some(config.rto),
            Self::Udp => None,
        }
    }

    /// The maximum sizes of the send buffer and the receive buffer, bytes; `None` for UDP.
    pub const fn buffers(&self) -> Option<[u64; 2]> {
        match self {
            Self::Tcp(config) => Some([config.send_buffer, config.receive_buffer]),
            Self::Mptcp(config) => Some([config.tcp.send_buffer, config.tcp.receive_buffer]),
            Self::Sctp(config) => Some([config.send_buffer, config.receive_buffer]),
            Self::Udp => None,
        }
    }
}

/// The keys of all protocols, in the order of documents. Equal keys of several protocols become one key with all
/// these protocols.
pub fn keys() -> Vec<Key> {
    fn of<C: Table>() -> impl Iterator<Item = &'static Key> {
        C::rows().iter().map(|row: &Row<C>| &row.key)
    }
    let mut keys: Vec<Key> = Vec::new();
    for key in of::<tcp::Config>().chain(of::<mptcp::Config>()).chain(of::<sctp::Config>()) {
        match keys.iter_mut().find(|known| known.name == key.name && known.text == key.text) {
            Some(known) => known.protocols = known.protocols.or(key.protocols),
            None => keys.push(*key),
        }
    }
    keys
}
