//! Sets of protocols.

use super::words::{Named, named};

/// A set of protocols.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protocols(u8);

impl Protocols {
    /// TCP.
    pub const TCP: Self = Self(1);
    /// Multipath TCP.
    pub const MPTCP: Self = Self(2);
    /// SCTP.
    pub const SCTP: Self = Self(4);
    /// CMT-SCTP.
    pub const CMT_SCTP: Self = Self(8);
    /// UDP.
    pub const UDP: Self = Self(16);
    /// Every protocol.
    pub const ALL: Self = Self(31);
    /// Protocols with connections.
    pub const CONNECTED: Self = Self(15);
    /// TCP and its extension Multipath TCP.
    pub const ANY_TCP: Self = Self(3);
    /// SCTP with one path at a time and with all paths.
    pub const ANY_SCTP: Self = Self(12);
    /// Protocols with a congestion control and one path at a time.
    pub const SINGLE_PATH: Self = Self(5);
    /// Protocols that may send on several paths at once.
    pub const MULTIPATH: Self = Self(10);

    /// The protocols of both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The protocols of either set.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True if the set contains all protocols of the other set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Names of the protocols, in the order of [`PROTOCOLS`].
    pub fn names(self) -> Vec<&'static str> {
        PROTOCOLS.iter().filter(|entry| self.contains(entry.value)).map(|entry| entry.name).collect()
    }
}

/// The protocols and their words.
pub static PROTOCOLS: &[Named<Protocols>] = &[
    named("tcp", "TCP (RFC 9293) over one path", Protocols::TCP),
    named("mptcp", "Multipath TCP version 1 (RFC 8684)", Protocols::MPTCP),
    named("sctp", "SCTP (RFC 9260): multi-homed, one path at a time", Protocols::SCTP),
    named("cmt-sctp", "SCTP with concurrent multipath transfer over all paths", Protocols::CMT_SCTP),
    named("udp", "UDP (RFC 768): datagrams without feedback", Protocols::UDP),
];
