//! Re-configuration (RFC 6525): streams and TSNs are reset, and streams are added. Only one request is outstanding at
//! a time (§5.1.1).
//!
//! Data written before a reset is sent before it. Data written after it waits for the peer's response. If the peer is
//! still missing earlier data, it responds "in progress", and responds again when the data is complete; meanwhile the
//! request is retransmitted. If the second response is lost, usrsctp 0.9.5 repeats the first indefinitely. Then the
//! request is sent again with the next number. No data has been sent on these streams since, so a second reset
//! changes nothing.
//!
//! After a reset of this endpoint's TSNs, the peer's TSNs continue from their old values. Data that overtakes the
//! peer's response therefore looks like old data. Until the response arrives, new data is treated as lost, and the
//! peer retransmits it.

use super::stream_changes::{Asked, Deferred};
use crate::common::{Core, violation};
use crate::open::Open;
use crate::origin::Origin;
use crate::phase::Phase;
use crate::requests::{Pending, Sent};
use anabranch_base::time::Time;
use anabranch_endpoint::endpoint::{Event, Reason, StreamChange};
use anabranch_wire::sctp::{Chunk, Outcome, Reconfig, Reconfiguration};
use anabranch_wire::seq::Serial;

/// Maximum number of streams after additions by the peer, if it did not start with more.
const MAX_STREAMS: u32 = 2048;

/// Maximum number of queued changes up to which the peer may request more.
const MAX_ACCEPTED_CHANGES: usize = 8;

/// Maximum number of requests to reset all TSNs and streams: the peer denies a request while its data is outstanding.
const MAX_RESET_ATTEMPTS: u32 = 8;

/// Jump of the peer's TSNs at a reset (RFC 6525 §5.2.4 D1).
const TSN_RESET_JUMP: u32 = 1 << 31;

impl Open {
    /// Requests a change for the application; false if it is not possible.
    pub fn change_streams(&mut self, core: &mut Core, now: Time, change: StreamChange) -> bool {
        let (outgoing, incoming) = (self.outbound.queue.streams(), self.inbound.streams());
        let sound = match &change {
            StreamChange::ResetOutgoing(streams) => streams.iter().all(|&stream| stream < outgoing),
            StreamChange::ResetIncoming(streams) => streams.iter().all(|&stream| stream < incoming),
            StreamChange::ResetAll => true,
            StreamChange::AddOutgoing(count) => *count > 0 && outgoing.checked_add(*count).is_some(),
            StreamChange::AddIncoming(count) => *count > 0 && incoming.checked_add(*count).is_some(),
        };
        let may = sound && self.extensions.reconfig && self.phase == Phase::Established;
        if may {
            self.reconfig.requests.waiting.push_back(change);
            self.begin_change(core, now);
        }
        may
    }

    /// Starts the next change after the previous one has ended.
    fn begin_change(&mut self, core: &mut Core, now: Time) {
        if self.reconfig.rest_until.is_some() || !self.reconfig.requests.begin() {
            return;
        }
        match self.reconfig.requests.pending.as_ref().map(|pending| &pending.change) {
            Some(StreamChange::ResetOutgoing(streams)) => self.outbound.queue.hold(streams),
            Some(StreamChange::ResetAll) => self.outbound.queue.pause(),
            _ => {}
        }
        core.totals.reconfigurations_asked += 1;
        self.follow_change(core, now);
    }

