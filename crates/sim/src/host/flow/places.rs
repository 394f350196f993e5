//! Slots of flows with arrivals. A slot has one connection after another, all between the same two hosts.

use super::Flow;
use crate::host::applications::{Applications, News};
use crate::host::hosts::FlowEnvironment;
use crate::host::meters::Meters;
use crate::host::side::SENDER;
use anabranch_base::time::Time;
use anabranch_endpoint::Ends;
use anabranch_host::Protocol;

impl Flow {
    /// Makes the value a slot of a flow with arrivals, without a connection.
    #[must_use]
    pub fn as_place(self) -> Self {
        Self { is_reused: true, opening: None, ..self }
    }

    /// Opens a connection at a free slot; returns whether the host has a port for it.
    pub fn reopen(
        &mut self,
        now: Time,
        (opening, applications): (&(Protocol, Ends), Applications),
        world: &mut FlowEnvironment,
    ) -> bool {
        (self.start, self.meters) = (now, Meters::new(self.source, now));
        self.meters.measure_streams(now, applications.streams(self.source));
        self.applications = applications;
        let is_open = self.connect(now, opening, world).is_ok();
        self.schedule_wake_up(SENDER, &mut world.datapath);
        is_open
    }

    /// Releases the endpoints of both ends, which have ended.
    pub fn release(&mut self, now: Time, world: &mut FlowEnvironment) {
        for end in &mut self.ends {
            let host = world.hosts.get_mut(end.host);
            if let Some(connection) = end.connection.take() {
                host.forget(now, connection);
            }
            host.release_records(now);
            (end.live, end.scheduled, end.news) = (None, Time::MAX, News::default());
            world.datapath.forget_flow(&mut end.routes);
        }
    }
}
