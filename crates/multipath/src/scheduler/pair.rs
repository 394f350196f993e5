//! The two paths between which `blest` and `ecf` choose: the fastest path with room, and a faster path without room.

use super::lowest_rtt::fastest_with_room;
use super::{Decision, Offer, PathState, takes_part};
use anabranch_base::time::Duration;

/// Two paths with known round-trip times.
#[derive(Debug)]
pub(super) struct Pair<'a> {
    /// The path with the smallest round-trip time among those with room.
    pub slow: &'a PathState,
    /// The path with the smallest round-trip time of all. It has no room.
    pub fast: &'a PathState,
    /// The smoothed round-trip time of `slow`.
    pub slow_rtt: Duration,
    /// The smoothed round-trip time of `fast`.
    pub fast_rtt: Duration,
}

/// Selects the two paths.
///
/// # Errors
/// The decision, if there are no two such paths: because there is no data to send, no path with room, or no faster path
/// to wait for.
pub(super) fn pair<'a>(offer: &Offer, paths: &'a [PathState]) -> Result<Pair<'a>, Decision> {
    if offer.is_empty() {
        return Err(Decision::Wait);
    }
    let slow = fastest_with_room(paths).ok_or(Decision::Wait)?;
    let fast = fastest_of_all(paths).filter(|fast| !offer.repeated && fast.id != slow.id);
    match (fast, slow.srtt, fast.and_then(|fast| fast.srtt)) {
        (Some(fast), Some(slow_rtt), Some(fast_rtt)) => Ok(Pair { slow, fast, slow_rtt, fast_rtt }),
        _ => Err(Decision::Send(slow.id)),
    }
}

/// Returns the path with the smallest round-trip time among those with room or data in flight. A path without room but
/// with data in flight will get an acknowledgement or a timeout, so waiting for it is safe. A path without either is
/// blocked by a buffer, possibly forever.
fn fastest_of_all(paths: &[PathState]) -> Option<&PathState> {
    let part = |path: &&PathState| takes_part(path, paths) && (path.queueable > 0 || path.outstanding > 0);
    paths.iter().filter(part).filter(|path| path.srtt.is_some()).min_by_key(|path| path.srtt)
}
