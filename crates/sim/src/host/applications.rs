//! The applications at both ends of a flow, and the record of their writes and reads.

use super::delivery::{Access, DeliveryChecker, Service};
use super::side::SENDER;
use anabranch_base::time::Time;
use anabranch_endpoint::{Endpoint, Event, Reason, Reliability, Write};
use anabranch_scenario::measure::{Deliveries, Voice};
use anabranch_scenario::workload::{Application, Step};
use anabranch_wire::Payload;

/// State of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not started yet, or connecting.
    Opening,
    /// Established.
    Open,
    /// Ended, with the reason.
    Ended(Reason),
}

impl State {
    /// The name used in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Open => "open",
            Self::Ended(Reason::Closed) => "closed",
            Self::Ended(Reason::Reset) => "reset",
            Self::Ended(Reason::Aborted) => "aborted",
            Self::Ended(Reason::TimedOut) => "timed-out",
            Self::Ended(Reason::Refused) => "refused",
            Self::Ended(Reason::Unreachable) => "unreachable",
        }
    }
}

/// Use of the protocol's streams by a writing application.
#[derive(Clone, Copy, Debug)]
pub struct Streams {
    /// Number of streams, used in turn.
    pub count: u16,
    /// Messages may overtake each other.
    pub unordered: bool,
    /// Limits of the retransmission of a message.
    pub reliability: Reliability,
}

/// One direction of a flow's data: the writing application, and the delivery.
pub struct Transfer {
    /// The application at the writing end.
    pub writer: Application,
    /// Checks the delivery at the other end.
    pub checker: DeliveryChecker,
    streams: Streams,
    next_stream: u16,
    /// True if the transport accepts data.
    may_write: bool,
    /// True if the transport has become writable since the writer was last polled.
    fresh: bool,
    /// Time of the reader's last delivery, or of the report that no more data will arrive.
    delivered_at: Option<Time>,
    /// True if the reader has been informed that no more data will arrive.
    ended: bool,
    /// Free buffer space of the reading proxy, bytes; `None` if the reader is no proxy.
    room: Option<u64>,
}

impl Transfer {
    /// Rates its datagrams as a call, if there is one.
    #[must_use]
    pub fn with_voice(self, voice: Option<Voice>) -> Self {
        Self { checker: self.checker.with_voice(voice), ..self }
    }

    /// A transfer without written data.
    pub fn new(writer: Application, service: Service, streams: Streams) -> Self {
        Self {
            writer,
            checker: DeliveryChecker::new(service).with_streams(streams.count),
            streams,
            next_stream: 0,
            may_write: false,
            fresh: false,
            delivered_at: None,
            ended: false,
            room: None,
        }
    }

    /// Sets a proxy as the reader, with buffer space for `room` bytes; it forwards the data of
    /// [`take_run`](Self::take_run).
    #[must_use]
    pub fn read_by_proxy(mut self, room: u64) -> Self {
        self.room = Some(room);
        self.checker.keep_runs();
        self
    }

    /// Number and time of creation of the next bytes that a proxy has read.
    pub fn take_run(&mut self) -> Option<(u64, Time)> {
        self.checker.take_run()
    }

    /// Sets the free buffer space of a proxy; returns true if it had no space before, and so has to try to read.
    pub fn set_room(&mut self, room: u64) -> bool {
        let before = self.room.replace(room);
        before == Some(0) && room > 0
    }

    /// Returns true if the reader has read all data.
    pub const fn has_ended(&self) -> bool {
        self.ended
    }

    const fn allow_writing(&mut self) {
        (self.may_write, self.fresh) = (true, true);
    }

    /// Time of the last read, if the writer has closed and all its data has been read.
    fn completed(&self) -> Option<Time> {
        let all = self.writer.is_closed() && self.checker.is_settled();
        self.delivered_at.filter(|_| all)
    }

    /// Time of the writer's next action.
    #[inline]
    const fn due(&self) -> Time {
        if self.writer.is_closed() {
            Time::MAX
        } else if self.may_write {
            self.writer.wake()
        } else {
            self.writer.stop()
        }
    }

