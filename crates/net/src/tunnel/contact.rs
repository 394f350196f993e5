//! The agreement of two machines: that they run the same scenario, that their packets fit the outer network, and when
//! they start; then the supervision of the contact.
//!
//! Without clock and sockets: the caller passes in messages and the time, and sends the messages of
//! [`Contact::take_messages`]. A message counts only if it contains the random session of this end, which the other end
//! learns from this end's messages. So a sender that cannot read the outer network cannot end a testbed.

use super::message::{Body, Message, Reason, Status, Version};
use super::probe::{Found, Search};

const SECOND_NS: u64 = 1_000_000_000;
/// Time without a message after which contact is lost, nanoseconds.
pub(super) const LOST_AFTER_NS: u64 = 3 * SECOND_NS;
/// Time limit for the other machine's start, nanoseconds.
pub(super) const MEET_TIMEOUT_NS: u64 = 60 * SECOND_NS;
/// Interval of status messages before the start and after it, nanoseconds.
const MEETING_INTERVAL_NS: u64 = SECOND_NS / 20;
const INTERVAL_NS: u64 = SECOND_NS / 4;
/// Time between agreement and start, in which the other end gets several messages with the time of the start.
const START_DELAY_NS: u64 = SECOND_NS / 2;
/// Largest time between a message and the start that it names, nanoseconds.
const MAX_START_NS: u64 = 10 * SECOND_NS;
/// The machine that sets the time of the start.
const LEADER: u8 = 0;
/// Number of messages about an end, because some may be lost.
const END_MESSAGES: usize = 3;

/// Properties of this end that the other one compares.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity {
    /// A random number, not zero.
    pub session: u64,
    pub machine: u8,
    pub version: Version,
    /// SHA-256 of the scenario.
    pub digest: [u8; 32],
}

/// The reason why two machines do not run a testbed together, or not any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The other machine did not start in time; true if it was in contact over this tunnel.
    NoStart {
        tunnel: usize,
        heard: bool,
    },
    Version(Version),
    SameMachine,
    /// The largest packets of a link differ between this machine and the other one.
    Mtu {
        tunnel: usize,
        own: [u16; 2],
        other: [u16; 2],
    },
    Scenario,
    /// The longest outer packet that arrives and the length that is needed; `is_outgoing` from this machine.
    OuterMtu {
        tunnel: usize,
        carried: u32,
        needed: u32,
        is_outgoing: bool,
    },
    Lost {
        tunnel: usize,
    },
    PeerDown,
    PeerRefused,
    PeerLost {
        tunnel: usize,
    },
    PeerFailed,
}

/// One end of all tunnels between two machines.
#[derive(Debug)]
pub(super) struct Contact {
    own: Identity,
    /// Session of the other end, once it has proved that it reads this end's messages.
    peer: Option<u64>,
    tunnels: Vec<End>,
    begun_ns: u64,
    start_ns: Option<u64>,
    ended: Option<Ended>,
    messages: Vec<(usize, Message)>,
}

/// One end of a tunnel.
#[derive(Debug)]
struct End {
    /// Largest packets from here and to here, bytes.
    mtu: [u16; 2],
    /// Bytes of the tunnel's headers.
    overhead: u32,
    search: Search,
    /// Time of the last message of the other end.
    heard_ns: Option<u64>,
    /// Time of the last status by the other end's clock and by this one's.
    last: Option<[u64; 2]>,
    /// Shortest round trip.
    rtt_ns: Option<u64>,
    peer_has_probed: bool,
    next_status_ns: u64,
}

impl Contact {
    /// An end of tunnels with these MTUs, from here and to here, and lengths of headers.
    pub fn new(own: Identity, tunnels: impl Iterator<Item = ([u16; 2], u32)>, now_ns: u64) -> Self {
        let end = |(mtu, overhead): ([u16; 2], u32)| End {
            mtu,
            overhead,
            search: Search::new(mtu[0]),
            heard_ns: None,
            last: None,
            rtt_ns: None,
            peer_has_probed: false,
            next_status_ns: now_ns,
        };
        let tunnels = tunnels.map(end).collect();
        let (peer, start_ns, ended, messages) = (None, None, None, Vec::new());
        Self { own, peer, tunnels, begun_ns: now_ns, start_ns, ended, messages }
    }

    /// The agreed start, by this end's clock.
    pub const fn start_ns(&self) -> Option<u64> {
        self.start_ns
    }

    /// The reason of the end; `None` while the contact lasts.
    pub const fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// Removes and returns the messages to send, each with its tunnel.
    pub fn take_messages(&mut self) -> Vec<(usize, Message)> {
        core::mem::take(&mut self.messages)
    }

