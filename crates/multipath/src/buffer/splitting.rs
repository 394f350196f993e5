//! Division of a connection's buffers among its paths, so that a slow path cannot fill them: buffer splitting
//! (Adhari2011), which the sender applies for both ends; and the trigger of chunk rescheduling (Dreibholz et al. 2010).
//!
//! n is the number of paths, and o_P the number of outstanding bytes on path P. By a setting, x_P is either o_P or the
//! number of bytes that the send buffer keeps for P. New data is sent on P only if x_P + MTU_P ≤ B_send/n and x_P +
//! MTU_P ≤ (a_rwnd + Σ o_j)/n.
//!
//! The sum a_rwnd + Σ o_j is the part of the receive buffer that the connection may use: the free bytes, and those
//! reserved for data in flight. Out-of-order data at the receiver has already been subtracted from a_rwnd. If the
//! sender added it as well, as buffered bytes, each chunk that overtakes a slow path would enlarge that path's share.

/// The ends whose buffers are split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Sides {
    /// No buffer is split.
    #[default]
    None,
    /// The send buffer.
    Sender,
    /// The receive buffer.
    Receiver,
    /// The send buffer and the receive buffer.
    Both,
}

impl Sides {
    /// True if the send buffer is split.
    pub const fn sender(self) -> bool {
        matches!(self, Self::Sender | Self::Both)
    }

    /// True if the receive buffer is split.
    pub const fn receiver(self) -> bool {
        matches!(self, Self::Receiver | Self::Both)
    }
}

/// The kind of bytes that is compared with a path's share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SplittingOn {
    /// Bytes that were sent and neither cumulatively acknowledged nor covered by a gap block.
    #[default]
    Outstanding,
    /// Bytes that the send buffer keeps for the path. They include bytes that a gap block acknowledges, because the
    /// receiver may renege on them.
    Buffered,
}

/// Bytes that a path, or all paths together, occupy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Occupancy {
    /// Bytes that were sent and neither cumulatively acknowledged nor covered by a gap block.
    pub outstanding: u64,
    /// Sent bytes that the send buffer still keeps: the outstanding bytes, and bytes covered by gap blocks.
    pub buffered: u64,
}

impl Occupancy {
    /// Returns the bytes that count against the share.
    fn of(self, on: SplittingOn) -> u64 {
        match on {
            SplittingOn::Outstanding => self.outstanding,
            SplittingOn::Buffered => self.buffered,
        }
    }

    /// Returns the bytes that a gap block acknowledges, but that stay in the buffer because data before them is
    /// missing.
    fn blocked(self) -> u64 {
        self.buffered.saturating_sub(self.outstanding)
    }
}

/// The buffers that the paths of a connection share, and their use.
#[derive(Clone, Copy, Debug)]
pub struct Shared {
    /// Number n of the paths that share the buffers: those on which data may be sent now.
    pub paths: u32,
    /// Bytes that all paths together occupy.
    pub total: Occupancy,
    /// Size of the send buffer, B_send, bytes; `u64::MAX` if it is unlimited.
    pub send_buffer: u64,
    /// The sender's estimate of the free receive buffer, a_rwnd less the data in flight (RFC 9260 §6.2.1),
    /// bytes.
    pub peer_window: u64,
}

impl Shared {
    /// True if `bytes` is more than 1/n of `whole`.
    fn exceeds_share(&self, bytes: u64, whole: u64) -> bool {
        u128::from(bytes) * u128::from(self.paths.max(1)) > u128::from(whole)
    }
}

/// Permission to send new data on a path, or the reason why it is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendPermission {
    /// The packet may be sent.
    Admitted,
    /// The path has used up its share of the send buffer.
    SendBufferShare,
    /// The path has used up its share of the receive buffer.
    ReceiveBufferShare,
}

/// The buffer splitting of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Splitting {
    /// The buffers that are split.
    pub sides: Sides,
    /// The kind of bytes that is compared with a path's share.
    pub on: SplittingOn,
}

