//! Selective acknowledgements (RFC 2018) and reports of duplicates (D-SACK, RFC 2883).

use super::phase::AckEffects;
use super::tcb::{Context, Tcb};
use anabranch_wire::tcp::{SackBlocks, Segment};

impl Tcb {
    /// Processes the blocks of a segment whose acknowledgement number has the position `ack`.
    pub(super) fn take_sack(
        &mut self,
        context: &Context<'_>,
        (ack, segment): (u64, &Segment),
        effects: &mut AckEffects,
    ) {
        if !self.agreed.sack || segment.options.sack.is_empty() {
            return;
        }
        let blocks = segment.options.sack.as_slice();
        // The newest block is the first one (RFC 2018 §4). In the order of the data, none seems to be overtaken by another
        // block of the same segment.
        let mut ranges = [(u64::MAX, 0); SackBlocks::MAX];
        for (index, (&(left, right), range)) in blocks.iter().zip(&mut ranges).enumerate() {
            let (left, right) = (self.send_position(left), self.send_position(right));
            if left >= right || right > self.nxt {
                continue; // empty, reversed, or of unsent data (a wrapped position is huge)
            }
            let within_next = blocks
                .get(index + 1)
                .is_some_and(|&(l, r)| self.send_position(l) <= left && right <= self.send_position(r));
            if index == 0 && (right <= ack || within_next) {
                effects.duplicate = Some((left, right)); // RFC 2883 §4
            } else if right > self.una {
                *range = (left, right);
            }
        }
        if blocks.len() > 1 {
            ranges.sort_unstable();
        }
        for (left, right) in ranges.into_iter().filter(|&(left, right)| left < right) {
            let (rack, rtt, rate) = (&mut self.rack, &self.rtt, &mut self.rate);
            self.board.sack(left.max(self.una), right, |sent| {
                effects.delivered += u64::from(sent.len);
                if !sent.ambiguous {
                    effects.original =
                        Some(effects.original.map_or(sent.start, |first| first.min(sent.start)));
                }
                rack.delivered(context.now, (sent.at, sent.end(), sent.ambiguous), rtt);
                if let Some(rate) = rate {
                    rate.delivered(context.now, sent.start..sent.end());
                }
            });
        }
    }

    /// Processes the blocks of an acknowledgement that a newer one has overtaken. Its number and its window are old, but
    /// its blocks may report data or a duplicate that no other acknowledgement has reported (RFC 6675 §2; Linux:
    /// `tcp_ack`). `ack` is the position of its number; a number before the first data byte has wrapped below zero.
    pub(super) fn take_late_sack(&mut self, context: &mut Context<'_>, ack: u64, segment: &Segment) {
        let ack = if ack > self.una { 0 } else { ack };
        let mut effects = AckEffects { overtaken: true, ..AckEffects::default() };
        self.take_sack(context, (ack, segment), &mut effects);
        if effects.delivered > 0 {
            self.duplicates += 1;
        } else if effects.duplicate.is_none() {
            return;
        }
        let limited = self.used.was_full(self.una);
        self.apply(context, &effects, (segment.options.timestamps, limited));
    }
}