    /// The system has refused to send a probe because of its length.
    pub fn refused(&mut self, tunnel: usize) {
        self.tunnels[tunnel].search.too_long();
    }

    /// Processes a message; returns whether it was valid.
    pub fn receive(&mut self, tunnel: usize, bytes: &[u8], now_ns: u64) -> bool {
        let Some(message) = Message::parse(bytes).filter(|message| message.session != self.own.session)
        else {
            return false;
        };
        if self.peer.is_some_and(|peer| peer != message.session) {
            return false;
        }
        if message.receiver != self.own.session {
            let is_status = matches!(message.body, None | Some(Body::Status(_)));
            if is_status && self.ended.is_none() {
                // The answer contains the session of this end. It does not change the state of this end.
                self.send_status(tunnel, message.session, now_ns);
            }
            return is_status;
        }
        if self.ended.is_some() {
            return true;
        }
        // The message contains the session of this end, so its sender reads this end's messages.
        self.peer = Some(message.session);
        let is_first = self.tunnels[tunnel].heard_ns.is_none();
        match message.body {
            None => self.refuse(tunnel, Ended::Version(message.version), now_ns),
            Some(Body::End(reason)) => self.ended = Some(Self::ended_by(tunnel, reason)),
            Some(Body::Status(status)) => {
                if let Some(difference) =
                    is_first.then(|| self.difference(tunnel, &message, &status)).flatten()
                {
                    self.refuse(tunnel, difference, now_ns);
                    return true;
                }
                self.tunnels[tunnel].heard_ns = Some(now_ns);
                self.process_status(tunnel, &status, now_ns);
            }
            // Probes follow statuses.
            Some(_) if is_first => {}
            Some(Body::Probe { length }) => {
                self.tunnels[tunnel].heard_ns = Some(now_ns);
                self.send(tunnel, message.session, Body::Probed { length });
            }
            Some(Body::Probed { length }) => {
                self.tunnels[tunnel].heard_ns = Some(now_ns);
                self.tunnels[tunnel].search.answered(length);
            }
        }
        true
    }

    /// Creates the messages that are due. Ends the contact if the other machine is silent for too long or its
    /// network carries too short packets; otherwise, tries to agree on the start.
    pub fn advance(&mut self, now_ns: u64) {
        if self.ended.is_some() {
            return;
        }
        for tunnel in 0..self.tunnels.len() {
            let end = &mut self.tunnels[tunnel];
            if end.heard_ns.is_some_and(|heard_ns| now_ns.saturating_sub(heard_ns) > LOST_AFTER_NS) {
                return self.end_with(Ended::Lost { tunnel }, Reason::Lost);
            }
            if let Found::TooShort(carried) = end.search.found() {
                let [carried, needed] = [carried, end.mtu[0]].map(|length| u32::from(length) + end.overhead);
                let ended = Ended::OuterMtu { tunnel, carried, needed, is_outgoing: true };
                return self.end_with_on(ended, (tunnel, Reason::OuterMtu { carried, needed }));
            }
            let probe = end.heard_ns.and_then(|_| end.search.due(now_ns));
            let has_started = self.start_ns.is_some_and(|start_ns| now_ns >= start_ns);
            let interval_ns = if has_started { INTERVAL_NS } else { MEETING_INTERVAL_NS };
            let is_due = now_ns >= end.next_status_ns;
            if is_due {
                end.next_status_ns = now_ns + interval_ns;
            }
            let peer = self.peer.unwrap_or_default();
            if let Some(length) = probe {
                self.send(tunnel, peer, Body::Probe { length });
            }
            if is_due {
                self.send_status(tunnel, peer, now_ns);
            }
        }
        if self.start_ns.is_none() {
            self.agree(now_ns);
        }
    }

    /// Sends the other end the reason of an end.
    pub fn end(&mut self, reason: Reason) {
        for _ in 0..END_MESSAGES {
            for tunnel in 0..self.tunnels.len() {
                self.send(tunnel, self.peer.unwrap_or_default(), Body::End(reason));
            }
        }
    }

    /// Sets the time of the start if both ends are ready, or gives up.
    fn agree(&mut self, now_ns: u64) {
        let is_ready =
            |end: &End| end.heard_ns.is_some() && end.search.found() == Found::Enough && end.peer_has_probed;
        if self.own.machine == LEADER && self.tunnels.iter().all(is_ready) {
            self.start_ns = Some(now_ns + START_DELAY_NS);
            self.tunnels.iter_mut().for_each(|end| end.next_status_ns = now_ns);
        } else if now_ns.saturating_sub(self.begun_ns) > MEET_TIMEOUT_NS {
            let silent = self.tunnels.iter().position(|end| end.heard_ns.is_none());
            let ended = Ended::NoStart { tunnel: silent.unwrap_or_default(), heard: silent.is_none() };
            self.end_with(ended, Reason::Failed);
        }
    }

