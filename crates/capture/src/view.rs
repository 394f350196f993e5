//! The sender's state of its receive window, derived from the packets at an interface.

use crate::delayed::{Delayed, Due};
use crate::waits::{State, Waits};

/// Free receive window that always counts as large enough for a packet, bytes.
const MIN_FREE_WINDOW: u32 = 1_460;

/// The numbers up to which the sender knows data to be acknowledged and accepted, and its times by cause.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    pub waits: Waits,
    /// Largest number of bytes between the acknowledged number and the highest sent one.
    pub flight: u64,
    /// Largest window that the receiver offered, bytes.
    pub window: Option<u64>,
    /// Largest payload.
    pub longest: u32,
    /// Sequence number whose acknowledgement ends the repair of losses.
    pub recover: Option<u64>,
    start: u64,
    end: u64,
    acked: Option<u64>,
    edge: Option<u64>,
    delayed: Delayed,
}

impl View {
    /// Applies the acknowledgements that have reached the sender by this time.
    pub fn advance(&mut self, now_ns: u64) {
        while let Some(due) = self.delayed.pop(now_ns) {
            self.waits.account(due.at_ns.min(now_ns));
            self.acked = self.acked.max(Some(due.number));
            self.edge = self.edge.max(due.edge);
            if self.recover.is_some_and(|recover| due.number >= recover) {
                self.recover = None;
            }
            self.update(due.at_ns.min(now_ns), false);
        }
    }

    /// Processes data of `len` bytes. All data sent until now, this data included, is within `[start, end)`.
    /// `is_timeout` is true for a retransmission by timeout.
    pub fn on_data(&mut self, now_ns: u64, (start, end): (u64, u64), (len, is_timeout): (u32, bool)) {
        self.advance(now_ns);
        if is_timeout {
            self.waits.account_timeout(now_ns);
        } else {
            self.waits.account(now_ns);
        }
        (self.start, self.end) = (start, end);
        self.longest = self.longest.max(len);
        self.update(now_ns, true);
    }

    /// Processes an acknowledgement that reaches the sender `delay_ns` later, and its window, if the scale is known.
    pub fn on_ack(&mut self, now_ns: u64, (number, window): (u64, Option<u64>), delay_ns: u64) {
        self.window = self.window.max(window);
        let edge = window.map(|window| number.saturating_add(window));
        self.delayed.push(Due { at_ns: now_ns.saturating_add(delay_ns), number, edge });
        self.advance(now_ns);
        self.waits.account(now_ns);
    }

    /// True if the receive window is known.
    pub fn has_window(&self) -> bool {
        self.window.is_some()
    }

    /// Sets the state to which the time until the next event counts.
    fn update(&mut self, now_ns: u64, is_data: bool) {
        let flight = self.end - self.acked.unwrap_or(self.start).clamp(self.start, self.end);
        self.flight = self.flight.max(flight);
        let room = self.edge.map(|edge| edge.saturating_sub(self.end));
        let is_full = room.is_some_and(|room| room < u64::from(self.longest.clamp(1, MIN_FREE_WINDOW)));
        let state = match (is_full, flight) {
            (_, 1..) if self.recover.is_some() => State::Recovery,
            (true, _) => State::Window,
            (false, 0) => State::Idle,
            (false, _) => State::Sending,
        };
        self.waits.set(now_ns, (state, flight), is_data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_window_counts_as_window_time() {
        let mut view = View::default();
        view.on_data(0, (0, 1_000), (1_000, false));
        view.on_ack(10, (1_000, Some(2_000)), 0);
        view.on_data(20, (0, 2_000), (1_000, false));
        view.on_data(30, (0, 3_000), (1_000, false));
        view.on_ack(130, (2_000, Some(2_000)), 0);
        assert_eq!((view.waits.window_ns, view.waits.idle_ns, view.flight), (100, 10, 2_000));
    }

    #[test]
    fn distant_sender_gets_acknowledgements_later() {
        let mut view = View::default();
        for number in 0..10 {
            let now_ns = 100 * number;
            view.on_data(now_ns, (0, 1_000 * (number + 1)), (1_000, false));
            view.on_ack(now_ns, (1_000 * (number + 1), Some(5_000)), 250);
        }
        assert_eq!((view.waits.idle_ns, view.waits.sending_ns, view.flight), (0, 900, 3_000));
    }
}