    /// Returns true if the writer's workload is complete and all its data has been read. Either end may read this
    /// value of the other despite lookahead: the writer becomes complete in the step in which it writes its last
    /// byte.
    const fn is_whole(&self) -> bool {
        self.writer.completed() && self.checker.is_settled()
    }
}

/// The applications at both ends of a flow.
pub struct Applications {
    /// Name of the flow, for messages.
    name: String,
    /// The transfer from each end that writes.
    transfers: [Option<Box<Transfer>>; 2],
    /// True if an end that has written all its data closes only after it has read all data: the protocol has no half-closed
    /// connections (RFC 9260 §1.5.2).
    closes_together: bool,
    /// End of the flow at a proxy that does not write. It closes when the proxy's other connection has closed.
    kept_open: Option<usize>,
    /// State of the flow.
    pub state: State,
    /// Time at which each end was connected.
    pub connected: [Option<Time>; 2],
    /// Time and reason of the end of each endpoint.
    pub ended: [Option<(Time, Reason)>; 2],
}

impl Applications {
    /// The applications of a flow with this name; each end with a transfer writes, and one end may be a
    /// proxy's.
    pub fn new(name: &str, transfers: [Option<Box<Transfer>>; 2], proxy: Option<usize>) -> Self {
        let writes_alone = |transfer: &Option<Box<Transfer>>| {
            let alone = |transfer: &Transfer| {
                !transfer.writer.answers() && transfer.checker.service() == Service::Messages
            };
            transfer.as_deref().is_some_and(alone)
        };
        let closes_together = transfers.iter().all(writes_alone);
        let kept_open = proxy.filter(|&end| transfers[end].is_none());
        let (name, state) = (name.to_owned(), State::Opening);
        Self { name, transfers, closes_together, kept_open, state, connected: [None; 2], ended: [None; 2] }
    }

    /// Name of the flow.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The transfer from an end, if it writes.
    pub fn written_by(&self, side: usize) -> Option<&Transfer> {
        self.transfers[side].as_deref()
    }

    /// The transfer from an end, if it writes, for a proxy.
    pub fn written_by_mut(&mut self, side: usize) -> Option<&mut Transfer> {
        self.transfers[side].as_deref_mut()
    }

    /// Returns true if the protocol may lose data of an end, so that losses have to be reported.
    #[inline]
    pub fn may_lose(&self, side: usize) -> bool {
        self.transfers[side].as_ref().is_some_and(|transfer| transfer.checker.may_lose())
    }

    /// Reports dropped datagrams of an end.
    #[inline(never)]
    pub fn record_lost(&mut self, side: usize, datagrams: Vec<Payload>) {
        let Some(transfer) = &mut self.transfers[side] else { return };
        for datagram in datagrams {
            if let Err(violation) = transfer.checker.lost(datagram) {
                panic!("flow \"{}\": {violation}", self.name);
            }
        }
    }

    /// Records that a further copy of a datagram from an end has arrived.
    #[cold]
    pub fn record_duplicate(&mut self, side: usize) {
        if let Some(transfer) = &mut self.transfers[side] {
            transfer.checker.duplicated();
        }
    }

    /// Starts to count deliveries over time, in a run with events.
    pub fn keep_over_time(&mut self, deliveries: &Deliveries) {
        for transfer in self.transfers.iter_mut().flatten() {
            transfer.checker.keep_over_time(deliveries.clone());
        }
    }

    /// Starts to record writes and reads, for [`poll_access`](Self::poll_access).
    pub fn keep_accesses(&mut self) {
        self.transfers.iter_mut().flatten().for_each(|transfer| transfer.checker.keep_accesses());
    }

    /// The oldest recorded access to the data from an end.
    pub fn poll_access(&mut self, side: usize) -> Option<Access> {
        self.transfers[side].as_mut()?.checker.poll_access()
    }

    /// Time of the last arrival, if all applications have closed and all data has arrived.
    pub fn completed(&self) -> Option<Time> {
        let completed: Option<Vec<_>> =
            self.transfers.iter().flatten().map(|transfer| transfer.completed()).collect();
        completed?.into_iter().max()
    }

    /// Number of streams of the data from an end.
    pub fn streams(&self, side: usize) -> u16 {
        self.transfers[side].as_ref().map_or(1, |transfer| transfer.streams.count)
    }

