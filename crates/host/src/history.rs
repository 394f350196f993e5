//! Pairs of addresses on which connections of a host were established. Later connections that may begin on any pair begin on
//! the latest of these (Becke2014 §5.1.2.1).

use super::protocol::Protocol;
use anabranch_endpoint::Ends;
use anabranch_tcp::mptcp::SynRetransmission;
use core::net::IpAddr;

/// Pairs of a local address and an address of another host, latest first.
#[derive(Debug, Default)]
pub(super) struct History {
    worked: Vec<(IpAddr, IpAddr)>,
}

impl History {
    /// Records that a connection was established on a pair; keeps at most `most` pairs.
    pub fn note(&mut self, pair: (IpAddr, IpAddr), most: usize) {
        self.worked.retain(|known| *known != pair);
        self.worked.insert(0, pair);
        self.worked.truncate(most);
    }

    /// Removes the pairs of a lost local address, because the address may return on another network.
    pub fn forget(&mut self, own: IpAddr) {
        self.worked.retain(|(from, _)| *from != own);
    }

    /// The known pairs, for a connection that may begin on any of them; moves the local address that last reached the
    /// first destination of `ends` to the front. Empty for all other connections, which begin on their first address.
    pub fn order(&self, protocol: &Protocol, ends: &mut Ends) -> Vec<(IpAddr, IpAddr)> {
        let Protocol::Mptcp(config) = protocol else { return Vec::new() };
        if config.syn_retransmission == SynRetransmission::Single {
            return Vec::new();
        }
        let to = ends.first_remote().ip();
        let mut known = self.worked.iter().filter(|(_, remote)| *remote == to);
        let place = |from: IpAddr| ends.local.iter().position(|address| address.ip == from);
        if let Some(at) = known.find_map(|&(from, _)| place(from)) {
            ends.local[..=at].rotate_right(1);
        }
        self.worked.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_endpoint::Address;
    use anabranch_tcp::mptcp;

    fn ip(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    fn ends() -> Ends {
        let local = [1, 2, 3].map(|last| Address::new(ip(last), 1500)).to_vec();
        Ends { local, local_port: 0, remote: vec![ip(9)], remote_port: 5001 }
    }

    fn mptcp(syn_retransmission: SynRetransmission) -> Protocol {
        Protocol::Mptcp(mptcp::Config::default().syn_retransmission(syn_retransmission))
    }

    #[test]
    fn latest_pair_to_the_destination_comes_first() {
        let mut history = History::default();
        for pair in [(2, 9), (3, 9), (1, 8), (3, 9)] {
            history.note((ip(pair.0), ip(pair.1)), 2);
        }
        assert_eq!(history.worked, [(ip(3), ip(9)), (ip(1), ip(8))], "each once, and two at most");
        let first = |history: &History, choice| {
            let mut ends = ends();
            let worked = history.order(&mptcp(choice), &mut ends);
            (ends.local.iter().map(|address| address.ip).collect::<Vec<_>>(), worked.len())
        };
        assert_eq!(first(&history, SynRetransmission::Multipath), (vec![ip(3), ip(1), ip(2)], 2));
        assert_eq!(first(&history, SynRetransmission::Single), (vec![ip(1), ip(2), ip(3)], 0));
        history.forget(ip(3));
        assert_eq!(first(&history, SynRetransmission::Multipath), (vec![ip(1), ip(2), ip(3)], 1));
    }
}