    fn process_status(&mut self, tunnel: usize, status: &Status, now_ns: u64) {
        let end = &mut self.tunnels[tunnel];
        end.last = Some([status.sent_ns, now_ns]);
        end.peer_has_probed |= status.has_probed;
        let rtt_ns =
            now_ns.checked_sub(status.echo_ns).and_then(|passed_ns| passed_ns.checked_sub(status.held_ns));
        if let Some(rtt_ns) = rtt_ns.filter(|&rtt_ns| status.echo_ns > 0 && rtt_ns < LOST_AFTER_NS) {
            end.rtt_ns = Some(end.rtt_ns.map_or(rtt_ns, |shortest_ns| shortest_ns.min(rtt_ns)));
        }
        let is_open = self.start_ns.is_none_or(|start_ns| now_ns < start_ns);
        let until = status.start_ns.filter(|until_ns| until_ns.unsigned_abs() <= MAX_START_NS);
        if let Some(until_ns) = until.filter(|_| self.own.machine != LEADER && is_open) {
            let sent_ns = now_ns.saturating_sub(end.rtt_ns.unwrap_or_default() / 2);
            let start_ns = sent_ns.saturating_add_signed(until_ns);
            // The message that was delayed least names the earliest start.
            self.start_ns = Some(self.start_ns.map_or(start_ns, |earliest_ns| earliest_ns.min(start_ns)));
        }
    }

    /// The first difference between both ends.
    fn difference(&self, tunnel: usize, message: &Message, status: &Status) -> Option<Ended> {
        let own = self.tunnels[tunnel].mtu;
        let other = [status.mtu[1], status.mtu[0]];
        if message.version != self.own.version {
            Some(Ended::Version(message.version))
        } else if status.machine == self.own.machine {
            Some(Ended::SameMachine)
        } else if own != other {
            Some(Ended::Mtu { tunnel, own, other })
        } else if status.digest != self.own.digest {
            Some(Ended::Scenario)
        } else {
            None
        }
    }

    const fn ended_by(tunnel: usize, reason: Reason) -> Ended {
        match reason {
            Reason::Down => Ended::PeerDown,
            Reason::Refused => Ended::PeerRefused,
            Reason::OuterMtu { carried, needed } => {
                Ended::OuterMtu { tunnel, carried, needed, is_outgoing: false }
            }
            Reason::Lost => Ended::PeerLost { tunnel },
            Reason::Failed => Ended::PeerFailed,
        }
    }

    /// Ends because of a difference between both ends.
    fn refuse(&mut self, tunnel: usize, difference: Ended, now_ns: u64) {
        // The other end finds the same difference when it receives this status.
        self.send_status(tunnel, self.peer.unwrap_or_default(), now_ns);
        self.end_with(difference, Reason::Refused);
    }

    fn end_with(&mut self, ended: Ended, reason: Reason) {
        self.ended = Some(ended);
        self.end(reason);
    }

    /// Ends with a reason that concerns one tunnel.
    fn end_with_on(&mut self, ended: Ended, (tunnel, reason): (usize, Reason)) {
        self.ended = Some(ended);
        for _ in 0..END_MESSAGES {
            self.send(tunnel, self.peer.unwrap_or_default(), Body::End(reason));
        }
    }

    fn send_status(&mut self, tunnel: usize, receiver: u64, now_ns: u64) {
        let end = &self.tunnels[tunnel];
        let [echo_ns, received_ns] = end.last.unwrap_or([0, now_ns]);
        let start_ns = self.start_ns.filter(|_| self.own.machine == LEADER);
        let status = Status {
            digest: self.own.digest,
            machine: self.own.machine,
            mtu: end.mtu,
            has_probed: end.search.found() == Found::Enough,
            sent_ns: now_ns,
            echo_ns,
            held_ns: now_ns.saturating_sub(received_ns),
            start_ns: start_ns.map(|start_ns| start_ns.wrapping_sub(now_ns).cast_signed()),
        };
        self.send(tunnel, receiver, Body::Status(status));
    }

    fn send(&mut self, tunnel: usize, receiver: u64, body: Body) {
        let Identity { session, version, .. } = self.own;
        self.messages.push((tunnel, Message { session, receiver, version, body: Some(body) }));
    }
}

#[cfg(test)]
#[path = "contact_tests.rs"]
mod tests;
