//! Datagram packetization layer path MTU discovery (RFC 8899, for SCTP §6.2): the packet length that a path
//! is known to carry, and the next length to probe. It also detects routers that drop large packets silently.
//!
//! A probe is a HEARTBEAT with a PAD chunk that fills the packet. A lost probe is no sign of congestion, and
//! no error of the path. All lengths are of whole IP packets.

use anabranch_base::time::{Duration, Time};

/// Number of lost probes after which their length is considered too large (`MAX_PROBES`, §5.1.2).
const MAX_PROBES: u32 = 3;
/// Minimum time before a probe is considered lost (`PROBE_TIMER`, §5.1.1); the path's RTO if that is longer.
const PROBE_TIMER: Duration = Duration::from_secs(1);
/// Time after which larger packets are probed again (`PMTU_RAISE_TIMER`, §5.1.1).
const PMTU_RAISE_TIMER: Duration = Duration::from_secs(600);
/// Minimum time between a loss and a new probe of a confirmed length. Without it, every loss for another
/// reason (a full queue, an intermittent path) would trigger a probe. It is at least the time allowed for the
/// answer to a probe (`PROBE_TIMER`, §5.1.1).
const CONFIRMATION_LIFETIME: Duration = Duration::from_secs(15);
/// The search ends when the largest confirmed length and the smallest failed length differ by at most this, bytes.
const SEARCH_RESOLUTION: u32 = 8;

/// Phase of the discovery (§5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Base: probes the base length.
    Base,
    /// Search: probes lengths below `above`; `first` is the first candidate.
    Search { above: u32, first: Option<u32> },
    /// Search complete: waits until the next search.
    Complete { until: Time },
    /// Confirmation: data was lost, so the length in use is probed again.
    Doubt,
    /// Error: probes the base length; meanwhile the minimum length is used.
    Error,
}

/// An outstanding probe.
#[derive(Clone, Copy, Debug)]
struct Probe {
    len: u32,
    nonce: u64,
    until: Time,
}

/// Path MTU discovery of one path.
#[derive(Debug)]
pub(crate) struct Discovery {
    /// Length that every path carries, length that most paths carry, and MTU of the local interface.
    least: u32,
    base: u32,
    most: u32,
    /// The length in use (`PLPMTU`).
    current: u32,
    stage: Stage,
    probe: Option<Probe>,
    /// Number of lost probes of this length.
    lost: u32,
    /// Until this time, a loss does not trigger a probe of the length in use.
    certain_until: Time,
}

impl Discovery {
    /// Starts the discovery on a path from an interface with packets of at most `most` bytes.
    pub fn new((least, base): (u32, u32), most: u32) -> Self {
        let (least, base) = (least.min(most), base.min(most));
        Self {
            least,
            base,
            most,
            current: base,
            stage: Stage::Base,
            probe: None,
            lost: 0,
            certain_until: Time::ZERO,
        }
    }

    /// Current maximum packet length (`PLPMTU`).
    pub const fn current(&self) -> u32 {
        self.current
    }

    fn enter(&mut self, stage: Stage) {
        self.stage = stage;
        (self.probe, self.lost) = (None, 0);
        match stage {
            Stage::Base => self.current = self.base,
            Stage::Error => self.current = self.least,
            _ => {}
        }
    }

    /// Handles repeated losses of data: packets of the current length may be dropped now (§4.3).
    pub fn suspect(&mut self, now: Time) {
        if now >= self.certain_until
            && self.current > self.base
            && matches!(self.stage, Stage::Search { .. } | Stage::Complete { .. })
        {
            self.enter(Stage::Doubt);
        }
    }