    /// Sends the request as soon as all data that must precede it has been sent.
    pub fn follow_change(&mut self, core: &mut Core, now: Time) {
        let Some(Pending { serial, change, sent: None }) = &self.reconfig.requests.pending else { return };
        let (request, queue) = (*serial, &self.outbound.queue);
        let request = match change {
            StreamChange::ResetOutgoing(streams) => {
                if !queue.has_left(streams) {
                    return;
                }
                let last = self.outbound.sent.next_tsn().wrapping_sub(1);
                self.outbound.forwarding.reset_behind(last);
                Reconfiguration::OutgoingReset {
                    request,
                    response: self.reconfig.requests.accepted(),
                    last_tsn: Serial(last as u32),
                    streams: streams.clone(),
                }
            }
            StreamChange::ResetIncoming(streams) => {
                Reconfiguration::IncomingReset { request, streams: streams.clone() }
            }
            StreamChange::ResetAll => {
                if !queue.is_quiet() || !self.outbound.sent.is_empty() {
                    return;
                }
                Reconfiguration::TsnReset { request }
            }
            StreamChange::AddOutgoing(count) => Reconfiguration::AddOutgoing { request, count: *count },
            StreamChange::AddIncoming(count) => Reconfiguration::AddIncoming { request, count: *count },
        };
        let asked = Asked { request, heard: false, put_off: 0 };
        self.send_change_request(core, now, (asked, core.preferred()));
    }

    fn send_change_request(&mut self, core: &mut Core, now: Time, (asked, at): (Asked, usize)) {
        let Some(pending) = &mut self.reconfig.requests.pending else { return };
        let request = asked.request.clone();
        pending.sent = Some(Sent { at, due: now + core.timeout_on(at), what: asked });
        let chunk = Chunk::Reconfig(Reconfig { parameters: vec![request] });
        core.send_control(at, self.peer_tag, chunk);
    }

    /// Handles the timeout of a request: it is retransmitted, over another path if there is one. Also ends the pause
    /// that a reset by the peer required.
    pub fn changes_timeout(&mut self, core: &mut Core, now: Time) {
        if self.reconfig.quiet_until.is_some_and(|until| until <= now) {
            self.reconfig.quiet_until = None;
            self.resume();
        }
        if self.reconfig.rest_until.is_some_and(|until| until <= now) {
            self.reconfig.rest_until = None;
            self.begin_change(core, now);
        }
        let requests = &mut self.reconfig.requests;
        let overdue = |sent: &mut Sent<Asked>| sent.due <= now;
        let sent = requests.pending.as_mut().and_then(|pending| pending.sent.take_if(overdue));
        let Some(Sent { at, what: Asked { mut request, heard, mut put_off }, .. }) = sent else { return };
        // The response "in progress" proves that the peer is reachable.
        if !heard {
            core.request_lost(now, at);
        }
        if put_off > 1
            && let Reconfiguration::OutgoingReset { request: serial, .. } = &mut request
        {
            *serial = requests.number();
            put_off = 0;
            if let Some(pending) = &mut requests.pending {
                pending.serial = *serial;
            }
        }
        let next = core.path_after(at, |other| core.in_use(other));
        self.send_change_request(core, now, (Asked { request, heard: false, put_off }, next));
    }

    /// Resumes sending of new messages, unless a local change is still pending.
    fn resume(&mut self) {
        let pending = self.reconfig.requests.pending.as_ref();
        let asking = pending.is_some_and(|own| own.change == StreamChange::ResetAll);
        let own = asking || self.reconfig.rest_until.is_some();
        if !own && self.reconfig.quiet_until.is_none() {
            self.outbound.queue.resume();
        }
    }

    /// Handles a RE-CONFIG chunk; returns the reason if the association has ended.
    pub fn handle_reconfig(
        &mut self,
        core: &mut Core,
        now: Time,
        origin: Origin,
        reconfig: &Reconfig,
    ) -> Option<Reason> {
        let mut parameters = Vec::new();
        // A chunk contains at most two parameters (§3.1).
        for parameter in reconfig.parameters.iter().take(2) {
            if let Reconfiguration::Response { response, outcome, next_tsns } = parameter {
                let end = self.handle_response(core, now, *response, (*outcome, *next_tsns));
                if end.is_some() {
                    return end;
                }
            } else if let Some(serial) = serial_of(parameter) {
                parameters.push(self.answer(core, now, serial, parameter));
            }
        }
        if !parameters.is_empty() {
            let chunk = Chunk::Reconfig(Reconfig { parameters });
            core.out.push_back(origin.reply(self.peer_tag, chunk));
        }
        self.begin_change(core, now);
        None
    }

