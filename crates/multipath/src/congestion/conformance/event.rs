//! Events that tests report to a congestion control.

use crate::PathId;
use crate::congestion::{
    Ack, CongestionControl, Idle, Loss, LossKind, LostPacket, PathSetup, PenaltyInSlowStart, RateSample,
    Sent, Timeout,
};
use crate::shared_bottleneck::{DelaySample, RelativeDelay};
use anabranch_base::time::{Duration, Time};
use anabranch_base::units::Rate;
use core::fmt::{self, Display, Formatter};

/// An event that a transport can report to a congestion control, including events that do not occur in practice. The
/// first number is that of the path; other numbers are bytes and nanoseconds.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the fields are those of the trait's events")]
pub enum Event {
    Add(u8, PathSetup),
    Remove(u8),
    Usable(u8, bool),
    Mss(u8, u32),
    Ack { path: u8, acked: u64, rtt: Option<u64>, srtt: Option<u64>, limited: bool },
    Loss(u8, LossKind, u64),
    Recovered(u8),
    Timeout(u8, bool, u64),
    Idle(u8, u32),
    Penalise(u8, PenaltyInSlowStart),
    Spurious(u8),
    Sent { path: u8, bytes: u64, in_flight: u64, app_limited: bool },
    Sample(u8, Report),
    Lost(u8, Report),
    Bottleneck(u8, u16),
    Delay(u8, RelativeDelay, u64),
    Wait(u64),
}

/// Counters that a sample or a lost packet contains.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the fields are those of the trait's events")]
pub struct Report {
    pub rtt: Option<u64>,
    pub bytes: u64,
    pub prior: u64,
    pub total: u64,
    pub rate: Option<u64>,
    pub in_flight: u64,
    pub lost: u64,
    pub app_limited: bool,
    pub cwnd_limited: bool,
}

impl Event {
    /// Returns the path of the event; `None` if the event is that time passes.
    pub const fn path(&self) -> Option<u8> {
        match *self {
            Self::Add(path, _)
            | Self::Remove(path)
            | Self::Usable(path, _)
            | Self::Mss(path, _)
            | Self::Ack { path, .. }
            | Self::Loss(path, ..)
            | Self::Recovered(path)
            | Self::Timeout(path, ..)
            | Self::Idle(path, _)
            | Self::Penalise(path, _)
            | Self::Spurious(path)
            | Self::Sent { path, .. }
            | Self::Sample(path, _)
            | Self::Lost(path, _)
            | Self::Bottleneck(path, _)
            | Self::Delay(path, ..) => Some(path),
            Self::Wait(_) => None,
        }
    }

    /// Reports the event to a congestion control, or advances the time.
    pub fn apply(&self, control: &mut dyn CongestionControl, now: &mut Time) {
        let nanos = Duration::from_nanos;
        match *self {
            Self::Add(p, setup) => control.add_path(PathId(p), setup),
            Self::Remove(p) => control.remove_path(PathId(p)),
            Self::Usable(p, usable) => control.set_usable(PathId(p), usable),
            Self::Mss(p, mss) => control.set_mss(PathId(p), mss),
            Self::Ack { path, acked, rtt, srtt, limited } => control.on_ack(&Ack {
                now: *now,
                path: PathId(path),
                acked,
                rtt: rtt.map(nanos),
                srtt: srtt.map(nanos),
                cwnd_limited: limited,
            }),
            Self::Loss(p, kind, in_flight) => {
                control.on_loss(&Loss { now: *now, path: PathId(p), kind, in_flight });
            }
            Self::Recovered(p) => control.on_recovered(*now, PathId(p)),
            Self::Timeout(p, repeated, in_flight) => {
                control.on_timeout(&Timeout { now: *now, path: PathId(p), repeated, in_flight });
            }
            Self::Idle(p, timeouts) => control.on_idle(&Idle { now: *now, path: PathId(p), timeouts }),
            Self::Penalise(p, slow_start) => control.penalise(*now, PathId(p), slow_start),
            Self::Spurious(p) => control.on_spurious(*now, PathId(p)),
            Self::Sent { path, bytes, in_flight, app_limited } => {
                control.on_sent(&Sent { now: *now, path: PathId(path), bytes, in_flight, app_limited });
            }
            Self::Sample(p, report) => control.on_sample(&report.sample(*now, PathId(p))),
            Self::Lost(p, report) => control.on_lost(&report.lost_packet(*now, PathId(p))),
            Self::Bottleneck(p, bottleneck) => control.set_bottleneck(PathId(p), bottleneck),
            Self::Delay(p, delay, count) => {
                let (sent, lost) = (count, count / 7);
                control.on_delay(&DelaySample { now: *now, path: PathId(p), delay, sent, lost });
            }
            Self::Wait(time) => *now += nanos(time),
        }
    }
}