    /// Discards the delays of the warm-up.
    pub fn restart_delays(&mut self, now: Time) {
        for transfer in self.transfers.iter_mut().flatten() {
            transfer.checker.restart_delays(now);
            transfer.writer.restart_response_times();
        }
    }

    /// Time of the next action of the application at an end.
    #[inline]
    pub fn due(&self, side: usize) -> Time {
        self.transfers[side].as_ref().map_or(Time::MAX, |transfer| transfer.due())
    }

    /// Records the placement of a message's fragment at an end.
    #[inline]
    pub fn place(&mut self, now: Time, side: usize, (key, payload): (u64, Payload)) {
        match &mut self.transfers[1 - side] {
            Some(transfer) => {
                if let Err(violation) = transfer.checker.place(key, payload) {
                    self.fail(now, &violation);
                }
            }
            None => self.fail(now, "a fragment was placed although nothing was written"),
        }
    }

    /// Checks that an end places bytes of a stream at the offset at which they were written. Datagrams have no
    /// placement.
    pub fn check_place(&self, now: Time, side: usize, (offset, payload): (u64, Payload)) {
        let is_stream = |transfer: &Transfer| transfer.checker.service() == Service::Stream;
        if self.transfers[1 - side].as_deref().is_some_and(is_stream) && offset != payload.offset {
            self.fail(now, &format!("{payload:?} was placed at {offset}"));
        }
    }

    /// Panics because of an error of a protocol core.
    #[cold]
    fn fail(&self, now: Time, violation: &str) -> ! {
        panic!("flow \"{}\" at {now:?}: {violation}", self.name)
    }

    /// Records that the transport of an end discards fragments: the key of the first, and their number.
    #[cold]
    pub fn forget(&mut self, now: Time, side: usize, run: (u64, u32)) {
        let violation = match &mut self.transfers[1 - side] {
            Some(transfer) => transfer.checker.forget(run).err(),
            None => Some(format!("{run:?} was discarded although nothing was written")),
        };
        if let Some(violation) = violation {
            panic!("flow \"{}\" at {now:?}: {violation}", self.name);
        }
    }

    /// Reports an event at an end.
    pub fn note(&mut self, now: Time, side: usize, event: Event) {
        match event {
            Event::Connected => {
                if side == SENDER {
                    self.state = State::Open;
                }
                self.connected[side] = Some(now);
                self.allow_writing(side);
            }
            Event::Writable => self.allow_writing(side),
            Event::Abandoned { offset, len, .. } => self.abandon(now, side, (offset, len)),
            Event::Closed(reason) => {
                self.ended[side] = Some((now, reason));
                if side == SENDER {
                    self.state = State::Ended(reason);
                }
            }
            _ => {}
        }
    }

    /// Records that the transport of an end has abandoned a message that was written there.
    #[cold]
    fn abandon(&mut self, now: Time, side: usize, (offset, len): (u64, u64)) {
        let given_up = self.transfers[side].as_mut().map(|transfer| transfer.checker.abandon(offset, len));
        if let Some(Err(violation)) = given_up {
            self.fail(now, &violation);
        }
    }

    fn allow_writing(&mut self, side: usize) {
        if let Some(transfer) = &mut self.transfers[side] {
            transfer.allow_writing();
        }
    }

    /// Runs an end's application; returns whether it did anything that may cause output of the endpoint.
    #[inline]
    pub fn run_application<E: Endpoint>(
        &mut self,
        now: Time,
        side: usize,
        news: News,
        endpoint: &mut E,
    ) -> bool {
        let mut acted = false;
        let written = self.transfers[1 - side].is_some();
        if news.readable && !written {
            self.fail(now, "data is readable although nothing was written");
        }
        if written && (news.readable || news.finished) {
            acted = self.read(now, side, endpoint);
            if news.finished {
                self.finish(now, side, endpoint);
                acted = true;
            }
        }
        self.write(now, side, endpoint) || acted
    }