    /// Responds to a request. If the request already has a final response, that response is sent again (RFC 6525
    /// §5.2.1).
    fn answer(
        &mut self,
        core: &mut Core,
        now: Time,
        serial: Serial,
        request: &Reconfiguration,
    ) -> Reconfiguration {
        if !self.reconfig.requests.accept(serial) {
            match self.reconfig.answer_to(serial) {
                // A late copy of a request that was replaced would reset streams that have sent data since.
                Some(Reconfiguration::Response { outcome: Outcome::IN_PROGRESS, .. })
                    if self.reconfig.deferred.as_ref().is_some_and(|deferred| deferred.serial == serial) => {}
                Some(answer) => return answer.clone(),
                None => {
                    let outcome = Outcome::BAD_SEQUENCE_NUMBER;
                    return Reconfiguration::Response { response: serial, outcome, next_tsns: None };
                }
            }
        }
        let (outcome, next_tsns) = if self.phase == Phase::Established {
            self.carry_out_change(core, now, request)
        } else {
            // A denied request must not be performed later.
            self.reconfig.deferred = None;
            (Outcome::DENIED, None)
        };
        self.reconfig.keep(serial, outcome, next_tsns)
    }

    fn carry_out_change(
        &mut self,
        core: &mut Core,
        now: Time,
        request: &Reconfiguration,
    ) -> (Outcome, Option<(Serial, Serial)>) {
        let (outgoing, incoming) = (self.outbound.queue.streams(), self.inbound.streams());
        let outcome = match request {
            Reconfiguration::OutgoingReset { request, response, last_tsn, streams } => {
                if streams.iter().any(|&stream| stream >= incoming) {
                    return (Outcome::WRONG_STREAM, None);
                }
                self.end_incoming(core, *response);
                let last = last_tsn.unwrap_near(self.inbound.cumulative());
                self.reconfig.deferred = Some(Deferred { serial: *request, last, streams: streams.clone() });
                if self.reset_incoming(core) { Outcome::PERFORMED } else { Outcome::IN_PROGRESS }
            }
            Reconfiguration::IncomingReset { streams, .. } => {
                if streams.iter().any(|&stream| stream >= outgoing) {
                    return (Outcome::WRONG_STREAM, None);
                }
                self.accept_change(StreamChange::ResetOutgoing(streams.clone()))
            }
            Reconfiguration::TsnReset { .. } => return self.reset_all(core, now),
            Reconfiguration::AddOutgoing { count, .. } => obstacle_to_adding(core, incoming, *count)
                .unwrap_or_else(|| {
                    self.inbound.add_streams(*count);
                    let streams = self.inbound.streams();
                    core.events.push_back(Event::StreamsAdded { incoming: true, streams });
                    Outcome::PERFORMED
                }),
            Reconfiguration::AddIncoming { count, .. } => obstacle_to_adding(core, outgoing, *count)
                .unwrap_or_else(|| self.accept_change(StreamChange::AddOutgoing(*count))),
            Reconfiguration::Response { .. } | Reconfiguration::Unknown { .. } => Outcome::DENIED,
        };
        (outcome, None)
    }

    /// Accepts the peer's request to change local streams, unless too many such requests are queued.
    fn accept_change(&mut self, change: StreamChange) -> Outcome {
        if self.reconfig.requests.waiting.len() >= MAX_ACCEPTED_CHANGES {
            return Outcome::ALREADY_IN_PROGRESS;
        }
        self.reconfig.requests.waiting.push_back(change);
        Outcome::PERFORMED
    }