impl Report {
    fn sample(self, now: Time, path: PathId) -> RateSample {
        RateSample {
            now,
            path,
            rtt: self.rtt.map(Duration::from_nanos),
            delivered: self.bytes,
            prior_delivered: self.prior,
            total_delivered: self.total,
            send_elapsed: Duration::from_millis(10),
            ack_elapsed: Duration::from_millis(20),
            rate: self.rate.map(Rate::from_bits_per_second),
            app_limited: self.app_limited,
            newly_acked: self.bytes,
            newly_lost: self.lost,
            lost: self.lost,
            tx_in_flight: self.in_flight,
            in_flight: self.in_flight,
            cwnd_limited: self.cwnd_limited,
        }
    }

    const fn lost_packet(self, now: Time, path: PathId) -> LostPacket {
        LostPacket {
            now,
            path,
            bytes: self.bytes,
            tx_in_flight: self.in_flight,
            lost: self.lost,
            total_delivered: self.total,
            app_limited: self.app_limited,
        }
    }
}

/// Writes the event as a call of the method of [`CongestionControl`], without rarely needed numbers.
impl Display for Event {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Add(p, setup) => {
                write!(f, "add_path({p}: {} bytes a packet, window {})", setup.mss, setup.initial_window)
            }
            Self::Remove(p) => write!(f, "remove_path({p})"),
            Self::Usable(p, usable) => write!(f, "set_usable({p}, {usable})"),
            Self::Mss(p, mss) => write!(f, "set_mss({p}, {mss})"),
            Self::Ack { path, acked, limited, .. } => {
                write!(f, "on_ack({path}: {acked} acked, cwnd_limited {limited})")
            }
            Self::Loss(p, LossKind::FastRetransmit, in_flight) => {
                write!(f, "on_loss({p}: {in_flight} in flight)")
            }
            Self::Loss(p, LossKind::Ecn, in_flight) => write!(f, "on_loss({p}: ECN, {in_flight} in flight)"),
            Self::Recovered(p) => write!(f, "on_recovered({p})"),
            Self::Timeout(p, repeated, _) => write!(f, "on_timeout({p}, repeated {repeated})"),
            Self::Idle(p, timeouts) => write!(f, "on_idle({p}: {timeouts} timeouts)"),
            Self::Penalise(p, _) => write!(f, "penalise({p})"),
            Self::Spurious(p) => write!(f, "on_spurious({p})"),
            Self::Sent { path, bytes, .. } => write!(f, "on_sent({path}: {bytes} bytes)"),
            Self::Sample(p, report) => write!(f, "on_sample({p}: {} delivered)", report.bytes),
            Self::Lost(p, report) => write!(f, "on_lost({p}: {} bytes)", report.bytes),
            Self::Bottleneck(p, bottleneck) => write!(f, "set_bottleneck({p}, {bottleneck})"),
            Self::Delay(p, ..) => write!(f, "on_delay({p})"),
            Self::Wait(nanos) => write!(f, "{nanos} ns"),
        }
    }
}