impl Splitting {
    /// Decides whether a packet with up to `mtu` bytes of new data may be sent on a path that occupies `path`.
    /// Retransmissions need no permission, because they occupy no additional bytes.
    ///
    /// A connection that occupies no bytes may always send. Otherwise a buffer of fewer than n packets could never be
    /// used.
    pub fn judge(self, path: Occupancy, mtu: u32, shared: &Shared) -> SendPermission {
        let taken = shared.total.of(self.on);
        if taken == 0 {
            return SendPermission::Admitted;
        }
        let wanted = path.of(self.on).saturating_add(u64::from(mtu));
        let received = shared.peer_window.saturating_add(shared.total.outstanding);
        if self.sides.sender() && shared.exceeds_share(wanted, shared.send_buffer) {
            SendPermission::SendBufferShare
        } else if self.sides.receiver() && shared.exceeds_share(wanted, received) {
            SendPermission::ReceiveBufferShare
        } else {
            SendPermission::Admitted
        }
    }
}

/// Chunk rescheduling. If acknowledged chunks of a path fill its share of a buffer because an earlier chunk, which was
/// sent on another path, is missing, the missing chunk is retransmitted on this path: its acknowledgements show that it
/// works.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rescheduling {
    /// The buffers whose shares are checked for blocked bytes.
    pub sides: Sides,
    /// Part of a path's share, 0 to 1. Rescheduling starts when the blocked bytes of the path reach it.
    pub threshold: f64,
}

impl Default for Rescheduling {
    /// Switches rescheduling off. The default threshold, once it is switched on, is half of the share.
    fn default() -> Self {
        Self { sides: Sides::None, threshold: 0.5 }
    }
}

