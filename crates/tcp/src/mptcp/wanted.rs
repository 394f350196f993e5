//! The paths that a connection wants, and for each that was never established the obstacle. Computed for results
//! only.

use super::connection::{Connection, ConnectionPhase, LocalAddress, Role};
use super::subflow::{Handshake, Subflow};
use crate::tcp::State;
use anabranch_endpoint::endpoint::Reason;
use anabranch_endpoint::{Obstacle, WantedPath};
use anabranch_multipath::MAX_PATHS;
use anabranch_multipath::path_manager::{AddressId, Pair};
use core::net::SocketAddr;

/// Number of `ADD_ADDR`s without an echo after which a middlebox is assumed to remove the option.
const MIN_UNECHOED_ANNOUNCEMENTS: u32 = 2;

/// The obstacle of a subflow whose block ended for this reason; `None` if this end closed it.
pub(super) const fn obstacle_of(reason: Reason) -> Option<Obstacle> {
    match reason {
        Reason::Refused | Reason::Reset => Some(Obstacle::Refused),
        Reason::TimedOut => Some(Obstacle::NoAnswer),
        Reason::Unreachable => Some(Obstacle::NoRoute),
        Reason::Closed | Reason::Aborted => None,
    }
}

impl Subflow {
    /// The obstacle that kept the subflow from being established; `None` if it was established.
    fn obstacle(&self) -> Option<Obstacle> {
        let is_asking = self.block.state() == State::SynSent;
        let present = match self.obstacle {
            _ if self.block.syn_is_unreachable() => Obstacle::NoRoute,
            _ if is_asking && self.block.counters().timeouts > 0 => Obstacle::NoAnswer,
            Some(last) => last,
            None => Obstacle::Pending,
        };
        (!self.opened).then_some(present)
    }
}

impl Connection {
    pub(super) fn wanted(&self) -> Vec<WantedPath> {
        if self.role == Role::Client { self.wanted_pairs() } else { self.wanted_addresses() }
    }

    /// All pairs of addresses that the path manager of the connecting end wants.
    fn wanted_pairs(&self) -> Vec<WantedPath> {
        let locals: Vec<AddressId> = (0..self.locals.len()).map(|id| AddressId(id as u8)).collect();
        let remotes = self.remotes.iter().filter(|remote| !remote.removed);
        let remotes: Vec<AddressId> = remotes.map(|remote| AddressId(remote.id)).collect();
        let pairs = self.path_manager.wanted(&locals, &remotes);
        pairs.into_iter().filter_map(|pair| self.wanted_pair(pair)).collect()
    }

    fn wanted_pair(&self, pair: Pair) -> Option<WantedPath> {
        let local = self.locals.get(usize::from(pair.local.0))?;
        let remote = self.remotes.iter().find(|remote| remote.id == pair.remote.0)?.at;
        let subflow = self.subflows.iter().find(|subflow| subflow.pair == pair);
        let obstacle = match subflow.map(Subflow::obstacle) {
            Some(Some(Obstacle::Pending)) | None => Some(self.standing_obstacle(pair, (local, remote))),
            Some(known) => known,
        };
        Some(WantedPath { local: local.address.ip, remote, obstacle })
    }

    /// The obstacle of a pair whose handshake has not begun or has not ended.
    fn standing_obstacle(&self, pair: Pair, (local, remote): (&LocalAddress, SocketAddr)) -> Obstacle {
        let living = self.subflows.iter().filter(|subflow| !subflow.is_dead()).count();
        let (from, to) = (local.address.ip, remote.ip());
        let is_routed =
            from.is_ipv4() == to.is_ipv4() && !self.config.unroutable.contains(&(from, to)) && local.up;
        if !is_routed {
            Obstacle::NoRoute
        } else if self.has_fallen_back() {
            Obstacle::Stripped
        } else if self.refuses_joins && pair.remote.0 == 0 {
            Obstacle::Refused
        } else if living >= MAX_PATHS || self.portless.contains(&pair) {
            Obstacle::Limit
        } else {
            Obstacle::Pending
        }
    }

    /// Addresses of the listening end that the peer should join. The peer learns them from `ADD_ADDR` only.
    fn wanted_addresses(&self) -> Vec<WantedPath> {
        let Some(first) = self.subflows.first() else { return Vec::new() };
        let ids: Vec<AddressId> = (0..self.locals.len()).map(|id| AddressId(id as u8)).collect();
        let wanted = self.path_manager.wanted(&ids, &ids);
        let is_wanted = |id: usize| wanted.iter().any(|pair| usize::from(pair.remote.0) == id);
        let addresses = self.locals.iter().enumerate().filter(|(id, _)| is_wanted(*id));
        let path = |(_, local): (usize, &LocalAddress)| {
            let ip = local.address.ip;
            let has_opened = self.subflows.iter().any(|s| s.opened && s.block.local().ip() == ip);
            let is_new = self.phase == ConnectionPhase::Opening
                || local.announce.is_some_and(|(_, times)| times < MIN_UNECHOED_ANNOUNCEMENTS);
            let obstacle = match (local.up, is_new && !self.has_fallen_back()) {
                (false, _) => Obstacle::NoRoute,
                (true, true) => Obstacle::Pending,
                (true, false) => Obstacle::Stripped,
            };
            let obstacle = (!has_opened).then_some(obstacle);
            WantedPath { local: ip, remote: first.block.remote(), obstacle }
        };
        addresses.map(path).collect()
    }

    fn has_fallen_back(&self) -> bool {
        self.subflows.first().is_some_and(|first| first.handshake == Handshake::Plain)
    }
}
