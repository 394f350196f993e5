//! The path MTU (RFC 1191, RFC 8201), and other ICMP messages about a connection's packets.

use super::phase::RecoveryPhase;
use super::tcb::{Context, State, Tcb};
use anabranch_base::time::Duration;
use anabranch_endpoint::endpoint::{Reason, Unreachable};
use anabranch_wire::seq::Serial;

/// A smaller path MTU is not accepted. IPv6 has none (RFC 8200 §5); for IPv4 this is Linux's `min_pmtu`, below which
/// a forged message would cause too much overhead of headers.
const LEAST: [u32; 2] = [552, 1280];

/// Likely MTUs of routers whose messages contain none (RFC 1191 §7.1).
const PLATEAUS: [u32; 10] = [32_000, 17_914, 8_166, 4_352, 2_002, 1_492, 1_006, 508, 296, 68];

/// After this long a path may have become wider (RFC 1191 §6.3, RFC 8201 §5.3).
const RAISE_AFTER: Duration = Duration::from_secs(600);

/// Consecutive timeouts of a full-sized segment after which a black hole is assumed (Linux's `tcp_retries1`).
const BLACK_HOLE: u32 = 3;

/// Largest payload that is tried in a black hole (Linux's `tcp_base_mss`).
const BASE_MSS: u32 = 1024;

impl Tcb {
    /// A router dropped the segment that began with this sequence number, because it was longer than `mtu`; zero if
    /// the message contains no MTU.
    pub fn on_packet_too_big(&mut self, context: &mut Context<'_>, number: Serial, mtu: u32) {
        // An off-path attacker does not know which sequence numbers are in flight (RFC 5927 §4.1).
        if !self.is_synchronised() || !self.is_in_flight(number) {
            return;
        }
        let from = self.send_position(number);
        if mtu > 0 {
            self.lower_mtu(context, mtu, from);
            return;
        }
        // Each packet of one flight may cause such a message without an MTU; only the first one counts.
        let settled = self.rtt.srtt().unwrap_or(Duration::ZERO);
        if self.timers.raise_mtu.is_none_or(|raise| context.now + RAISE_AFTER >= raise + settled) {
            let plateau = PLATEAUS.into_iter().find(|&plateau| plateau < self.mtu);
            self.lower_mtu(context, plateau.unwrap_or(0), from);
        }
    }

    fn is_in_flight(&self, number: Serial) -> bool {
        (self.una..self.nxt).contains(&self.send_position(number))
    }

    /// Packets longer than `mtu` do not pass, and those from position `from` on did not.
    fn lower_mtu(&mut self, context: &mut Context<'_>, mtu: u32, from: u64) {
        let mtu = mtu.max(LEAST[usize::from(!self.local.is_ipv4())]);
        if mtu < self.mtu {
            self.timers.raise_mtu = Some(context.now + RAISE_AFTER);
            self.set_path_mtu(context, mtu, from);
        }
    }

    /// Sets the path MTU. Longer packets in flight from position `from` on are lost, which is no sign of congestion.
    /// Packets sent before have passed, or cause a message themselves.
    fn set_path_mtu(&mut self, context: &mut Context<'_>, mtu: u32, from: u64) {
        let mss = self.mss;
        self.mtu = mtu;
        self.update_mss();
        if self.mss == mss || !self.is_synchronised() {
            return;
        }
        context.congestion.set_mss(self.path, self.mss);
        if self.board.resegment(self.mss, from) && self.phase == RecoveryPhase::Open {
            self.phase = RecoveryPhase::Resegmented { until: self.nxt };
        }
    }

    /// Changes the interface's MTU. A narrower MTU known for the path stays.
    pub fn set_interface_mtu(&mut self, context: &mut Context<'_>, mtu: u32) {
        self.interface_mtu = mtu;
        if mtu < self.mtu || self.timers.raise_mtu.is_none() {
            self.set_path_mtu(context, mtu, self.una);
        }
    }

    /// Largest IP packet of the interface, bytes.
    pub fn interface_mtu(&self) -> u32 {
        self.interface_mtu
    }

    /// The path may have become wider: full-sized packets test it.
    pub(super) fn raise_mtu(&mut self, context: &mut Context<'_>) {
        self.timers.raise_mtu = None;
        self.set_path_mtu(context, self.interface_mtu, self.una);
    }

    /// The timer ran out repeatedly. If a router silently drops packets that are too long, only full-sized segments
    /// time out (RFC 2923 §2.1). Smaller segments test for that (as Linux does with `tcp_mtu_probing`).
    pub(super) fn suspect_black_hole(&mut self, context: &mut Context<'_>) {
        let full = !self.board.is_empty() && self.board.get(0).len >= self.mss;
        if self.config.black_hole_detection && self.attempts >= BLACK_HOLE && full {
            let less = self.mss - BASE_MSS.min(self.mss / 2);
            self.lower_mtu(context, self.mtu - less, self.una);
        }
    }

    /// The segment that began with this sequence number did not reach its destination. An unreachable port or
    /// protocol ends an attempt to connect; any other case is only recorded (RFC 1122 §4.2.3.9, RFC 5461).
    pub fn on_unreachable(&mut self, number: Serial, what: Unreachable) {
        let connecting = self.state == State::SynSent && number == self.first.sub(1);
        match what {
            Unreachable::Port | Unreachable::Protocol if connecting => self.end(Reason::Refused),
            _ => self.unreachable |= connecting || self.is_in_flight(number),
        }
    }

    /// The reason for the end of a connection whose peer no longer answers.
    pub(super) fn silence(&self) -> Reason {
        if self.unreachable { Reason::Unreachable } else { Reason::TimedOut }
    }
}
