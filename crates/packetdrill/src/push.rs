//! The PSH flag as Linux sets it.
//!
//! A core sets PSH where no more data waits (RFC 9293 §3.9.1: SEND). Scripts expect the flag of Linux, which hands runs of
//! segments to the device and lets it split them: a run of at least two segments ends with PSH, and so does each write of
//! the application. A run is about a millisecond long at the rate of its path.

use crate::connection::Connection;
use anabranch_endpoint::PathReport;
use anabranch_wire::tcp::{Flags, Segment};
use anabranch_wire::{Body, Packet};

/// Maximum length of a run, bytes.
const MAX_RUN_BYTES: u64 = 65_536;

/// The path of a connection, as far as runs depend on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    mss: u64,
    segments: u64,
}

impl Pace {
    /// Length of runs on this path.
    pub fn of(path: &PathReport, min_run: u64) -> Self {
        let mss = u64::from(path.mss.max(1));
        let srtt = path.srtt.map_or(1e-3, |srtt| srtt.as_secs_f64().max(1e-6));
        // Linux paces at 200 % of a window a round trip in slow start, and at 120 % afterwards.
        let factor = if path.cwnd < path.ssthresh / 2 { 2.0 } else { 1.2 };
        let in_a_millisecond = (factor * path.cwnd as f64 / srtt / 1024.0) as u64;
        // Short paths get longer runs (`tcp_tso_rtt_log`).
        let shift = (path.srtt_min.map_or(1e6, |srtt| srtt.as_secs_f64() * 1e6) as u64) >> 9;
        let short = if shift < 32 { MAX_RUN_BYTES >> shift } else { 0 };
        let segments = ((in_a_millisecond + short).min(MAX_RUN_BYTES) / mss).max(min_run);
        // A run has at most half of the window.
        Self { mss, segments: segments.min(path.cwnd / mss / 2).max(1) }
    }
}

/// Sets PSH in the segments that a connection sent at one moment, oldest first.
pub(crate) fn mark(packets: &mut [&mut Packet], connection: &Connection, pace: Pace) {
    let mut run = 0;
    for at in 0..packets.len() {
        let next = packets.get(at + 1).and_then(|next| segment_of(next)).map(|next| next.seq);
        let Body::Tcp(segment) = &mut packets[at].body else { continue };
        if segment.payload.is_empty() || segment.flags.contains(Flags::SYN) {
            run = 0;
            continue;
        }
        run += 1;
        let full = u64::from(segment.payload.len) >= pace.mss;
        let goes_on = full && run < pace.segments && next == Some(segment.seq.add(segment.payload.len));
        let written = connection.writes.contains(&segment.payload.end());
        segment.flags = segment.flags.without(Flags::PSH);
        if written || (!goes_on && run > 1) {
            segment.flags |= Flags::PSH;
        }
        if !goes_on {
            run = 0;
        }
    }
}

/// The segment of a packet with data.
fn segment_of(packet: &Packet) -> Option<&Segment> {
    match &packet.body {
        Body::Tcp(segment) if !segment.payload.is_empty() => Some(segment),
        _ => None,
    }
}
