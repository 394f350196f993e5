//! The path MTU (RFC 1191, RFC 8201), and other ICMP messages about packets of a connection.

use super::phase::RecoveryPhase;
use super::tcb::{Context, State, Tcb};
use anabranch_base::time::Duration;
use anabranch_endpoint::endpoint::{Reason, Unreachable};
use anabranch_wire::seq::Serial;

/// Smallest path MTU that is accepted, for IPv4 and IPv6. IPv6 guarantees 1280 (RFC 8200 §5). For IPv4 this is
/// Linux's `min_pmtu`, since a forged message with a smaller MTU would cause too much overhead of headers.
const MIN_PATH_MTU: [u32; 2] = [552, 1280];

/// Likely MTUs of routers whose messages contain none (RFC 1191 §7.1).
const MTU_PLATEAUS: [u32; 10] = [32_000, 17_914, 8_166, 4_352, 2_002, 1_492, 1_006, 508, 296, 68];

/// Lifetime of a discovered path MTU, because the path may become wider (RFC 1191 §6.3, RFC 8201 §5.3).
const PATH_MTU_LIFETIME: Duration = Duration::from_secs(600);

/// Consecutive timeouts of a full-sized segment after which a black hole is assumed (Linux's `tcp_retries1`).
const BLACK_HOLE_TIMEOUTS: u32 = 3;

/// Largest payload while a black hole is suspected (Linux's `tcp_base_mss`).
const BASE_MSS: u32 = 1024;

impl Tcb {
    /// Handles a router's report that it dropped the segment with this sequence number, because the segment was
    /// longer than `mtu`; zero if the message contains no MTU.
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
        // Each packet of one flight may cause a message without an MTU. Only the first one counts.
        let settled = self.rtt.srtt().unwrap_or(Duration::ZERO);
        if self.timers.raise_mtu.is_none_or(|raise| context.now + PATH_MTU_LIFETIME >= raise + settled) {
            let plateau = MTU_PLATEAUS.into_iter().find(|&plateau| plateau < self.mtu);
            self.lower_mtu(context, plateau.unwrap_or(0), from);
        }
    }

    fn is_in_flight(&self, number: Serial) -> bool {
        (self.una..self.nxt).contains(&self.send_position(number))
    }

    /// Lowers the MTU to `mtu`; longer packets from position `from` on were dropped.
    fn lower_mtu(&mut self, context: &mut Context<'_>, mtu: u32, from: u64) {
        let mtu = mtu.max(MIN_PATH_MTU[usize::from(!self.local.is_ipv4())]);
        if mtu < self.mtu {
            self.timers.raise_mtu = Some(context.now + PATH_MTU_LIFETIME);
            self.set_path_mtu(context, mtu, from);
        }
    }

    /// Sets the path MTU. Longer packets in flight from position `from` on are lost, without a sign of congestion.
    /// Earlier packets have passed, or cause their own messages.
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

    /// Changes the interface's MTU. A smaller MTU known for the path stays.
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

    /// Discards the discovered path MTU, so that full-sized packets test the path again.
    pub(super) fn raise_mtu(&mut self, context: &mut Context<'_>) {
        self.timers.raise_mtu = None;
        self.set_path_mtu(context, self.interface_mtu, self.una);
    }

    /// Tries smaller segments after repeated timeouts: if a router silently drops packets that are too long (a black
    /// hole, RFC 2923 §2.1), only full-sized segments time out. Linux does this with `tcp_mtu_probing`.
    pub(super) fn suspect_black_hole(&mut self, context: &mut Context<'_>) {
        let full = !self.board.is_empty() && self.board.get(0).len >= self.mss;
        if self.config.black_hole_detection && self.attempts >= BLACK_HOLE_TIMEOUTS && full {
            let less = self.mss - BASE_MSS.min(self.mss / 2);
            self.lower_mtu(context, self.mtu - less, self.una);
        }
    }

    /// Handles an ICMP report that the segment with this sequence number did not reach its destination. An
    /// unreachable port or protocol ends an attempt to connect; any other report is only recorded (RFC 1122 §4.2.3.9,
    /// RFC 5461).
    pub fn on_unreachable(&mut self, number: Serial, what: Unreachable) {
        let connecting = self.state == State::SynSent && number == self.first.sub(1);
        match what {
            Unreachable::Port | Unreachable::Protocol if connecting => self.end(Reason::Refused),
            _ => self.unreachable |= connecting || self.is_in_flight(number),
        }
    }

    /// The reason for the end of a connection whose peer has stopped answering.
    pub(super) fn reason_of_silence(&self) -> Reason {
        if self.unreachable { Reason::Unreachable } else { Reason::TimedOut }
    }
}
