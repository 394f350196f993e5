//! Network control: each path sends requests to the routers on its path, and gets back their records (Becke2014
//! §8.1.2). The format is our own, and experimental.
//!
//! The first packet with new data of a path carries a request, and later one packet per interval. The
//! receiver returns the records of a request at once, with a SACK on the path that carried the request. If a
//! report and a request are due, the report is sent first, because a packet has room for one chunk at the
//! position that routers read.

use crate::common::Core;
use crate::path::state::Reachability;
use anabranch_base::time::{Duration, Time};
use anabranch_multipath::PathId;
use anabranch_wire::sctp::NetworkControl;

/// State of network control, if it is enabled.
#[derive(Debug)]
pub(crate) struct Control {
    /// Random number that identifies the association to routers.
    association: u32,
    interval: Duration,
    /// Time of each path's next request.
    due: Vec<Time>,
    /// Requests whose records are to be returned, and their paths; one per path.
    pending: Vec<(usize, Box<NetworkControl>)>,
    /// The last report of each path that has one.
    reports: Vec<(PathId, Box<NetworkControl>)>,
}

impl Control {
    /// Creates the state of an association that repeats requests after this interval.
    pub fn new(association: u32, interval: Duration) -> Self {
        Self { association, interval, due: Vec::new(), pending: Vec::new(), reports: Vec::new() }
    }

    /// The last report of each path that has one.
    pub fn reports(&self) -> impl Iterator<Item = (PathId, &NetworkControl)> {
        self.reports.iter().map(|(path, report)| (*path, &**report))
    }

    /// Returns true if a path's request has not been returned.
    pub fn owes_report(&self, at: usize) -> bool {
        self.pending.iter().any(|&(known, _)| known == at)
    }

    /// Returns true if a report belongs to this association.
    pub const fn has_sent(&self, report: &NetworkControl) -> bool {
        report.association == self.association
    }

    /// Removes and returns the request of a path that has not been returned.
    pub fn take_pending(&mut self, at: usize) -> Option<Box<NetworkControl>> {
        let place = self.pending.iter().position(|&(known, _)| known == at)?;
        Some(self.pending.remove(place).1)
    }

    /// Stores a request that arrived on a path, in place of an earlier one of that path.
    pub fn store_request(&mut self, at: usize, request: Box<NetworkControl>) {
        self.pending.retain(|&(known, _)| known != at);
        self.pending.push((at, request));
    }

    /// Stores the report of a path, in place of its earlier one.
    pub fn store_report(&mut self, path: PathId, report: Box<NetworkControl>) {
        self.reports.retain(|(known, _)| *known != path);
        self.reports.push((path, report));
        self.reports.sort_by_key(|&(path, _)| path);
    }

    /// True if a request of a path is due.
    pub fn is_due(&self, at: usize, now: Time) -> bool {
        at < usize::from(NetworkControl::MAX_PATHS) && self.due.get(at).is_none_or(|&due| due <= now)
    }

    /// The request of a path.
    pub fn request(&mut self, core: &Core, at: usize, now: Time) -> NetworkControl {
        if self.due.len() <= at {
            self.due.resize(at + 1, Time::ZERO);
        }
        self.due[at] = now + self.interval;
        let is_other =
            |other: &usize| *other != at && core.paths[*other].reachability != Reachability::Removed;
        let others = (0..core.paths.len()).filter(is_other);
        let path = &core.paths[at];
        let rate = (core.congestion.window(path.id), path.rtt.srtt().map(Duration::as_secs_f64));
        NetworkControl::of_path(self.association, (at, core.paths.len()), others, rate)
    }
}
