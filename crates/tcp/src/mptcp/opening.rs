//! Pairs of addresses over which a connection may begin, in order of preference (Becke2014 §5.1.2.1): those known to
//! have worked, then those of one scope, then the rest.

use anabranch_endpoint::Ends;
use core::net::IpAddr;

/// The pairs of addresses that a connection may begin on, and its progress through them.
#[derive(Clone, Debug, Default)]
pub(super) struct Opening {
    /// In the order in which they are tried: the requested pair, then those that have worked, those of one scope, and
    /// the rest.
    pub pairs: Vec<(IpAddr, IpAddr)>,
    /// SYNs that went unanswered.
    pub unanswered: u32,
    /// The next SYN waits for a port.
    pub waits: bool,
}

impl Opening {
    /// The pairs between two ends, of addresses of one version of IP.
    pub fn between(ends: &Ends) -> Self {
        let all = ends.remote.iter().flat_map(|&to| ends.local.iter().map(move |from| (from.ip, to)));
        let mut pairs: Vec<_> = all.filter(|(from, to)| from.is_ipv4() == to.is_ipv4()).collect();
        // The first stays the first; the sort is stable.
        if let Some((_, others)) = pairs.split_first_mut() {
            others.sort_by_key(|&(from, to)| scope(from) != scope(to));
        }
        Self { pairs, ..Self::default() }
    }

    /// Puts the pairs on which other connections were established before the others, the first of `worked` in front;
    /// the requested pair stays the first.
    pub fn prefer(&mut self, worked: &[(IpAddr, IpAddr)]) {
        if let Some((_, others)) = self.pairs.split_first_mut() {
            let rank = |pair: &(IpAddr, IpAddr)| worked.iter().position(|known| known == pair);
            others.sort_by_key(|pair| rank(pair).unwrap_or(usize::MAX));
        }
    }

    /// Limits the number of pairs that are tried; the minimum is one.
    pub fn keep(&mut self, most: u32) {
        self.pairs.truncate(most.max(1) as usize);
    }

    /// How often every pair has been tried.
    pub fn rounds(&self) -> u32 {
        self.unanswered / (self.pairs.len() as u32).max(1)
    }

    /// The pair of the next SYN.
    pub fn next(&self) -> Option<(IpAddr, IpAddr)> {
        self.pairs.get(self.unanswered as usize % self.pairs.len().max(1)).copied()
    }
}

/// Scope of an address (RFC 6724 §3.1; private addresses are distinguished from global ones).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Loopback,
    Link,
    Private,
    Global,
}

fn scope(ip: IpAddr) -> Scope {
    let (link, private) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.is_private()),
        IpAddr::V6(ip) => (ip.is_unicast_link_local(), ip.is_unique_local()),
    };
    match (ip.is_loopback(), link, private) {
        (true, ..) => Scope::Loopback,
        (_, true, _) => Scope::Link,
        (.., true) => Scope::Private,
        _ => Scope::Global,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_endpoint::Address;

    #[test]
    fn requested_pair_precedes_pairs_of_one_scope() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let local = ["10.0.0.1", "fe80::1", "169.254.0.1", "192.0.2.1", "10.0.0.2"];
        let local = local.map(|text| Address::new(ip(text), 1500)).to_vec();
        let ends = Ends { local, local_port: 1, remote: vec![ip("192.0.2.9")], remote_port: 2 };
        let from: Vec<_> =
            Opening::between(&ends).pairs.into_iter().map(|(from, _)| from.to_string()).collect();
        assert_eq!(from, ["10.0.0.1", "192.0.2.1", "169.254.0.1", "10.0.0.2"]);
        // Pairs that worked come before pairs of one scope, and after the requested pair.
        let worked: Vec<_> =
            ["10.0.0.2", "169.254.0.1", "10.0.0.1"].map(|text| (ip(text), ip("192.0.2.9"))).to_vec();
        let tried = |most: u32| {
            let mut opening = Opening::between(&ends);
            opening.prefer(&worked);
            opening.keep(most);
            opening.pairs.into_iter().map(|(from, _)| from.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(tried(9), ["10.0.0.1", "10.0.0.2", "169.254.0.1", "192.0.2.1"]);
        assert_eq!(tried(2), ["10.0.0.1", "10.0.0.2"]);
        assert_eq!(tried(0), ["10.0.0.1"]);
    }
}
