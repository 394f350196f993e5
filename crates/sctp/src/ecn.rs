//! Explicit congestion notification (RFC 4960 appendix A): routers mark packets instead of dropping them. The receiver says so
//! with every acknowledgement (ECNE) until the sender says that it has heard (CWR), which cuts its window once for each window
//! of marked packets.

use super::common::Core;
use super::open::Open;
use anabranch_base::time::Time;
use anabranch_multipath::congestion::{Loss, LossKind};
use anabranch_wire::sctp::{Chunk, CongestionEcho, CongestionReduced};
use anabranch_wire::seq::Serial;

impl Open {
    /// A packet came marked whose lowest TSN is this.
    pub fn note_mark(&mut self, lowest_tsn: u64) {
        if self.extensions.ecn {
            self.echo.get_or_insert(lowest_tsn);
        }
    }

    /// What goes out before an acknowledgement.
    pub fn echo_chunk(&self) -> Option<Chunk> {
        let lowest_tsn = Serial(self.echo? as u32);
        Some(Chunk::CongestionEcho(CongestionEcho { lowest_tsn, marked_packets: None }))
    }

    /// The peer saw a mark: on the path that carried that chunk, or, if it has been acknowledged since, on path `at`.
    pub fn handle_echo(&mut self, core: &mut Core, now: Time, at: Option<usize>, echo: CongestionEcho) {
        let sent = &self.outbound.sent;
        let (tsn, next) = (echo.lowest_tsn.unwrap_near(sent.base()), sent.next_tsn());
        if tsn >= next {
            return;
        }
        let carrier = sent.get(tsn).map(|chunk| usize::from(chunk.path));
        let carrier = carrier.or(at).unwrap_or(self.ack_path);
        let path = &mut core.paths[carrier];
        if tsn >= path.marks_heard && path.recovery.is_none() {
            path.marks_heard = next;
            path.counters.ecn_reductions += 1;
            let (id, in_flight) = (path.id, path.load.in_flight());
            core.congestion.on_loss(&Loss { now, path: id, kind: LossKind::Ecn, in_flight });
        }
        let reduced = CongestionReduced { lowest_tsn: echo.lowest_tsn };
        core.send_control(carrier, self.peer_tag, Chunk::CongestionReduced(reduced));
    }

    /// The peer has heard of a mark.
    pub fn handle_reduced(&mut self, reduced: CongestionReduced) {
        let heard = |&tsn: &u64| Serial(tsn as u32).before(reduced.lowest_tsn.add(1));
        self.echo = self.echo.filter(|tsn| !heard(tsn));
    }
}
