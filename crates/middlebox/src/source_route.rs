//! Routers and loose source routes (RFC 791 §3.1).
//!
//! The carrier of packets (simulator or emulator) asks [`SourceRouter::judge`] about each packet with a source route that
//! arrives at a router, and changes the packet as the [`Verdict`] says.

use anabranch_wire::ip::source_route::{Progress, SourceRoute};
use core::net::Ipv4Addr;

/// Treatment of packets with a source route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourceRoutes {
    /// The router is a hop of the routes that list it.
    Forward,
    /// The router forwards by the destination in the header. It drops packets whose destination it is itself.
    Ignore,
    /// The router drops the packets.
    #[default]
    Drop,
}

/// Effect of a router on a packet with a source route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The packet continues unchanged.
    Pass,
    /// The packet continues to this address, after [`SourceRoute::followed`].
    Follow(Ipv4Addr),
    /// The packet is dropped.
    Drop,
}

/// Counts of the packets with a source route that have arrived at a router.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceRouteCounts {
    /// All packets.
    pub packets: u64,
    /// Packets to the router itself that it has sent to the next address.
    pub followed: u64,
    /// Packets that were dropped.
    pub dropped: u64,
    /// Packets whose option is invalid, dropped or not.
    pub invalid: u64,
}

/// A router that gets packets with source routes.
#[derive(Clone, Copy, Debug, Default)]
pub struct SourceRouter {
    policy: SourceRoutes,
    counts: SourceRouteCounts,
}

impl SourceRouter {
    /// A router.
    pub const fn new(policy: SourceRoutes) -> Self {
        Self { policy, counts: SourceRouteCounts { packets: 0, followed: 0, dropped: 0, invalid: 0 } }
    }

    /// Counts since the start.
    pub const fn counts(&self) -> SourceRouteCounts {
        self.counts
    }

    /// Decides about a packet; `is_own` is true if the destination in its header is an address of the router.
    pub fn judge(&mut self, route: &SourceRoute, is_own: bool) -> Verdict {
        let progress = route.progress();
        self.counts.packets += 1;
        self.counts.invalid += u64::from(progress == Progress::Invalid);
        let verdict = match (self.policy, progress, is_own) {
            (SourceRoutes::Forward, Progress::Next(to, _), true) => Verdict::Follow(to),
            (SourceRoutes::Forward, Progress::Next(..) | Progress::Complete, false)
            | (SourceRoutes::Ignore, _, false) => Verdict::Pass,
            // A packet to the router itself without a next hop has no receiver there.
            _ => Verdict::Drop,
        };
        match verdict {
            Verdict::Pass => {}
            Verdict::Follow(_) => self.counts.followed += 1,
            Verdict::Drop => self.counts.dropped += 1,
        }
        verdict
    }

    /// Counts a packet that was to continue, but has no route to the next address.
    pub const fn count_unroutable(&mut self) {
        self.counts.followed -= 1;
        self.counts.dropped += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_determine_verdicts() {
        use Verdict::{Drop, Follow, Pass};
        let to = Ipv4Addr::new(10, 0, 0, 2);
        let next = SourceRoute::new(&[to]);
        let complete = SourceRoute::of(&[8, 10, 0, 0, 2]);
        let invalid = SourceRoute::of(&[5, 10, 0, 0, 2]);
        let verdicts = |policy| {
            let mut router = SourceRouter::new(policy);
            let routes =
                [next, complete, invalid].into_iter().flat_map(|route| [(route, true), (route, false)]);
            let verdicts: Vec<_> = routes.map(|(route, is_own)| router.judge(&route, is_own)).collect();
            let SourceRouteCounts { packets, followed, dropped, invalid } = router.counts();
            (verdicts, [packets, followed, dropped, invalid])
        };
        let forward = vec![Follow(to), Pass, Drop, Pass, Drop, Drop];
        assert_eq!(verdicts(SourceRoutes::Forward), (forward, [6, 1, 3, 2]));
        assert_eq!(verdicts(SourceRoutes::Ignore), (vec![Drop, Pass, Drop, Pass, Drop, Pass], [6, 0, 3, 2]));
        assert_eq!(verdicts(SourceRoutes::Drop), (vec![Drop; 6], [6, 0, 6, 2]));
    }
}
