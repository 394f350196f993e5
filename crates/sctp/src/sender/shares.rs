//! Shares of the buffers by the needs of the paths (`buffer_splitting = "by-need"`).

use crate::common::Core;
use crate::path::state::Path;
use anabranch_multipath::buffer::{Buffer, Demand, SendPermission, Shared, Shares, Sides, Splitting};
use anabranch_settings::policy::StreamPaths;

/// The shares of each path in both buffers, as of the last choice of a path.
#[derive(Debug, Default)]
pub(crate) struct BufferShares {
    send: Shares,
    receive: Shares,
    demands: Vec<Demand>,
}

/// Use of the buffers by the next message and the received SACKs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    /// The next message is ordered: the receiver keeps it until all messages before it have arrived.
    pub ordered: bool,
    /// The largest window that the peer has offered, bytes.
    pub widest: u64,
    /// The peer may discard chunks after a gap, so the sender keeps them.
    pub renegable: bool,
}

impl BufferShares {
    /// Divides the buffers for the next packet of new data, if they are divided by need. Streams with fixed paths have
    /// equal shares: a path without a share would stop its streams.
    pub fn divide(&mut self, core: &Core, shared: &Shared, on: Use) {
        let splitting = core.splitting();
        self.demands.clear();
        if splitting.sides != Sides::ByNeed || core.config.stream_paths == StreamPaths::Fixed {
            return;
        }
        let left_out = |path: &Path| core.scheduler_selects && core.scheduler.leaves_out(path.id);
        let demand = |path: &Path| Demand {
            held: path.occupancy().of(splitting.on) + u64::from(path.mss),
            window: core.congestion.window(path.id),
            smoothed: path.rtt.srtt().filter(|_| path.healthy() && !left_out(path)),
            shortest: path.rtt.min_rtt(),
            mss: path.mss,
        };
        let Self { send, receive, demands } = self;
        demands.extend(core.paths.iter().map(demand));
        // The receiver delivers unordered messages at once. The sender keeps chunks that the receiver may discard.
        let usable = shared.peer_window.saturating_add(shared.total.outstanding);
        let received = if on.ordered { on.widest } else { usable };
        let paths = shared.paths;
        receive.divide(demands, Buffer { size: received, paths, in_order: on.ordered });
        if shared.send_buffer < received || on.renegable && !on.ordered {
            send.divide(demands, Buffer { size: shared.send_buffer, paths, in_order: on.renegable });
        } else {
            send.clear();
        }
    }

    /// Permission to send a packet of new data on a path, as far as the buffers are concerned.
    #[inline]
    pub fn permission(&self, splitting: Splitting, path: &Path, shared: &Shared) -> SendPermission {
        if self.demands.is_empty() || splitting.sides != Sides::ByNeed {
            return splitting.judge(path.occupancy(), path.mss, shared);
        }
        let at = usize::from(path.id.0);
        let wanted = path.occupancy().of(splitting.on) + u64::from(path.mss);
        if shared.total.of(splitting.on) == 0 {
            SendPermission::Admitted
        } else if wanted > self.send.limit(at) {
            SendPermission::SendBufferShare
        } else if wanted > self.receive.limit(at) {
            SendPermission::ReceiveBufferShare
        } else {
            SendPermission::Admitted
        }
    }
}