impl Rescheduling {
    /// True if the chunk that blocks the cumulative acknowledgement must be retransmitted on the path that occupies
    /// `path`. The share of a path is 1/n of a buffer that is split according to `split`, and otherwise the whole
    /// buffer.
    ///
    /// The caller checks the other conditions: the chunk is outstanding, it was sent on another path, it has not been
    /// rescheduled before, and this path is not in recovery.
    pub fn triggers(self, path: Occupancy, shared: &Shared, split: Sides) -> bool {
        let parts = if split == Sides::None { 1 } else { shared.paths.max(1) };
        let clogged = path.blocked();
        let over =
            |whole: u64| clogged > 0 && clogged as f64 * f64::from(parts) >= self.threshold * whole as f64;
        let received = shared.peer_window.saturating_add(shared.total.buffered);
        (self.sides.sender() && over(shared.send_buffer)) || (self.sides.receiver() && over(received))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Two paths with a send buffer of 100 kB, of which 20 kB are outstanding and 30 kB buffered. The receiver has an
    /// estimated 50 kB free.
    const SHARED: Shared = Shared {
        paths: 2,
        total: Occupancy { outstanding: 20_000, buffered: 30_000 },
        send_buffer: 100_000,
        peer_window: 50_000,
    };

    fn judge(sides: Sides, on: SplittingOn, outstanding: u64, buffered: u64) -> SendPermission {
        Splitting { sides, on }.judge(Occupancy { outstanding, buffered }, 1_500, &SHARED)
    }

    #[test]
    fn two_paths_halve_the_send_buffer() {
        // The share of each path is 50,000 B, and a packet has up to 1,500 B.
        let (sender, on) = (Sides::Sender, SplittingOn::Outstanding);
        assert_eq!(judge(sender, on, 48_500, 90_000), SendPermission::Admitted);
        assert_eq!(judge(sender, on, 48_501, 90_000), SendPermission::SendBufferShare);
        let on = SplittingOn::Buffered;
        assert_eq!(judge(sender, on, 0, 48_500), SendPermission::Admitted);
        assert_eq!(judge(sender, on, 0, 48_501), SendPermission::SendBufferShare);
    }

    #[test]
    fn receive_buffer_is_free_plus_in_flight_bytes() {
        // The share of each path is (50,000 + 20,000)/2 = 35,000 B with either setting: the 10,000 B that are buffered
        // behind a gap are not in flight.
        let receiver = Sides::Receiver;
        assert_eq!(judge(receiver, SplittingOn::Outstanding, 33_500, 0), SendPermission::Admitted);
        assert_eq!(judge(receiver, SplittingOn::Outstanding, 33_501, 0), SendPermission::ReceiveBufferShare);
        assert_eq!(judge(receiver, SplittingOn::Buffered, 0, 33_500), SendPermission::Admitted);
        assert_eq!(judge(receiver, SplittingOn::Buffered, 0, 33_501), SendPermission::ReceiveBufferShare);
    }

    #[test]
    fn splitting_checks_the_buffers_of_its_sides() {
        assert_eq!(judge(Sides::None, SplittingOn::Buffered, 1 << 40, 1 << 40), SendPermission::Admitted);
        assert_eq!(judge(Sides::Both, SplittingOn::Outstanding, 33_500, 0), SendPermission::Admitted);
        assert_eq!(
            judge(Sides::Both, SplittingOn::Outstanding, 33_501, 0),
            SendPermission::ReceiveBufferShare
        );
        assert_eq!(judge(Sides::Both, SplittingOn::Outstanding, 48_501, 0), SendPermission::SendBufferShare);
    }

    #[test]
    fn share_is_not_rounded() {
        // 100,000/3 = 33,333⅓: 33,333 fit, 33,334 do not.
        let shared = Shared { paths: 3, peer_window: u64::MAX, ..SHARED };
        let splitting = Splitting { sides: Sides::Both, on: SplittingOn::Outstanding };
        let at = |outstanding| splitting.judge(Occupancy { outstanding, buffered: 0 }, 1_333, &shared);
        assert_eq!(at(32_000), SendPermission::Admitted);
        assert_eq!(at(32_001), SendPermission::SendBufferShare);
    }

    #[test]
    fn rescheduling_starts_at_half_of_the_share() {
        let sender = Rescheduling { sides: Sides::Sender, ..Rescheduling::default() };
        let path = |blocked: u64| Occupancy { outstanding: 7_000, buffered: 7_000 + blocked };
        // The threshold is half of 100,000 B without splitting, and half of 50,000 B with splitting.
        assert!(!sender.triggers(path(49_999), &SHARED, Sides::None));
        assert!(sender.triggers(path(50_000), &SHARED, Sides::None));
        assert!(!sender.triggers(path(24_999), &SHARED, Sides::Both));
        assert!(sender.triggers(path(25_000), &SHARED, Sides::Sender));
        // The threshold at the receiver is half of (50,000 + 30,000)/2 B.
        let receiver = Rescheduling { sides: Sides::Receiver, ..sender };
        assert!(!receiver.triggers(path(19_999), &SHARED, Sides::Both));
        assert!(receiver.triggers(path(20_000), &SHARED, Sides::Both));
        assert!(!Rescheduling::default().triggers(path(1 << 40), &SHARED, Sides::Both), "off by default");
        let full = Shared { peer_window: 0, total: Occupancy::default(), ..SHARED };
        assert!(!receiver.triggers(path(0), &full, Sides::Both), "nothing is blocked");
    }

    proptest! {
        /// If no path gets permission, data is in flight, whose acknowledgement triggers the next attempt. This holds
        /// for any buffer size, and no number overflows.
        #[test]
        fn splitting_never_stalls_an_idle_connection(
            loads in prop::collection::vec(0_u64..3_000, 1..9),
            mtu in 1_u32..9_000,
            send_buffer in prop_oneof![0_u64..20_000, Just(u64::MAX)],
            peer_window in prop_oneof![0_u64..20_000, Just(u64::MAX)],
            sides in prop::sample::select(vec![Sides::None, Sides::Sender, Sides::Receiver, Sides::Both]),
            on in prop::sample::select(vec![SplittingOn::Outstanding, SplittingOn::Buffered]),
        ) {
            let splitting = Splitting { sides, on };
            let sum = loads.iter().sum();
            let total = Occupancy { outstanding: sum, buffered: sum };
            let shared = Shared { paths: loads.len() as u32, total, send_buffer, peer_window };
            let admits = |&x: &u64| {
                let path = Occupancy { outstanding: x, buffered: x };
                splitting.judge(path, mtu, &shared) == SendPermission::Admitted
            };
            prop_assert!(sum > 0 || loads.iter().all(admits));
            prop_assert!(splitting.sides != Sides::None || loads.iter().all(admits));
        }
    }
}
