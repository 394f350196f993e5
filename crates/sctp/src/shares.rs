//! The shares that paths have of the buffers (Adhari2011), where one of them has been penalised.
//!
//! A penalised path often has a window that is smaller than its share. The part that the window cannot use
//! belongs to the other paths until the window has grown again. Without that, a fast path would get only half
//! of the buffer even if the other path carries a single packet.

use super::common::Core;
use anabranch_multipath::buffer::{Occupancy, SendPermission, Shared};

/// Whether a packet of new data may go out on path `at`, as far as its share of the buffers goes.
pub(super) fn judge(core: &Core, at: usize, shared: &Shared) -> SendPermission {
    let path = &core.paths[at];
    let occupancy = Occupancy { outstanding: path.load.in_flight(), buffered: path.load.buffered() };
    let spare = spare(core, at, shared);
    let widened = Shared {
        send_buffer: shared.send_buffer.saturating_add(spare),
        peer_window: shared.peer_window.saturating_add(spare),
        ..*shared
    };
    core.splitting().judge(occupancy, path.mss, &widened)
}

/// Bytes added to the buffers for path `at`, so that its share grows by its part of the space that penalised
/// paths leave unused.
fn spare(core: &Core, at: usize, shared: &Shared) -> u64 {
    if !core.config.penalisation || core.paths[at].holds_up.is_some() {
        return 0;
    }
    let paths = u64::from(shared.paths.max(1));
    let received = shared.peer_window.saturating_add(shared.total.outstanding);
    let share = shared.send_buffer.min(received) / paths;
    let active = || core.paths.iter().filter(|path| path.active());
    let penalised = active().filter(|path| path.holds_up.is_some());
    let used = penalised.map(|path| path.load.in_flight().max(core.congestion.window(path.id)));
    let takers = active().filter(|path| path.holds_up.is_none()).count().max(1) as u64;
    unused(share, used) / takers * paths
}

/// Bytes of their shares that paths leave unused; `used` is the number of bytes that each uses.
fn unused(share: u64, used: impl Iterator<Item = u64>) -> u64 {
    used.map(|used| share.saturating_sub(used)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_penalised_path_leaves_what_its_window_cannot_use() {
        assert_eq!(unused(50_000, [1_500].into_iter()), 48_500);
        assert_eq!(unused(50_000, [60_000, 20_000].into_iter()), 30_000);
    }
}
