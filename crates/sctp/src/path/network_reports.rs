//! Chunks of network control in the packets of an association.

use crate::common::Core;
use crate::open::Open;
use anabranch_base::time::{Duration, Time};
use anabranch_base::units::Rate;
use anabranch_multipath::PathId;
use anabranch_multipath::scheduler::{LinkInformation, PathInformation};
use anabranch_settings::policy::Information;
use anabranch_wire::sctp::network_control::Record;
use anabranch_wire::sctp::{Chunk, Chunks, NetworkControl};

/// The characteristics in a router's record.
fn link_of(record: &Record) -> LinkInformation {
    LinkInformation {
        rate: Rate::from_bits_per_second(1000 * u64::from(record.rate_kbit_per_s)),
        delay: Duration::from_micros(100 * u64::from(record.delay_100us)),
        loss: f64::from(record.loss_milli_percent) / 1e5,
    }
}

impl Open {
    /// True if a request is due for a packet with new data of path `at`, and the packet carries no report.
    #[cold]
    pub fn owes_request(&self, (at, now): (usize, Time), acknowledges: bool) -> bool {
        let due = self.control.as_ref().filter(|control| control.is_due(at, now));
        due.is_some_and(|control| !(acknowledges && control.owes_report(at)))
    }

    /// Begins a packet of path `at` with a request.
    #[cold]
    pub fn put_request(&mut self, core: &mut Core, (at, now): (usize, Time), chunks: &mut Chunks) {
        let Some(control) = &mut self.control else { return };
        let request = Box::new(control.request(core, at, now));
        core.totals.network_requests_sent += 1;
        chunks.list().insert(0, Chunk::NetworkControl(request));
    }

    /// Puts the records of a request in front of a SACK, if the SACK's path has carried a request.
    pub fn push_report(&mut self, core: &mut Core, chunks: &mut Chunks) {
        let Some(control) = &mut self.control else { return };
        let Some(request) = control.take_pending(self.ack_path) else { return };
        core.totals.network_reports_sent += 1;
        chunks.push(Chunk::NetworkControl(Box::new(NetworkControl { is_report: true, ..*request })));
    }

    /// Handles a chunk that arrived on path `at`. An association without network control skips it.
    pub fn handle_network_control(&mut self, core: &mut Core, at: Option<usize>, chunk: &NetworkControl) {
        let Some(control) = &mut self.control else { return };
        let chunk = Box::new(chunk.clone());
        if chunk.is_report {
            let path = PathId(chunk.path);
            if !control.has_sent(&chunk) || path.index() >= core.paths.len() {
                core.totals.network_controls_ignored += 1;
                return;
            }
            core.totals.network_reports_received += 1;
            if core.config.information == Information::Chunk {
                let links = chunk.records.iter().map(link_of);
                let information = PathInformation::of_links(links, core.paths[path.index()].mtu);
                core.scheduler.on_information(path, information);
            }
            control.store_report(path, chunk);
        } else if let Some(at) = at {
            core.totals.network_requests_received += 1;
            control.store_request(at, chunk);
            // A SACK is sent at once, since a later packet on a nearer path would move the SACK there.
            self.inbound.acknowledge_now();
        } else {
            core.totals.network_controls_ignored += 1;
        }
    }

    /// Counts a network control chunk with an invalid content.
    pub fn ignore_network_control(&self, core: &mut Core) {
        core.totals.network_controls_ignored += u64::from(self.control.is_some());
    }
}