    /// Ends a reset of the peer's outgoing streams. If this endpoint requested the reset, it is the response
    /// (§5.2.3).
    fn end_incoming(&mut self, core: &mut Core, response: Serial) {
        let asked = |own: &mut Pending<StreamChange, Asked>| {
            own.serial == response && matches!(own.change, StreamChange::ResetIncoming(_))
        };
        let done = self.reconfig.requests.pending.take_if(asked).is_some();
        core.totals.reconfigurations_performed += u64::from(done);
    }

    /// Resets the peer's streams if all data sent before has been received; returns true then.
    fn reset_incoming(&mut self, core: &mut Core) -> bool {
        let cumulative = self.inbound.cumulative();
        let Some(deferred) = self.reconfig.deferred.take_if(|deferred| deferred.last <= cumulative) else {
            return false;
        };
        self.inbound.reset_streams(&deferred.streams, &mut core.inbox);
        core.events.extend(resets(true, &deferred.streams));
        true
    }

    /// Performs a deferred reset of the peer's streams after data was received, and responds to the peer.
    pub fn follow_deferred(&mut self, core: &mut Core) {
        let Some(serial) = self.reconfig.deferred.as_ref().map(|deferred| deferred.serial) else { return };
        if self.reset_incoming(core) {
            let answer = self.reconfig.keep(serial, Outcome::PERFORMED, None);
            let chunk = Chunk::Reconfig(Reconfig { parameters: vec![answer] });
            core.send_control(core.preferred(), self.peer_tag, chunk);
        }
    }

    /// Handles the peer's request to reset all streams and TSNs (§5.2.4). The reset is performed only while no data
    /// is outstanding. Otherwise it is denied, so that a late copy of the request cannot perform it unexpectedly.
    /// This endpoint then sends no new messages until the peer repeats the request, or a timeout has passed.
    fn reset_all(&mut self, core: &mut Core, now: Time) -> (Outcome, Option<(Serial, Serial)>) {
        // If both endpoints request a reset at once, each would take the other's response for its own.
        if self.reconfig.awaits_numbers() {
            return (Outcome::ALREADY_IN_PROGRESS, None);
        }
        self.outbound.queue.pause();
        let under_way = !self.outbound.queue.is_quiet() || !self.outbound.sent.is_empty();
        if under_way || !self.inbound.is_whole() {
            self.reconfig.quiet_until = Some(now + core.config.rto.max);
            // The peer could not process a FORWARD TSN while it waited for this response: it is retransmitted after the
            // response.
            self.outbound.forwarding.again = true;
            return (Outcome::DENIED, None);
        }
        let own = Serial(self.outbound.sent.next_tsn() as u32);
        let theirs = Serial(self.inbound.cumulative() as u32).add(1).add(TSN_RESET_JUMP);
        self.reset_tsns_and_streams(core, own, theirs);
        (Outcome::PERFORMED, Some((own, theirs)))
    }

    /// Resets both directions. `own` and `theirs` are the next TSNs of this endpoint and of the peer.
    fn reset_tsns_and_streams(&mut self, core: &mut Core, own: Serial, theirs: Serial) {
        self.outbound.rebase(own);
        self.outbound.queue.renumber(&[]);
        self.inbound.reset_tsns_and_streams(theirs, &mut core.inbox);
        // An ECNE for a TSN before the reset would refer to a TSN that the peer has not sent, and never get a CWR.
        self.echoes.clear();
        self.reconfig.quiet_until = None;
        core.events.push_back(Event::NumbersReset);
        self.resume();
    }

