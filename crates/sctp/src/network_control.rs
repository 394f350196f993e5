//! Network control: requests of paths to the routers on their way, and the records that return (Becke2014 §8.1.2). The
//! format is our own, and experimental.
//!
//! A path's first packet with new data carries a request, and then one packet after each interval. The receiver returns
//! the records of a request with a SACK on the path that brought it, at once. A report precedes a request where
//! both are due, because a packet has room for one chunk at the place that routers read.

use super::common::Core;
use super::open::Open;
use super::path::Reachability;
use anabranch_base::time::{Duration, Time};
use anabranch_base::units::Rate;
use anabranch_multipath::PathId;
use anabranch_multipath::scheduler::{LinkInformation, PathInformation};
use anabranch_settings::policy::Information;
use anabranch_wire::sctp::network_control::Record;
use anabranch_wire::sctp::{Chunk, Chunks, NetworkControl};

/// State of network control, if it is enabled.
#[derive(Debug)]
pub(super) struct Control {
    /// Random number by which routers recognise the association.
    association: u32,
    interval: Duration,
    /// Time of each path's next request.
    due: Vec<Time>,
    /// Requests to return, with the path that brought each; one per path.
    pending: Vec<(usize, Box<NetworkControl>)>,
    /// The last report of each path that has one.
    reports: Vec<(PathId, Box<NetworkControl>)>,
}

impl Control {
    /// The state for an association that repeats requests after this interval.
    pub fn new(association: u32, interval: Duration) -> Self {
        Self { association, interval, due: Vec::new(), pending: Vec::new(), reports: Vec::new() }
    }

    /// The last report of each path that has one.
    pub fn reports(&self) -> impl Iterator<Item = (PathId, &NetworkControl)> {
        self.reports.iter().map(|(path, report)| (*path, &**report))
    }

    /// Whether a path has brought a request that has not been returned.
    pub fn owes_report(&self, at: usize) -> bool {
        self.pending.iter().any(|&(known, _)| known == at)
    }

    /// Whether a request of a path is due.
    fn is_due(&self, at: usize, now: Time) -> bool {
        at < usize::from(NetworkControl::MAX_PATHS) && self.due.get(at).is_none_or(|&due| due <= now)
    }

    /// The request of a path.
    fn request(&mut self, core: &Core, at: usize, now: Time) -> NetworkControl {
        if self.due.len() <= at {
            self.due.resize(at + 1, Time::ZERO);
        }
        self.due[at] = now + self.interval;
        let most = usize::from(NetworkControl::MAX_PATHS);
        let is_other =
            |other: &usize| *other != at && core.paths[*other].reachability != Reachability::Removed;
        let others = (0..core.paths.len().min(most)).filter(is_other);
        let path = &core.paths[at];
        let kbit_per_s = |srtt: Duration| {
            (8e-3 * core.congestion.window(path.id) as f64 / srtt.as_secs_f64().max(1e-6)) as u32
        };
        NetworkControl {
            association: self.association,
            path: at as u8,
            paths: core.paths.len().min(most) as u8,
            wanted_kbit_per_s: path.rtt.srtt().map_or(0, kbit_per_s),
            apart_from: others.fold(0, |mask, other| mask | 1 << other),
            ..NetworkControl::default()
        }
    }
}

/// The characteristics in a router's record.
fn link_of(record: &Record) -> LinkInformation {
    LinkInformation {
        rate: Rate::from_bits_per_second(1000 * u64::from(record.rate_kbit_per_s)),
        delay: Duration::from_micros(100 * u64::from(record.delay_100us)),
        loss: f64::from(record.loss_milli_percent) / 1e5,
    }
}

impl Open {
    /// The request for a packet with new data of path `at`, if one is due.
    pub fn take_request(&mut self, core: &mut Core, (at, now): (usize, Time)) -> Option<Chunk> {
        let control = self.control.as_mut().filter(|control| control.is_due(at, now))?;
        let acknowledges = self.inbound.pending() && at == self.ack_path;
        if acknowledges && control.owes_report(at) {
            return None;
        }
        let request = control.request(core, at, now);
        core.totals.network_requests_sent += 1;
        Some(Chunk::NetworkControl(Box::new(request)))
    }

    /// Begins a packet with a SACK with the records of a request, if the SACK's path has brought one.
    pub fn push_report(&mut self, core: &mut Core, chunks: &mut Chunks) {
        let Some(control) = &mut self.control else { return };
        let Some(place) = control.pending.iter().position(|&(at, _)| at == self.ack_path) else { return };
        let (_, request) = control.pending.remove(place);
        core.totals.network_reports_sent += 1;
        chunks.push(Chunk::NetworkControl(Box::new(NetworkControl { is_report: true, ..*request })));
    }

    /// Handles a chunk that arrived on path `at`. An association without network control skips it.
    pub fn handle_network_control(&mut self, core: &mut Core, at: Option<usize>, chunk: &NetworkControl) {
        let Some(control) = &mut self.control else { return };
        let chunk = Box::new(chunk.clone());
        if chunk.is_report {
            let path = PathId(chunk.path);
            if chunk.association != control.association || path.index() >= core.paths.len() {
                core.totals.network_controls_ignored += 1;
                return;
            }
            core.totals.network_reports_received += 1;
            if core.config.information == Information::Chunk {
                let links = chunk.records.iter().map(link_of);
                let information = PathInformation::of_links(links, core.paths[path.index()].mtu);
                core.scheduler.on_information(path, information);
            }
            control.reports.retain(|(known, _)| *known != path);
            control.reports.push((path, chunk));
            control.reports.sort_by_key(|&(path, _)| path);
        } else if let Some(at) = at {
            core.totals.network_requests_received += 1;
            control.pending.retain(|&(known, _)| known != at);
            control.pending.push((at, chunk));
            // A later packet on a nearer path would move the SACK there.
            self.inbound.acknowledge_now();
        } else {
            core.totals.network_controls_ignored += 1;
        }
    }

    /// Counts a chunk of the type with an invalid content.
    pub fn ignore_network_control(&self, core: &mut Core) {
        core.totals.network_controls_ignored += u64::from(self.control.is_some());
    }
}
