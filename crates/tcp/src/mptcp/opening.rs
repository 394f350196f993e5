//! Pairs of addresses for the initial subflow, in order of preference (Becke2014 §5.1.2.1): pairs on which
//! connections were established, then pairs of addresses with the same scope, then the others.

use anabranch_endpoint::Ends;
use core::net::IpAddr;

/// The pairs of addresses that the initial subflow may use, and the number of SYNs sent over them.
#[derive(Clone, Debug, Default)]
pub(super) struct Opening {
    /// In the order of the attempts: the requested pair, then pairs that have worked, pairs of addresses with
    /// the same scope, and the others.
    pub pairs: Vec<(IpAddr, IpAddr)>,
    /// Number of unanswered SYNs.
    pub unanswered: u32,
    /// True while the next SYN waits for a port.
    pub needs_port: bool,
}

impl Opening {
    /// All pairs of a local and a remote address of the same IP version.
    pub fn between(ends: &Ends) -> Self {
        let all = ends.remote.iter().flat_map(|&to| ends.local.iter().map(move |from| (from.ip, to)));
        let mut pairs: Vec<_> = all.filter(|(from, to)| from.is_ipv4() == to.is_ipv4()).collect();
        // The requested pair stays the first, and the sort is stable.
        if let Some((_, others)) = pairs.split_first_mut() {
            others.sort_by_key(|&(from, to)| scope(from) != scope(to));
        }
        Self { pairs, ..Self::default() }
    }

    /// Moves the pairs in `worked`, on which other connections were established, before the others in the order of
    /// `worked`. The requested pair stays the first.
    pub fn prefer(&mut self, worked: &[(IpAddr, IpAddr)]) {
        if let Some((_, others)) = self.pairs.split_first_mut() {
            let rank = |pair: &(IpAddr, IpAddr)| worked.iter().position(|known| known == pair);
            others.sort_by_key(|pair| rank(pair).unwrap_or(usize::MAX));
        }
    }

    /// Keeps the first `most` pairs, and at least one.
    pub fn keep(&mut self, most: u32) {
        self.pairs.truncate(most.max(1) as usize);
    }

    /// Number of complete rounds over all pairs.
    pub fn rounds(&self) -> u32 {
        self.unanswered / (self.pairs.len() as u32).max(1)
    }

    /// The pair of the next SYN.
    pub fn next(&self) -> Option<(IpAddr, IpAddr)> {
        self.pairs.get(self.unanswered as usize % self.pairs.len().max(1)).copied()
    }
}

/// Scope of an address as in RFC 6724 §3.1, except that private addresses have a separate scope.
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
        // Pairs that worked come before pairs of addresses with the same scope, and after the requested pair.
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
