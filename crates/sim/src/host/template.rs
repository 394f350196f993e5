//! The connections of a flow with arrivals.

use super::applications::{Applications, Streams, Transfer};
use super::delivery::Service;
use super::flow::{Flow, Parts};
use super::hosts::HostId;
use crate::scenario::model::{MessageSize, Workload};
use anabranch_base::rng::Rng;
use anabranch_base::time::Time;
use anabranch_endpoint::Ends;
use anabranch_host::Protocol;
use anabranch_scenario::workload::Application;

/// The connections of a flow with arrivals, which differ in their files.
#[derive(Debug)]
pub struct Template {
    pub(super) name: String,
    pub(super) hosts: [HostId; 2],
    /// Parameters of each connection, with a port that the host chooses.
    pub(super) opening: Box<(Protocol, Ends)>,
    pub(super) source: usize,
    pub(super) service: Service,
    pub(super) streams: Streams,
    /// Message sizes of the workload, and the size for protocols with messages if the workload has none.
    pub(super) messages: (Option<MessageSize>, Option<u64>),
    pub(super) stop: Time,
    pub(super) rng: Rng,
}

impl Template {
    /// The applications of a connection for a file of this size; `number` is that of the arrival.
    pub(super) fn applications(&self, now: Time, size: u64, number: u64) -> Applications {
        let (message, whole) = self.messages.clone();
        let workload = Workload::File { size: MessageSize::Constant(size), message, arrivals: None };
        let rng = self.rng.fork(&format!("application.{number}"));
        let writer = Application::new(&workload, [now, self.stop], whole, &rng);
        let mut transfers = [None, None];
        transfers[self.source] = Some(Box::new(Transfer::new(writer, self.service, self.streams)));
        Applications::new(&self.name, transfers, None)
    }

    /// A slot without a connection, with this index among the connections.
    pub(super) fn place(&self, index: usize, start: Time) -> Flow {
        let parts = Parts {
            hosts: self.hosts,
            opening: self.opening.clone(),
            applications: self.applications(start, 1, 0),
            source: self.source,
        };
        Flow::new(index as u32, parts, start).as_place()
    }
}