    /// Processes the end of the other end's stream, after this end has read all of it.
    fn finish<E: Endpoint>(&mut self, now: Time, side: usize, endpoint: &mut E) {
        if let Some(incoming) = &mut self.transfers[1 - side] {
            incoming.delivered_at.get_or_insert(now);
            incoming.ended = true;
        }
        match &mut self.transfers[side] {
            // Over a stream the application may continue to write, unless it only answers requests.
            Some(own) if own.checker.service() != Service::Messages && !own.writer.answers() => {}
            Some(own) => {
                own.writer.end();
                endpoint.close(now);
            }
            None if self.kept_open == Some(side) => {}
            None => endpoint.close(now),
        }
    }

    /// Allows this end at a proxy to close; returns true if it had to stay open until now.
    pub fn allow_close(&mut self, side: usize) -> bool {
        self.kept_open.take_if(|end| *end == side).is_some()
    }

    /// Lets the application at an end write; returns whether it did anything.
    #[inline]
    fn write<E: Endpoint>(&mut self, now: Time, side: usize, endpoint: &mut E) -> bool {
        let Some(transfer) = &mut self.transfers[side] else { return false };
        if transfer.writer.is_closed() || (!transfer.fresh && now < transfer.due()) {
            return false;
        }
        transfer.fresh = false;
        let mut acted = false;
        loop {
            match transfer.writer.poll(now) {
                Step::Write { len, born } => {
                    let Streams { unordered, reliability, .. } = transfer.streams;
                    let stream = transfer.next_stream;
                    let write = Write { stream, unordered, reliability, ..Write::bytes(len) };
                    let accepted = endpoint.write(now, write);
                    if accepted > 0 {
                        acted = true;
                        transfer.checker.wrote(accepted, born);
                        transfer.writer.accepted(accepted);
                    }
                    if accepted < len {
                        transfer.may_write = false;
                        return acted;
                    }
                    transfer.next_stream = (transfer.next_stream + 1) % transfer.streams.count.max(1);
                }
                Step::Close => {
                    if !self.must_wait(side) {
                        endpoint.close(now);
                    }
                    return true;
                }
                Step::Idle => return acted,
            }
        }
    }

    /// Returns true if an end that has written all its data has to stay open for the other's data. An end that
    /// receives datagrams always has to, because no datagram is recognisable as the last.
    fn must_wait(&self, side: usize) -> bool {
        let [own, incoming] = [side, 1 - side].map(|at| self.transfers[at].as_deref());
        if incoming.is_some_and(|incoming| incoming.checker.service() == Service::Datagrams) {
            return true;
        }
        self.closes_together
            && own.is_some_and(|own| own.writer.completed())
            && incoming.is_some_and(|incoming| !incoming.is_whole())
    }

    /// Lets the application at an end read all data; returns whether that may cause output of the endpoint.
    fn read<E: Endpoint>(&mut self, now: Time, side: usize, endpoint: &mut E) -> bool {
        let mut acted = false;
        let [first, second] = &mut self.transfers;
        let (own, incoming) = if side == 0 { (first, second) } else { (second, first) };
        let Some(incoming) = incoming else { return false };
        // The data is read by reference, since copying it in smaller parts would be slower than writing it.
        let most = incoming.room.unwrap_or(u64::MAX);
        while most > 0
            && let Some(delivery) = &endpoint.read(now, most)
        {
            acted = true;
            incoming.room = incoming.room.map(|room| room - delivery.len);
            if let Err(violation) = incoming.checker.deliver(now, delivery, endpoint.fragments()) {
                self.fail(now, &violation);
            }
            if let Some(own) = own {
                own.writer.read(now, delivery.len);
            }
            // One read returns all readable data of a stream.
            if incoming.checker.service() == Service::Stream {
                break;
            }
        }
        if !acted {
            return false;
        }
        incoming.delivered_at = Some(now);
        let closes = self.closes_together && self.may_close_together(side);
        if closes {
            endpoint.close(now);
        }
        closes || endpoint.window_update_due()
    }

    /// Returns true if an end that closes together with the other may close now.
    fn may_close_together(&self, side: usize) -> bool {
        let completed = self.transfers[side].as_ref().is_some_and(|own| own.writer.completed());
        completed && !self.must_wait(side)
    }
}

/// Notifications of an endpoint for the reading application.
#[derive(Clone, Copy, Debug, Default)]
pub struct News {
    /// True if data can be read.
    pub readable: bool,
    /// True if no more data will arrive.
    pub finished: bool,
}
