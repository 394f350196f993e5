//! Shutdown of an association (RFC 9260 §9.2).

use crate::common::{Core, violation};
use crate::open::Open;
use crate::origin::Origin;
use crate::phase::Phase;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::endpoint::{Event, Reason};
use anabranch_wire::sctp::{Chunk, Shutdown, ShutdownComplete};
use anabranch_wire::seq::Serial;

/// Time for which the end of an association waits for missing data: three timeouts of one second and more.
const MAX_DATA_WAIT: Duration = Duration::from_secs(10);

impl Open {
    /// Closes the sending direction for the application.
    pub fn close(&mut self, core: &mut Core, now: Time) -> Option<Reason> {
        if self.phase == Phase::Established {
            self.phase = Phase::ShutdownPending;
        }
        self.outbound.closing = true;
        self.progress(core, now)
    }

    /// Performs the next step of the shutdown once all data that must precede it is acknowledged.
    #[inline]
    pub fn progress(&mut self, core: &mut Core, now: Time) -> Option<Reason> {
        if self.phase == Phase::Established { None } else { self.progress_to_end(core, now) }
    }

    fn progress_to_end(&mut self, core: &mut Core, now: Time) -> Option<Reason> {
        match self.phase {
            Phase::ShutdownPending if self.outbound.drained() => {
                let guard = now + core.config.rto.max.saturating_mul(5);
                self.send_shutdown(core, now, guard);
            }
            Phase::ShutdownReceived if self.outbound.drained() => self.send_shutdown_ack(core, now),
            _ => {}
        }
        None
    }

    fn send_shutdown(&mut self, core: &mut Core, now: Time, guard: Time) {
        let at = core.preferred();
        let cumulative_tsn = Serial(self.inbound.cumulative() as u32);
        core.send_control(at, self.peer_tag, Chunk::Shutdown(Shutdown { cumulative_tsn }));
        self.phase = Phase::ShutdownSent { due: now + core.timeout_on(at), guard };
    }

    fn send_shutdown_ack(&mut self, core: &mut Core, now: Time) {
        let at = core.preferred();
        core.send_control(at, self.peer_tag, Chunk::ShutdownAck);
        self.phase = Phase::ShutdownAckSent { due: now + core.timeout_on(at) };
    }

    /// Responds to data received after SHUTDOWN was sent: with a SHUTDOWN, and a SACK if there are gaps.
    pub fn answer_data_in_shutdown(&mut self, core: &mut Core, now: Time) {
        if let Phase::ShutdownSent { guard, .. } = self.phase {
            self.inbound.acknowledge_now();
            self.send_shutdown(core, now, guard);
        }
    }

    pub fn handle_shutdown(&mut self, core: &mut Core, now: Time, shutdown: Shutdown) -> Option<Reason> {
        self.acknowledge_up_to(core, now, shutdown.cumulative_tsn);
        if self.phase.takes_data() && self.waits_for_data(now) {
            return None;
        }
        match self.phase {
            Phase::Established | Phase::ShutdownPending => {
                self.phase = Phase::ShutdownReceived;
                self.outbound.closing = true;
                core.events.push_back(Event::Finished);
            }
            // Both endpoints close at the same time.
            Phase::ShutdownSent { .. } => {
                core.events.push_back(Event::Finished);
                self.send_shutdown_ack(core, now);
            }
            Phase::ShutdownAckSent { .. } => self.send_shutdown_ack(core, now),
            Phase::ShutdownReceived => {}
        }
        None
    }

    /// Returns true if a SHUTDOWN or SHUTDOWN ACK has to wait because data is missing that the peer has sent before it, and
    /// acknowledges the other data. RFC 9260 §9.2 has the peer wait for the acknowledgement, but dcSCTP 0.1 does not. The
    /// peer repeats the chunk, and the data. After a time the data counts as abandoned.
    fn waits_for_data(&mut self, now: Time) -> bool {
        let limit = *self.end_due.get_or_insert(now + MAX_DATA_WAIT);
        let waits = self.inbound.has_gap() && now < limit;
        if waits {
            self.inbound.acknowledge_now();
        }
        waits
    }

    pub fn handle_shutdown_ack(&mut self, core: &mut Core, (now, origin): (Time, Origin)) -> Option<Reason> {
        if matches!(self.phase, Phase::ShutdownSent { .. }) && self.waits_for_data(now) {
            return None;
        }
        match self.phase {
            Phase::ShutdownSent { .. } | Phase::ShutdownAckSent { .. } => {
                let chunk = Chunk::ShutdownComplete(ShutdownComplete { reflected_tag: false });
                core.reply(origin, self.peer_tag, chunk);
                if matches!(self.phase, Phase::ShutdownSent { .. }) {
                    core.events.push_back(Event::Finished);
                }
                Some(Reason::Closed)
            }
            _ => None,
        }
    }

    pub fn handle_shutdown_complete(&mut self) -> Option<Reason> {
        matches!(self.phase, Phase::ShutdownAckSent { .. }).then_some(Reason::Closed)
    }

    pub fn shutdown_timeout(&mut self, core: &mut Core, now: Time) -> Option<Reason> {
        if self.phase.due() > now {
            return None;
        }
        let at = core.preferred();
        core.paths[at].rtt.back_off();
        core.path_error(now, at);
        if core.exhausted() {
            return Some(Reason::TimedOut);
        }
        match self.phase {
            Phase::ShutdownSent { guard, .. } if guard <= now => {
                self.refuse(core, violation("shutdown took too long"));
                Some(Reason::TimedOut)
            }
            Phase::ShutdownSent { guard, .. } => {
                self.send_shutdown(core, now, guard);
                None
            }
            _ => {
                self.send_shutdown_ack(core, now);
                None
            }
        }
    }
}