    /// Handles the peer's response to a request of this endpoint.
    fn handle_response(
        &mut self,
        core: &mut Core,
        now: Time,
        response: Serial,
        (outcome, next_tsns): (Outcome, Option<(Serial, Serial)>),
    ) -> Option<Reason> {
        let timeout = core.timeout_on(core.preferred());
        let own = self.reconfig.requests.asked(response)?;
        if let (Outcome::IN_PROGRESS, Some(Sent { due, what, .. })) = (outcome, &mut own.sent) {
            (*due, what.heard) = (now + timeout, true);
            if let Reconfiguration::OutgoingReset { last_tsn, .. } = what.request {
                let base = self.outbound.sent.base();
                what.put_off += u32::from(last_tsn.unwrap_near(base) < base);
            }
            return None;
        }
        let Pending { change, .. } = self.reconfig.requests.pending.take()?;
        let done = match change {
            // This request always has an effect. A reset that the peer has not performed must not be performed here.
            StreamChange::ResetAll => outcome == Outcome::PERFORMED,
            _ => matches!(outcome, Outcome::PERFORMED | Outcome::NOTHING_TO_DO),
        };
        core.totals.reconfigurations_performed += u64::from(done);
        match (change, next_tsns) {
            (StreamChange::ResetOutgoing(streams), _) => {
                if done {
                    self.outbound.queue.renumber(&streams);
                    core.events.extend(resets(false, &streams));
                }
                self.outbound.queue.release_streams(&streams);
            }
            (StreamChange::ResetAll, Some((theirs, own))) if done => {
                self.reconfig.attempts = 0;
                self.reset_tsns_and_streams(core, own, theirs);
            }
            // The peer has reset its TSNs and not sent the new values, which RFC 6525 §4.4 puts in this response. Its
            // new data could not be distinguished from late data, and data sent to it would count as late there:
            // acknowledged and lost.
            (StreamChange::ResetAll, None) if done => {
                return Some(self.refuse(core, violation("TSN reset without the new TSNs")));
            }
            (StreamChange::ResetAll, _) if self.reconfig.attempts < MAX_RESET_ATTEMPTS => {
                self.reconfig.attempts += 1;
                self.reconfig.requests.waiting.push_front(StreamChange::ResetAll);
                // If both endpoints have sent the request at once, one of them waits, longer each time. Otherwise their
                // requests would collide again.
                let yields = outcome == Outcome::ALREADY_IN_PROGRESS && self.local_tag < self.peer_tag;
                let rests = if yields { 1 + 2 * u64::from(self.reconfig.attempts) } else { 1 };
                self.reconfig.rest_until = Some(now + timeout.saturating_mul(rests));
                return None;
            }
            (StreamChange::ResetAll, _) => {
                self.reconfig.attempts = 0;
                self.resume();
            }
            (StreamChange::AddOutgoing(count), _) if done => {
                self.outbound.queue.add_streams(count);
                let streams = self.outbound.queue.streams();
                core.events.push_back(Event::StreamsAdded { incoming: false, streams });
            }
            _ => {}
        }
        if !done {
            core.events.push_back(Event::ChangeRefused);
        }
        self.begin_change(core, now);
        None
    }
}

/// Reason for which `count` streams cannot be added; `None` if they can.
fn obstacle_to_adding(core: &Core, streams: u16, count: u16) -> Option<Outcome> {
    let all = u32::from(streams) + u32::from(count);
    if count == 0 {
        Some(Outcome::NOTHING_TO_DO)
    } else if all > MAX_STREAMS.max(core.config.streams.into()) {
        Some(Outcome::DENIED)
    } else {
        None
    }
}

/// Events for a reset of these streams; an empty list stands for all streams.
fn resets(incoming: bool, streams: &[u16]) -> Vec<Event> {
    if streams.is_empty() {
        return vec![Event::StreamReset { incoming, stream: None }];
    }
    streams.iter().map(|&stream| Event::StreamReset { incoming, stream: Some(stream) }).collect()
}

/// The sequence number of a request.
const fn serial_of(parameter: &Reconfiguration) -> Option<Serial> {
    match parameter {
        Reconfiguration::OutgoingReset { request, .. }
        | Reconfiguration::IncomingReset { request, .. }
        | Reconfiguration::TsnReset { request }
        | Reconfiguration::AddOutgoing { request, .. }
        | Reconfiguration::AddIncoming { request, .. } => Some(*request),
        Reconfiguration::Response { .. } | Reconfiguration::Unknown { .. } => None,
    }
}
