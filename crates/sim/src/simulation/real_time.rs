//! A run by a clock of the machine: hosts exchange serialised packets in real time.

use super::{Progress, RunError, Simulation};
use crate::engine::datapath::{EndId, Outcome};
use crate::engine::link::PacketRef;
use anabranch_base::time::{Duration, Time};
use anabranch_wire::Packet;
use std::collections::VecDeque;

/// Interval between reports of progress, at which the run can be stopped.
const REPORT_INTERVAL: Duration = Duration::from_millis(50);

/// A clock of the machine, which is zero at the start of the run.
pub trait RealClock {
    /// The time now, which never decreases.
    fn now(&self) -> Time;

    /// Sleeps until `due`.
    fn wait(&mut self, due: Time);

    /// Records the delivery at `now` of a packet that was due at `due`.
    fn delivered(&mut self, due: Time, now: Time);

    /// Receives a packet that an end of a flow has sent since the last reading of the clock, after
    /// [`Simulation::keep_sent`].
    fn sent(&mut self, packet: &Packet) {
        let _ = packet;
    }
}

/// A due event at an end of a flow.
#[derive(Clone, Copy, Debug)]
enum Pending {
    Packet(EndId, PacketRef),
    Search(EndId, PacketRef),
    Timer(EndId),
}

impl Simulation {
    /// Passes every packet that an end of a flow sends in real time to the clock.
    pub fn keep_sent(&mut self) {
        self.world.datapath.keep_sent();
    }

    /// Runs by a clock to the end: [`run`](Self::run) in real time, with packets as bytes.
    ///
    /// Invariant: before an end of a flow acts at a time, links and events of the scenario have been processed until
    /// that time, each with its own. So a late loop delays deliveries and timers, but does not change any decision of a
    /// queue or a link. `progress` is called every 50 ms.
    ///
    /// # Errors
    ///
    /// If the run is stopped, a packet does not parse or has another content, or a file cannot be written.
    pub fn run_by(
        &mut self,
        clock: &mut impl RealClock,
        progress: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<(), RunError> {
        self.world.datapath.carry_bytes();
        self.set_stop(self.end);
        let mut pending = VecDeque::new();
        let mut report_at = Time::ZERO;
        loop {
            let now = clock.now();
            self.advance(now, &mut pending, progress)?;
            self.pass_sent(clock);
            if now >= self.end {
                break;
            }
            if now >= report_at {
                self.report_progress(now, progress)?;
                report_at = now + REPORT_INTERVAL;
            }
            if let Some((due, event)) = pending.pop_front() {
                self.handle(now, (due, event), clock)?;
                self.pass_sent(clock);
            } else {
                let next = self.world.datapath.next_event().unwrap_or(Time::MAX);
                clock.wait(next.min(self.controls.next).min(report_at));
            }
        }
        self.finish(progress)
    }

    fn pass_sent(&mut self, clock: &mut impl RealClock) {
        self.world.datapath.take_sent().iter().for_each(|packet| clock.sent(packet));
    }

    /// Processes links and events of the scenario until `now`. Events at ends of flows become pending.
    fn advance(
        &mut self,
        now: Time,
        pending: &mut VecDeque<(Time, Pending)>,
        progress: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<(), RunError> {
        loop {
            let due = self.world.datapath.next_event().unwrap_or(Time::MAX);
            if self.controls.next <= due.min(now) {
                if self.controls.next >= self.end {
                    return Ok(());
                }
                self.control(progress)?;
            } else if due > now {
                return Ok(());
            } else {
                match self.world.datapath.step() {
                    Outcome::Nothing => {}
                    Outcome::Arrived(end, frame) => pending.push_back((due, Pending::Packet(end, frame))),
                    Outcome::Searches(end, frame) => pending.push_back((due, Pending::Search(end, frame))),
                    Outcome::Woken(end) => pending.push_back((due, Pending::Timer(end))),
                }
            }
        }
    }

    /// Processes a pending event at an end of a flow.
    fn handle(
        &mut self,
        now: Time,
        (due, event): (Time, Pending),
        clock: &mut impl RealClock,
    ) -> Result<(), RunError> {
        let end = match event {
            Pending::Packet(end, frame) => {
                clock.delivered(due, now);
                if !self.world.datapath.parse_arrival(now, frame) {
                    // The failure is known already; this call returns it at once.
                    return self.report_progress(now, &mut |_| true);
                }
                self.flows[end as usize / 2].arrived(now, end as usize % 2, frame, &mut self.world);
                end
            }
            Pending::Search(end, frame) => {
                self.search(now, end, frame);
                return Ok(());
            }
            Pending::Timer(end) => {
                let flow = &mut self.flows[end as usize / 2];
                self.timer_events += flow.due(now, end as usize % 2, &mut self.world);
                end
            }
        };
        self.relays.turn(now, end, &mut self.flows, &mut self.world);
        if self.trace_changes {
            self.sample_flow(now, end)?;
        }
        Ok(())
    }
}