    /// Handles a router's report of an MTU of `mtu` bytes. The value is a hint that only a probe confirms (§4.6.2).
    pub fn too_big(&mut self, mtu: u32) {
        if mtu < self.least || mtu >= self.most {
            return;
        }
        let hint = Stage::Search { above: mtu + 1, first: Some(mtu) };
        if mtu < self.base {
            self.enter(Stage::Error);
        } else if mtu < self.current {
            self.current = self.base;
            self.enter(hint);
        } else if let Stage::Search { above, .. } = self.stage
            && mtu < above
        {
            self.enter(hint);
        }
    }

    /// Time of the next probe or timeout.
    pub fn due(&self) -> Time {
        match (self.probe, self.stage) {
            (Some(probe), _) => probe.until,
            (None, Stage::Complete { until }) => until,
            (None, _) => Time::ZERO,
        }
    }

    /// Length of the probe to send now, if one is due.
    pub fn poll(&mut self, now: Time) -> Option<u32> {
        if self.due() > now {
            return None;
        }
        if let Some(probe) = self.probe.take() {
            self.lost += 1;
            if self.lost >= MAX_PROBES {
                self.reject_length(now, probe.len);
            }
        }
        match self.stage {
            Stage::Base | Stage::Error => Some(self.base),
            Stage::Doubt => Some(self.current),
            Stage::Complete { .. } => {
                self.enter(Stage::Search { above: self.most + 1, first: Some(self.most) });
                Some(self.most)
            }
            Stage::Search { above, first } => {
                Some(first.unwrap_or_else(|| (self.current + (above - self.current) / 2) & !3))
            }
        }
    }

    /// Handles a length whose probes were lost too often.
    fn reject_length(&mut self, now: Time, len: u32) {
        match self.stage {
            Stage::Base | Stage::Error => self.enter(Stage::Error),
            Stage::Doubt => self.enter(Stage::Base),
            Stage::Search { above, .. } => self.search_below(now, above.min(len)),
            Stage::Complete { .. } => {}
        }
    }

    fn search_below(&mut self, now: Time, above: u32) {
        if above - self.current <= SEARCH_RESOLUTION {
            self.complete(now);
        } else {
            self.enter(Stage::Search { above, first: None });
        }
    }

    fn complete(&mut self, now: Time) {
        let until = if self.current < self.most { now + PMTU_RAISE_TIMER } else { Time::MAX };
        self.enter(Stage::Complete { until });
    }

    /// Records that the probe requested by [`poll`](Self::poll) was sent.
    pub fn sent(&mut self, now: Time, (len, nonce): (u32, u64), rto: Duration) {
        self.probe = Some(Probe { len, nonce, until: now + rto.max(PROBE_TIMER) });
    }

