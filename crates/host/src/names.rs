//! The tables in which a host finds its connections, and its ephemeral ports.

use super::ConnectionId;
use super::protocol::{Transport, Tuple};
use super::time_wait::TimeWait;
use anabranch_endpoint::Secrets;
use core::net::{IpAddr, SocketAddr};
use core::ops::RangeInclusive;
use std::collections::{BTreeMap, BTreeSet};

/// An SCTP association by its ports (own, the peer's) and its own tag.
type TagKey = ((u16, u16), u32);

/// All registered names.
#[derive(Debug)]
pub(super) struct Names {
    /// TCP connections, each subflow of Multipath TCP, and UDP sockets, by their two ends.
    tuples: BTreeMap<(Transport, Tuple), ConnectionId>,
    /// Multipath TCP connections by their token.
    tokens: BTreeMap<u32, ConnectionId>,
    tags: BTreeMap<TagKey, ConnectionId>,
    /// SCTP associations by ports and each of the peer's addresses, for packets that carry another tag.
    peers: BTreeMap<((u16, u16), IpAddr), ConnectionId>,
    /// Ports with a listener.
    pub(super) listening: BTreeSet<(Transport, u16)>,
    /// Ports reserved for later connections.
    pub(super) reserved: BTreeSet<(Transport, u16)>,
    pub(super) time_wait: TimeWait,
    ephemeral: RangeInclusive<u16>,
    /// Number of ephemeral ports assigned since the start (RFC 6056 §3.3.3).
    given: u32,
    /// The host's secrets, from which the search for a port begins.
    secrets: Secrets,
}

impl Names {
    pub(super) fn new(ephemeral: RangeInclusive<u16>, time_wait: usize, secrets: Secrets) -> Self {
        Self {
            tuples: BTreeMap::new(),
            tokens: BTreeMap::new(),
            tags: BTreeMap::new(),
            peers: BTreeMap::new(),
            listening: BTreeSet::new(),
            reserved: BTreeSet::new(),
            time_wait: TimeWait::new(time_wait),
            ephemeral,
            given: 0,
            secrets,
        }
    }

    /// Number of names of all kinds.
    pub(super) fn len(&self) -> usize {
        self.tuples.len() + self.tokens.len() + self.tags.len() + self.peers.len() + self.time_wait.len()
    }

    pub(super) fn of_tuple(&self, transport: Transport, tuple: Tuple) -> Option<ConnectionId> {
        self.tuples.get(&(transport, tuple)).copied()
    }

    pub(super) fn of_token(&self, token: u32) -> Option<ConnectionId> {
        self.tokens.get(&token).copied()
    }

    pub(super) fn of_tag(&self, ports: (u16, u16), tag: u32) -> Option<ConnectionId> {
        self.tags.get(&(ports, tag)).copied()
    }

    pub(super) fn of_peer(&self, ports: (u16, u16), peer: IpAddr) -> Option<ConnectionId> {
        self.peers.get(&(ports, peer)).copied()
    }

    pub(super) fn add_tuple(&mut self, transport: Transport, tuple: Tuple, id: ConnectionId) {
        if transport == Transport::Tcp {
            self.time_wait.remove(&tuple);
        }
        self.tuples.insert((transport, tuple), id);
    }

    pub(super) fn remove_tuple(&mut self, transport: Transport, tuple: Tuple, id: ConnectionId) {
        if self.of_tuple(transport, tuple) == Some(id) {
            self.tuples.remove(&(transport, tuple));
        }
    }

    /// Registers a token; false if another connection has it (RFC 8684 §3.1).
    pub(super) fn add_token(&mut self, token: u32, id: ConnectionId) -> bool {
        *self.tokens.entry(token).or_insert(id) == id
    }

    pub(super) fn remove_token(&mut self, token: u32, id: ConnectionId) {
        if self.of_token(token) == Some(id) {
            self.tokens.remove(&token);
        }
    }

    /// Replaces the old names of an association by the new ones.
    pub(super) fn rename(&mut self, id: ConnectionId, old: &AssociationNames, new: &AssociationNames) {
        let Self { tags, peers, .. } = self;
        if let Some(tag) = old.tag
            && tags.get(&(old.ports, tag)) == Some(&id)
        {
            tags.remove(&(old.ports, tag));
        }
        for peer in &old.peers {
            if peers.get(&(old.ports, *peer)) == Some(&id) {
                peers.remove(&(old.ports, *peer));
            }
        }
        if let Some(tag) = new.tag {
            tags.entry((new.ports, tag)).or_insert(id);
        }
        for peer in &new.peers {
            peers.entry((new.ports, *peer)).or_insert(id);
        }
    }

