//! The paths that an association wants, and the obstacle of each that has never answered. Computed for results only.

use super::state::{Association, State};
use crate::config::is_routed;
use crate::path::state::{Path, Reachability};
use anabranch_endpoint::{Obstacle, WantedPath};
use anabranch_multipath::MAX_PATHS;
use core::net::{IpAddr, SocketAddr};

impl Association {
    /// Paths of the association, and addresses of the peer without a path.
    pub(crate) fn wanted(&self) -> Vec<WantedPath> {
        let path = |path: &Path| WantedPath {
            local: path.local.ip(),
            remote: path.remote,
            obstacle: self.obstacle(path),
        };
        let mut wanted: Vec<WantedPath> = self.core.paths.iter().map(path).collect();
        let is_known = |remote: IpAddr| self.core.paths.iter().any(|path| path.remote.ip() == remote);
        let further = self.core.remote.iter().filter(|remote| !is_known(**remote));
        wanted.extend(further.filter_map(|remote| self.without_path(*remote)));
        wanted
    }

    fn obstacle(&self, path: &Path) -> Option<Obstacle> {
        let has_opened = path.reachability == Reachability::Active || path.rtt.srtt().is_some();
        let obstacle = if self.core.down.contains(&path.local.ip()) {
            Obstacle::NoRoute
        } else if path.errors > 0 || path.counters.timeouts > 0 {
            Obstacle::NoAnswer
        } else {
            Obstacle::Pending
        };
        (!has_opened).then_some(obstacle)
    }

    fn without_path(&self, remote: IpAddr) -> Option<WantedPath> {
        let fitting =
            self.core.local.iter().map(|own| own.ip).filter(|own| own.is_ipv4() == remote.is_ipv4());
        let locals: Vec<IpAddr> = fitting.collect();
        let routed = locals.iter().find(|local| is_routed(&self.core.config, **local, remote));
        let obstacle = match routed {
            None => Obstacle::NoRoute,
            Some(_) if self.core.paths.len() >= MAX_PATHS => Obstacle::Limit,
            Some(_) if matches!(self.state, State::Open(_)) => Obstacle::Stripped,
            Some(_) => Obstacle::Pending,
        };
        let local = *routed.or(locals.first())?;
        let remote = SocketAddr::new(remote, self.core.remote_port);
        Some(WantedPath { local, remote, obstacle: Some(obstacle) })
    }
}
