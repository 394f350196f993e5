//! Explicit congestion notification (RFC 4960 appendix A): routers mark packets instead of dropping them. The
//! receiver sends an ECNE with every acknowledgement until the sender responds with a CWR. The sender cuts
//! its window once for each window of marked packets.
//!
//! A mark belongs to one path. The receiver keeps one echo per path, as FreeBSD's stack does. The ECNE precedes the
//! SACK of its packet. When the first ECNE is received, its chunk is therefore still on the scoreboard and identifies
//! the path. An ECNE for a chunk that is already acknowledged is a retransmission, because the CWR was lost or is in
//! flight. It is answered with another CWR only.

use super::echo::Echo;
use crate::common::Core;
use crate::open::Open;
use anabranch_base::time::Time;
use anabranch_multipath::congestion::{Loss, LossKind};
use anabranch_wire::sctp::{Chunk, CongestionEcho, CongestionReduced};
use anabranch_wire::seq::Serial;

impl Open {
    /// Records a packet with an ECN mark; `lowest_tsn` is the lowest TSN in it.
    pub fn note_mark(&mut self, at: Option<usize>, lowest_tsn: u64) {
        if self.extensions.ecn && self.echoes.iter().all(|echo| echo.at != at) {
            self.echoes.push(Echo { at, tsn: lowest_tsn });
        }
    }

    /// ECNE chunks, which are sent before the SACK.
    pub fn echo_chunks(&self) -> impl Iterator<Item = Chunk> {
        self.echoes.iter().map(|echo| {
            let lowest_tsn = Serial(echo.tsn as u32);
            Chunk::CongestionEcho(CongestionEcho { lowest_tsn, marked_packets: None })
        })
    }

    /// Handles an ECNE that arrived on path `at`. The mark belongs to the path that carried the marked chunk.
    pub fn handle_echo(&mut self, core: &mut Core, now: Time, at: Option<usize>, echo: CongestionEcho) {
        let sent = &self.outbound.sent;
        let (tsn, next) = (echo.lowest_tsn.unwrap_near(sent.base()), sent.next_tsn());
        if tsn >= next {
            return;
        }
        let chunk = sent.get(tsn);
        // It is unknown which transmission of a retransmitted chunk was marked.
        let carrier = chunk.filter(|chunk| chunk.transmissions == 1).map(|chunk| usize::from(chunk.path));
        if let Some(carrier) = carrier {
            self.reduce(core, now, (carrier, tsn));
        }
        let reduced = CongestionReduced { lowest_tsn: echo.lowest_tsn };
        let to = carrier.or(at).unwrap_or(self.ack_path);
        core.send_control(to, self.peer_tag, Chunk::CongestionReduced(reduced));
    }

    /// Reduces the window of a path, at most once for the data in flight at that time.
    fn reduce(&self, core: &mut Core, now: Time, (carrier, tsn): (usize, u64)) {
        let path = &mut core.paths[carrier];
        if tsn < path.marks_heard {
            return;
        }
        path.marks_heard = self.outbound.sent.next_tsn();
        if path.recovery.is_some() {
            return;
        }
        path.counters.ecn_reductions += 1;
        let (id, in_flight) = (path.id, path.totals.in_flight());
        core.congestion.on_loss(&Loss { now, path: id, kind: LossKind::Ecn, in_flight });
    }

    /// Handles a CWR: the peer has processed the mark of the packet with this TSN, and all earlier marks on the path of
    /// the CWR.
    pub fn handle_reduced(&mut self, at: Option<usize>, reduced: CongestionReduced) {
        let newest = reduced.lowest_tsn;
        self.echoes.retain(|echo| {
            let tsn = Serial(echo.tsn as u32);
            let heard = tsn == newest || echo.at == at && tsn.before(newest);
            !heard
        });
    }
}
