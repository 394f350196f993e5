//! The path MTU (RFC 1191, RFC 8201), and what else the network says of a connection's packets.

use super::phase::RecoveryPhase;
use super::tcb::{Context, State, Tcb};
use anabranch_base::time::Duration;
use anabranch_endpoint::endpoint::{Reason, Unreachable};
use anabranch_wire::seq::Serial;

/// A smaller path MTU is not believed. IPv6 has none (RFC 8200 §5); with IPv4 it is Linux's `min_pmtu`, below which more
/// would go into headers than a forged message should cost.
const LEAST: [u32; 2] = [552, 1280];

/// What routers that do not tell their MTU are likely to have (RFC 1191 §7.1).
const PLATEAUS: [u32; 10] = [32_000, 17_914, 8_166, 4_352, 2_002, 1_492, 1_006, 508, 296, 68];

/// After this long a path may have become wider (RFC 1191 §6.3, RFC 8201 §5.3).
const RAISE_AFTER: Duration = Duration::from_secs(600);

/// So many timeouts in a row of a full-sized segment make a black hole (Linux's `tcp_retries1`).
const BLACK_HOLE: u32 = 3;

/// Largest payload that is tried in a black hole (Linux's `tcp_base_mss`).
const BASE_MSS: u32 = 1024;

impl Tcb {
    /// A router dropped the segment that began with this sequence number, because it was longer than `mtu`; zero if the
    /// router does not say.
    pub fn on_packet_too_big(&mut self, context: &mut Context<'_>, number: Serial, mtu: u32) {
        // Who does not see the segments cannot know which numbers are in flight (RFC 5927 §4.1).
        if !self.is_synchronised() || !self.is_in_flight(number) {
            return;
        }
        let from = self.send_position(number);
        if mtu > 0 {
            self.lower_mtu(context, mtu, from);
            return;
        }
        // Of what left in one flight each tells the same, and the first has been heeded.
        let settled = self.rtt.srtt().unwrap_or(Duration::ZERO);
        if self.timers.raise_mtu.is_none_or(|raise| context.now + RAISE_AFTER >= raise + settled) {
            let plateau = PLATEAUS.into_iter().find(|&plateau| plateau < self.mtu);
            self.lower_mtu(context, plateau.unwrap_or(0), from);
        }
    }

    fn is_in_flight(&self, number: Serial) -> bool {
        (self.una..self.nxt).contains(&self.send_position(number))
    }

    /// Packets longer than this do not get through, and those from position `from` on have not.
    fn lower_mtu(&mut self, context: &mut Context<'_>, mtu: u32, from: u64) {
        let mtu = mtu.max(LEAST[usize::from(!self.local.is_ipv4())]);
        if mtu < self.mtu {
            self.timers.raise_mtu = Some(context.now + RAISE_AFTER);
            self.set_path_mtu(context, mtu, from);
        }
    }

    /// Packets on the path may be so long. What is in flight in longer ones, from position `from` on, is lost, and no sign
    /// of congestion. What left before has passed, or a message of its own will come.
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

    /// The interface's MTU is another. What is known of a narrower path stays.
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

    /// The path may have become wider: full-sized packets find out.
    pub(super) fn raise_mtu(&mut self, context: &mut Context<'_>) {
        self.timers.raise_mtu = None;
        self.set_path_mtu(context, self.interface_mtu, self.una);
    }

    /// The timer ran out again. A router that drops what is too long without a word makes it run out for full-sized
    /// segments only (RFC 2923 §2.1); smaller ones show whether that is so (as Linux does with `tcp_mtu_probing`).
    pub(super) fn suspect_black_hole(&mut self, context: &mut Context<'_>) {
        let full = !self.board.is_empty() && self.board.get(0).len >= self.mss;
        if self.config.black_hole_detection && self.attempts >= BLACK_HOLE && full {
            let less = self.mss - BASE_MSS.min(self.mss / 2);
            self.lower_mtu(context, self.mtu - less, self.una);
        }
    }

    /// The segment that began with this sequence number did not reach its destination. That ends an attempt to connect
    /// if it will not be otherwise the next time, and is kept in mind in any other case (RFC 1122 §4.2.3.9, RFC 5461).
    pub fn on_unreachable(&mut self, number: Serial, what: Unreachable) {
        let connecting = self.state == State::SynSent && number == self.first.sub(1);
        match what {
            Unreachable::Port | Unreachable::Protocol if connecting => self.end(Reason::Refused),
            _ => self.unreachable |= connecting || self.is_in_flight(number),
        }
    }

    /// Why a connection ends that nobody answers any more.
    pub(super) fn silence(&self) -> Reason {
        if self.unreachable { Reason::Unreachable } else { Reason::TimedOut }
    }
}