    /// Handles the answer to the probe with this nonce; false if there is no such probe.
    pub fn answered(&mut self, now: Time, nonce: u64) -> bool {
        let Some(probe) = self.probe.filter(|probe| probe.nonce == nonce) else { return false };
        self.current = self.current.max(probe.len);
        match self.stage {
            // The base length is confirmed. Most paths then carry the MTU of the interface.
            Stage::Base | Stage::Error if self.current < self.most => {
                self.enter(Stage::Search { above: self.most + 1, first: Some(self.most) });
            }
            Stage::Search { above, .. } => self.search_below(now, above),
            stage => {
                if stage == Stage::Doubt {
                    self.certain_until = now + CONFIRMATION_LIFETIME;
                }
                self.complete(now);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTO: Duration = Duration::from_millis(200);

    /// Answers the probes of a path with this MTU until none is due within ten seconds; returns the number of probes.
    fn settle(discovery: &mut Discovery, now: &mut Time, mtu: u32) -> u32 {
        let mut probes = 0;
        while discovery.due() <= *now + Duration::from_secs(10) && probes < 100 {
            *now = (*now).max(discovery.due());
            let Some(len) = discovery.poll(*now) else { continue };
            probes += 1;
            discovery.sent(*now, (len, u64::from(probes)), RTO);
            if len <= mtu {
                assert!(discovery.answered(*now, u64::from(probes)));
            }
        }
        probes
    }

    fn found(mtu: u32) -> (Discovery, Time) {
        let mut discovery = Discovery::new((576, 1220), 1500);
        let mut now = Time::ZERO;
        settle(&mut discovery, &mut now, mtu);
        (discovery, now)
    }

    /// §5.3.1: the search starts at the base length, ends within the resolution below the path MTU, and never exceeds
    /// it.
    #[test]
    fn discovery_finds_the_path_mtu() {
        for mtu in [1220, 1224, 1280, 1300, 1400, 1492, 1496, 1499, 1500] {
            let current = found(mtu).0.current();
            assert!(current <= mtu && mtu < current + SEARCH_RESOLUTION + 4, "{current} of {mtu}");
        }
        assert_eq!(found(1500).0.current(), 1500);
    }

    #[test]
    fn path_with_interface_mtu_needs_two_probes() {
        let mut discovery = Discovery::new((576, 1220), 1500);
        let mut now = Time::ZERO;
        assert_eq!(settle(&mut discovery, &mut now, 1500), 2);
        assert_eq!(discovery.due(), Time::MAX);
    }

    /// §5.2: if the base length is not carried, the minimum length is used, and the base length is probed again.
    #[test]
    fn base_length_is_probed_again_after_an_error() {
        let (mut discovery, mut now) = found(1000);
        assert_eq!(discovery.current(), 576);
        settle(&mut discovery, &mut now, 1500);
        assert_eq!(discovery.current(), 1500);
    }

    /// §4.3: the discovered length is probed again when data is lost, and no longer used if the probe is lost as well.
    #[test]
    fn discovery_detects_black_holes_only() {
        for (mtu, expected) in [(1300, 1292..=1300), (1500, 1500..=1500)] {
            let (mut discovery, mut now) = found(1500);
            discovery.suspect(now);
            settle(&mut discovery, &mut now, mtu);
            assert!(expected.contains(&discovery.current()), "{} of {mtu}", discovery.current());
        }
    }

    /// Losses that are independent of the length cause few probes. A reduced path MTU is detected nevertheless.
    #[test]
    fn unrelated_losses_cause_few_probes() {
        let (mut discovery, mut now) = found(1500);
        let mut probes = 0;
        for _ in 0..60 {
            discovery.suspect(now);
            probes += settle(&mut discovery, &mut now, 1500);
            now += Duration::from_secs(1);
        }
        assert_eq!(probes, 4, "one probe in fifteen seconds");
        now += CONFIRMATION_LIFETIME;
        discovery.suspect(now);
        settle(&mut discovery, &mut now, 1300);
        assert!((1292..=1300).contains(&discovery.current()), "{}", discovery.current());
    }

    /// §4.6.2: the MTU reported by a router only shortens the search. Larger lengths are not probed, but no length is
    /// used that a probe has not confirmed.
    #[test]
    fn discovery_tries_the_mtu_of_a_router_first() {
        let (mut discovery, now) = found(1500);
        discovery.too_big(1400);
        assert_eq!((discovery.current(), discovery.poll(now)), (1220, Some(1400)));
        discovery.sent(now, (1400, 7), RTO);
        assert!(!discovery.answered(now, 8), "not the answer");
        assert!(discovery.answered(now, 7));
        assert_eq!(discovery.current(), 1400);
        assert!(discovery.due() > now + Duration::from_secs(500));
        for absurd in [0, 68, 575, 1500, 9000] {
            discovery.too_big(absurd);
            assert_eq!(discovery.current(), 1400);
        }
    }

    /// §5.1.1: the path MTU may increase.
    #[test]
    fn larger_packets_are_probed_again_later() {
        let (mut discovery, mut now) = found(1300);
        assert!(discovery.current() < 1400);
        now += Duration::from_secs(600);
        settle(&mut discovery, &mut now, 1500);
        assert_eq!(discovery.current(), 1500);
    }
}
