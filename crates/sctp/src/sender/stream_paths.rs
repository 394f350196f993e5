//! Streams with fixed paths (Becke2014 §7.2.2.2): the path of the next packet follows from its stream.

use super::outbound::Outbound;
use crate::common::Core;
use crate::path::state::Path;
use anabranch_base::time::Time;
use anabranch_multipath::MAX_PATHS;
use anabranch_multipath::buffer::{Occupancy, SendPermission, Shared, Splitting};

impl Path {
    /// Bytes of the path's chunks that count against its shares of the buffers.
    #[inline]
    pub fn occupancy(&self) -> Occupancy {
        Occupancy { outstanding: self.totals.in_flight(), buffered: self.totals.buffered() }
    }

    /// True if the path has not used up its share of the buffers.
    #[inline]
    pub fn has_share(&self, splitting: Splitting, shared: &Shared) -> bool {
        splitting.judge(self.occupancy(), self.mss, shared) == SendPermission::Admitted
    }
}

impl Outbound {
    /// The path of the next packet: that of the first stream, in the order of the stream scheduler, whose path may carry
    /// its next fragment. While the path of a stream is not in use, the next path in use takes its place.
    pub fn choose_fixed_path(&mut self, core: &Core, now: Time, shared: &Shared) -> Option<usize> {
        let n = core.paths.len();
        let home = |at: usize| (0..n).map(|step| (at + step) % n).find(|&at| core.in_use(at));
        self.queue.fix_paths((0..n).map(|at| home(at).unwrap_or(at) as u8));
        let splitting = core.splitting();
        let mut full = [false; MAX_PATHS];
        let (mut left, mut chosen) = (n, None);
        for (message, at) in self.queue.candidates() {
            if full[at] || self.queue.is_out_of_numbers(message) {
                continue;
            }
            let len = message.left.min(u64::from(self.fragment)) as u32;
            let admitted = u64::from(len) <= self.window() && self.may_carry(core, (at, now), len);
            if admitted && core.paths[at].has_share(splitting, shared) {
                chosen = Some(at);
                break;
            }
            full[at] = true;
            left -= 1;
            if left == 0 {
                break;
            }
        }
        self.queue.begin_packet_on(chosen?);
        chosen
    }
}