    /// A port for a connection between these ends, by the algorithm of RFC 6056 §3.3.3: the search begins at a keyed
    /// hash of both ends, so that one port reveals nothing about another, and the ports between two hosts are
    /// successive. The search skips ports with a listener, and ports with which two connections (or one and an entry
    /// in TIME-WAIT) would have the same ends.
    pub(super) fn ephemeral(
        &mut self,
        transport: Transport,
        local: &[IpAddr],
        remote: SocketAddr,
    ) -> Option<u16> {
        let (first, last) = (*self.ephemeral.start(), *self.ephemeral.end());
        let count = u32::from(last.checked_sub(first)?) + 1;
        let octets = |ip: IpAddr| match ip {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        };
        let local_octets = local.first().map(|ip| octets(*ip)).unwrap_or_default();
        let parts: [&[u8]; 4] = [b"port", &local_octets, &octets(remote.ip()), &remote.port().to_be_bytes()];
        let hash = self.secrets.fork("ports").keyed(&parts);
        let offset = u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]);
        for _ in 0..count {
            let port = first + (offset.wrapping_add(self.given) % count) as u16;
            self.given = self.given.wrapping_add(1);
            if self.is_free(transport, port, local, remote) {
                return Some(port);
            }
        }
        None
    }

    /// A port for a further path of a connection whose newest path uses the port `last`: the next free one. The port
    /// of an ended path is never used again: the initial sequence number of a new path would look old, because it
    /// exceeds the last one of the ended path only if that path sent less than 250 kB/s (RFC 9293 §3.4.1). The port
    /// need not be unpredictable, because the token already shows an observer that both paths belong to one
    /// connection. The result does not depend on ports of other addresses.
    pub(super) fn further(
        &mut self,
        transport: Transport,
        last: u16,
        local: IpAddr,
        remote: SocketAddr,
    ) -> Option<u16> {
        if !self.ephemeral.contains(&last) {
            return self.ephemeral(transport, &[local], remote);
        }
        let behind = (last..=*self.ephemeral.end()).skip(1).chain(*self.ephemeral.start()..last);
        let free = |port: &u16| self.is_free(transport, *port, &[local], remote);
        behind.into_iter().find(free)
    }

    /// True if the addresses and ports of a connection from this port would differ from those of all others.
    pub(super) fn is_free(
        &self,
        transport: Transport,
        port: u16,
        local: &[IpAddr],
        remote: SocketAddr,
    ) -> bool {
        let key = (transport, port);
        if self.listening.contains(&key) || self.reserved.contains(&key) {
            return false;
        }
        match transport {
            // An association may change its addresses but keeps its ports, so its port must be unused on all
            // addresses.
            Transport::Sctp => {
                let ports = (port, remote.port());
                self.tags.range((ports, 0)..=(ports, u32::MAX)).next().is_none()
                    && self
                        .peers
                        .range((ports, IpAddr::from([0; 4]))..)
                        .next()
                        .is_none_or(|((p, _), _)| *p != ports)
            }
            Transport::Tcp | Transport::Udp => local.iter().all(|ip| {
                let tuple = (SocketAddr::new(*ip, port), remote);
                let waits = transport == Transport::Tcp && self.time_wait.contains(&tuple);
                !waits && !self.tuples.contains_key(&(transport, tuple))
            }),
        }
    }
}

/// The names of an association.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AssociationNames {
    pub(super) ports: (u16, u16),
    pub(super) tag: Option<u32>,
    pub(super) peers: Vec<IpAddr>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names::new(50_000..=50_009, 10, Secrets::new([1; 32]))
    }

    fn remote(last: u8) -> SocketAddr {
        ([10, 0, 0, last], 80).into()
    }

    const LOCAL: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 0, 1));
    const ID: ConnectionId = ConnectionId { slot: 0, generation: core::num::NonZeroU32::MIN };

    #[test]
    fn each_port_is_assigned_once_per_remote_end() {
        let mut names = names();
        names.listening.insert((Transport::Tcp, 50_003));
        let mut given = BTreeSet::new();
        while let Some(port) = names.ephemeral(Transport::Tcp, &[LOCAL], remote(2)) {
            assert!(given.insert(port), "{port} twice");
            names.add_tuple(Transport::Tcp, (SocketAddr::new(LOCAL, port), remote(2)), ID);
        }
        assert_eq!(given.len(), 9, "all ports except that of the listener");
        assert!(
            names.ephemeral(Transport::Tcp, &[LOCAL], remote(3)).is_some(),
            "the ports are free for another remote address"
        );
        assert!(names.ephemeral(Transport::Udp, &[LOCAL], remote(2)).is_some(), "UDP ports are separate");
        let port = *given.first().expect("nine ports were given");
        names.remove_tuple(Transport::Tcp, (SocketAddr::new(LOCAL, port), remote(2)), ID);
        assert_eq!(names.ephemeral(Transport::Tcp, &[LOCAL], remote(2)), Some(port));
    }

    #[test]
    fn first_port_depends_on_the_ends() {
        let first = |last| {
            let mut names = Names::new(49_152..=65_535, 10, Secrets::new([1; 32]));
            names.ephemeral(Transport::Tcp, &[LOCAL], remote(last))
        };
        assert!(first(2) != first(3) && first(3) != first(4));
        let mut names = Names::new(49_152..=65_535, 10, Secrets::new([1; 32]));
        let [a, b] =
            [0; 2].map(|_| names.ephemeral(Transport::Tcp, &[LOCAL], remote(2)).expect("a port is free"));
        assert!(b == a + 1 || (a, b) == (65_535, 49_152), "{a} {b}");
    }

    #[test]
    fn association_owns_its_port_and_is_found_by_tag() {
        let mut names = names();
        let peers = vec![remote(2).ip(), remote(3).ip()];
        let one = AssociationNames { ports: (50_001, 80), tag: Some(7), peers };
        names.rename(ID, &AssociationNames::default(), &one);
        assert!(!names.is_free(Transport::Sctp, 50_001, &[LOCAL], remote(9)));
        assert!(names.is_free(Transport::Sctp, 50_002, &[LOCAL], remote(9)));
        assert_eq!(names.of_tag((50_001, 80), 7), Some(ID));
        assert_eq!(names.of_peer((50_001, 80), remote(3).ip()), Some(ID));
        let other = AssociationNames { tag: Some(8), peers: vec![remote(2).ip()], ..one.clone() };
        names.rename(ID, &one, &other);
        assert_eq!(
            (names.of_tag((50_001, 80), 7), names.of_peer((50_001, 80), remote(3).ip())),
            (None, None)
        );
        names.rename(ID, &other, &AssociationNames::default());
        assert!(names.is_free(Transport::Sctp, 50_001, &[LOCAL], remote(9)));
        assert_eq!(names.len(), 0);
    }
}
