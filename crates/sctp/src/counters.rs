//! Counters of an association in addition to its paths' [`Counters`](anabranch_endpoint::Counters), and the
//! time for which each path was blocked.
//!
//! # Blocking
//! A path is blocked while it is active and the application has data (chunks in the send queue, or a refused write),
//! but no new data is sent on the path. Without CMT, or without an active path, only the path of new data is
//! considered. Data held back by Nagle's algorithm or a burst limit is not blocked. The cause is the *congestion
//! window* while it is full. Otherwise it is one of these, after Dreibholz et al. 2010 and Adhari2011:
//!
//! - *transmission-induced*: the send buffer is full, or the path's share of it, and most of its bytes are in
//!   flight (or to be retransmitted);
//! - *gap-induced*: the send buffer is full, or the path's share of it, and at least half of its bytes have
//!   arrived behind a gap, so that only the missing chunks keep them there;
//! - *reordering-induced*: the receive window, or the path's share of it, has no room for the next chunk. Data at
//!   the receiver takes most of the window, and waits for missing chunks or for the reading application: the
//!   difference between the largest announced window and the newest is at least the number of bytes in flight;
//! - *advertised-window-induced*: the same, but data in flight takes most of the window: the receiver has room,
//!   and the sender must assume the worst.
//!
//! The association is blocked while all considered paths are blocked. Its cause is the cause of the first
//! path whose congestion window has room, because this path could send if the buffers were larger.
//!
//! The state is determined whenever nothing more can be sent, and it holds until the next time.

use anabranch_endpoint::blocked::Causes;

/// The reason why a path is blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocking {
    /// The send buffer is full, mostly of data in flight.
    Transmission,
    /// The send buffer is full, mostly of data that was received after a gap.
    Gap,
    /// The receive window is full, mostly of data that waits at the receiver.
    Reordering,
    /// The receive window is full, mostly of data in flight.
    AdvertisedWindow,
    /// The congestion window is full.
    CongestionWindow,
}

impl Causes<5> for Blocking {
    const ALL: [Self; 5] =
        [Self::Transmission, Self::Gap, Self::Reordering, Self::AdvertisedWindow, Self::CongestionWindow];

    fn name(self) -> &'static str {
        match self {
            Self::Transmission => "transmission-induced",
            Self::Gap => "gap-induced",
            Self::Reordering => "reordering-induced",
            Self::AdvertisedWindow => "advertised-window-induced",
            Self::CongestionWindow => "congestion-window",
        }
    }
}

/// Reason for which new data is not sent on a path that may carry it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// There is no data.
    NoData,
    /// A buffer or the congestion window is full.
    Blocked(Blocking),
    /// A packet smaller than the MTU is held back (Nagle).
    HeldBack,
    /// The pacing rate or the limit on bursts permits no packet.
    Paced,
    /// The scheduler chose another path, or none.
    NotChosen,
    /// Without CMT, new data uses another path.
    Standby,
}

/// Totals of the association.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub packets_discarded: u64,
    pub sacks_sent: u64,
    pub sacks_received: u64,
    pub sacks_ignored: u64,
    pub chunks_sent: u64,
    pub chunks_retransmitted: u64,
    pub chunks_rescheduled: u64,
    pub penalisations: u64,
    pub chunks_reneged: u64,
    pub chunks_too_big: u64,
    pub spurious_reactions: u64,
    pub heartbeats_sent: u64,
    pub path_suspicions: u64,
    pub mtu_probes: u64,
    pub path_failures: u64,
    pub restarts: u64,
    pub asconf_requests: u64,
    pub asconf_confirmed: u64,
    pub errors_received: u64,
    pub forgeries: u64,
    /// Messages abandoned after a fragment was sent, and before any was (RFC 7496 §4.4).
    pub messages_abandoned_sent: u64,
    pub messages_abandoned_unsent: u64,
    pub forward_tsns_sent: u64,
    pub forward_tsns_received: u64,
    /// Stream reconfigurations requested from the peer, and those that it performed.
    pub reconfigurations_asked: u64,
    pub reconfigurations_performed: u64,
    pub network_requests_sent: u64,
    pub network_requests_received: u64,
    pub network_reports_sent: u64,
    pub network_reports_received: u64,
    /// Network control chunks with an invalid content, of another association, or from an unknown address.
    pub network_controls_ignored: u64,
}

impl Totals {
    pub fn list(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("packets_discarded", self.packets_discarded),
            ("sacks_sent", self.sacks_sent),
            ("sacks_received", self.sacks_received),
            ("sacks_ignored", self.sacks_ignored),
            ("chunks_sent", self.chunks_sent),
            ("chunks_retransmitted", self.chunks_retransmitted),
            ("chunks_rescheduled", self.chunks_rescheduled),
            ("penalisations", self.penalisations),
            ("chunks_reneged", self.chunks_reneged),
            ("chunks_too_big", self.chunks_too_big),
            ("spurious_reactions", self.spurious_reactions),
            ("heartbeats_sent", self.heartbeats_sent),
            ("path_suspicions", self.path_suspicions),
            ("mtu_probes", self.mtu_probes),
            ("path_failures", self.path_failures),
            ("restarts", self.restarts),
            ("asconf_requests", self.asconf_requests),
            ("asconf_confirmed", self.asconf_confirmed),
            ("errors_received", self.errors_received),
            ("forgeries", self.forgeries),
            ("messages_abandoned_sent", self.messages_abandoned_sent),
            ("messages_abandoned_unsent", self.messages_abandoned_unsent),
            ("forward_tsns_sent", self.forward_tsns_sent),
            ("forward_tsns_received", self.forward_tsns_received),
            ("reconfigurations_asked", self.reconfigurations_asked),
            ("reconfigurations_performed", self.reconfigurations_performed),
            ("network_requests_sent", self.network_requests_sent),
            ("network_requests_received", self.network_requests_received),
            ("network_reports_sent", self.network_reports_sent),
            ("network_reports_received", self.network_reports_received),
            ("network_controls_ignored", self.network_controls_ignored),
        ]
    }
}
