//! The applications at both ends of a flow, and what is known of what they wrote and read.

use super::delivery::{Access, DeliveryChecker, Service};
use super::side::SENDER;
use anabranch_base::time::Time;
use anabranch_endpoint::{Endpoint, Event, Reason, Reliability, Write};
use anabranch_scenario::measure::{Outage, Pace};
use anabranch_scenario::workload::{Application, Step};
use anabranch_wire::Payload;

/// How far a flow has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not started yet, or connecting.
    Opening,
    /// Established.
    Open,
    /// Ended, and why.
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

/// How a writing application uses the streams of its protocol.
#[derive(Clone, Copy, Debug)]
pub struct Streams {
    /// How many, used in turn.
    pub count: u16,
    /// Messages may overtake each other.
    pub unordered: bool,
    /// How long a message is worth sending.
    pub reliability: Reliability,
}

/// One direction of a flow's data: the application that writes it, and what becomes of it.
pub struct Transfer {
    /// At the end that writes.
    pub writer: Application,
    /// Of what is delivered at the other end.
    pub checker: DeliveryChecker,
    streams: Streams,
    next_stream: u16,
    /// The transport takes what is written.
    may_write: bool,
    /// It has said so since the writer was last asked.
    fresh: bool,
    /// When the reader last got something, or learnt that there is nothing to get.
    delivered_at: Option<Time>,
    /// The reader has learnt that there will be nothing more.
    ended: bool,
    /// The reader is a proxy, and has room for so much.
    room: Option<u64>,
}

impl Transfer {
    /// Nothing written yet.
    pub fn new(writer: Application, service: Service, streams: Streams) -> Self {
        Self {
            writer,
            checker: DeliveryChecker::new(service),
            streams,
            next_stream: 0,
            may_write: false,
            fresh: false,
            delivered_at: None,
            ended: false,
            room: None,
        }
    }

    /// Has it read by a proxy, which holds so much, and hands on what [`take_run`](Self::take_run) answers.
    #[must_use]
    pub fn read_by_proxy(mut self, room: u64) -> Self {
        self.room = Some(room);
        self.checker.keep_runs();
        self
    }

    /// The next bytes that a proxy has read: how many, and when they were made.
    pub fn take_run(&mut self) -> Option<(u64, Time)> {
        self.checker.take_run()
    }

    /// A proxy has so much room now; whether it had none before, and has to look whether there is something to read.
    pub fn set_room(&mut self, room: u64) -> bool {
        let before = self.room.replace(room);
        before == Some(0) && room > 0
    }

    /// The reader has read all there is.
    pub const fn has_ended(&self) -> bool {
        self.ended
    }

    const fn invite(&mut self) {
        (self.may_write, self.fresh) = (true, true);
    }

    /// When the last byte was read, if the writer has closed and all it wrote has been read.
    fn completed(&self) -> Option<Time> {
        let all = self.writer.is_closed() && self.checker.is_settled();
        self.delivered_at.filter(|_| all)
    }

    /// When the writer wants to be asked.
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

    /// Whether the writer has ended of its own accord and all that it wrote has been read. What an end learns of the other
    /// here does not depend on how far ahead that one is: it ends in the turn in which it writes its last byte.
    const fn is_whole(&self) -> bool {
        self.writer.said_all() && self.checker.is_settled()
    }
}

/// The applications at both ends of a flow.
pub struct Applications {
    /// Name of the flow, for messages.
    name: String,
    /// What each end writes, if it does.
    transfers: [Option<Box<Transfer>>; 2],
    /// An end that has written all closes when it has read all: the protocol knows no connection that is closed on one
    /// side only (RFC 9260 §1.5.2).
    closes_together: bool,
    /// The end of a proxy that writes nothing: it closes when the connection of the proxy's other end has.
    kept_open: Option<usize>,
    /// How far the flow has come.
    pub state: State,
    /// When each end had a connection.
    pub connected: [Option<Time>; 2],
    /// When and why the endpoints ended.
    pub ended: [Option<(Time, Reason)>; 2],
}

impl Applications {
    /// Those of a flow with this name; each end writes what it has a transfer for, and one of them may be a proxy's.
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

    /// What an end writes, if it does.
    pub fn written_by(&self, side: usize) -> Option<&Transfer> {
        self.transfers[side].as_deref()
    }

    /// The same, for a proxy.
    pub fn written_by_mut(&mut self, side: usize) -> Option<&mut Transfer> {
        self.transfers[side].as_deref_mut()
    }

    /// Whether what an end writes may get lost for good, so that somebody has to say so.
    #[inline]
    pub fn may_lose(&self, side: usize) -> bool {
        self.transfers[side].as_ref().is_some_and(|transfer| transfer.checker.may_lose())
    }

    /// The network has dropped datagrams of an end.
    #[inline(never)]
    pub fn note_lost(&mut self, side: usize, datagrams: Vec<Payload>) {
        let Some(transfer) = &mut self.transfers[side] else { return };
        for datagram in datagrams {
            if let Err(mistake) = transfer.checker.lost(datagram) {
                panic!("flow \"{}\": {mistake}", self.name);
            }
        }
    }

    /// Counts what is delivered over time, in a run with an outage whose measured part begins at `since`.
    pub fn keep_pace(&mut self, outage: Outage, since: Time) {
        for transfer in self.transfers.iter_mut().flatten() {
            transfer.checker.keep_pace(Pace::new(outage, since));
        }
    }

    /// Keeps what is written and read from now on, for [`poll_access`](Self::poll_access).
    pub fn keep_accesses(&mut self) {
        self.transfers.iter_mut().flatten().for_each(|transfer| transfer.checker.keep_accesses());
    }

    /// The next access to what an end writes, oldest first.
    pub fn poll_access(&mut self, side: usize) -> Option<Access> {
        self.transfers[side].as_mut()?.checker.poll_access()
    }

    /// When the last byte arrived, if all applications have closed and all has arrived.
    pub fn completed(&self) -> Option<Time> {
        let completed: Option<Vec<_>> =
            self.transfers.iter().flatten().map(|transfer| transfer.completed()).collect();
        completed?.into_iter().max()
    }

    /// Forgets the delays seen so far, at the end of the warm-up.
    pub fn restart_delays(&mut self) {
        for transfer in self.transfers.iter_mut().flatten() {
            transfer.checker.restart_delays();
            transfer.writer.restart_response_times();
        }
    }

    /// When the application at an end wants to be asked.
    #[inline]
    pub fn due(&self, side: usize) -> Time {
        self.transfers[side].as_ref().map_or(Time::MAX, |transfer| transfer.due())
    }

    /// A fragment of a message is kept at an end.
    #[inline]
    pub fn place(&mut self, now: Time, side: usize, (key, payload): (u64, Payload)) {
        match &mut self.transfers[1 - side] {
            Some(transfer) => {
                if let Err(mistake) = transfer.checker.place(key, payload) {
                    self.fail(now, &mistake);
                }
            }
            None => self.fail(now, "something was placed, and nothing was written"),
        }
    }

    /// A protocol core has made a mistake.
    #[cold]
    fn fail(&self, now: Time, mistake: &str) -> ! {
        panic!("flow \"{}\" at {now:?}: {mistake}", self.name)
    }

    /// The transport of an end gives up fragments that it has placed: the key of the first, and how many.
    #[cold]
    pub fn forget(&mut self, now: Time, side: usize, run: (u64, u32)) {
        let mistake = match &mut self.transfers[1 - side] {
            Some(transfer) => transfer.checker.forget(run).err(),
            None => Some(format!("{run:?} was given up, and nothing was written")),
        };
        if let Some(mistake) = mistake {
            panic!("flow \"{}\" at {now:?}: {mistake}", self.name);
        }
    }

    /// Something happened at an end.
    pub fn note(&mut self, now: Time, side: usize, event: Event) {
        match event {
            Event::Connected => {
                if side == SENDER {
                    self.state = State::Open;
                }
                self.connected[side] = Some(now);
                self.invite(side);
            }
            Event::Writable => self.invite(side),
            Event::Abandoned { offset, len, .. } => self.give_up(now, side, (offset, len)),
            Event::Closed(reason) => {
                self.ended[side] = Some((now, reason));
                if side == SENDER {
                    self.state = State::Ended(reason);
                }
            }
            _ => {}
        }
    }

    /// The transport of an end has given up a message that was written there.
    #[cold]
    fn give_up(&mut self, now: Time, side: usize, (offset, len): (u64, u64)) {
        let given_up = self.transfers[side].as_mut().map(|transfer| transfer.checker.give_up(offset, len));
        if let Some(Err(mistake)) = given_up {
            self.fail(now, &mistake);
        }
    }

    fn invite(&mut self, side: usize) {
        if let Some(transfer) = &mut self.transfers[side] {
            transfer.invite();
        }
    }

    /// An end's application has its turn; whether it did anything that the endpoint may have to say something about.
    #[inline]
    pub fn act<E: Endpoint>(&mut self, now: Time, side: usize, news: News, endpoint: &mut E) -> bool {
        let mut acted = false;
        let written = self.transfers[1 - side].is_some();
        if news.readable && !written {
            self.fail(now, "something can be read, and nothing was written");
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

    /// The other side will send no more, and all it sent has been read.
    fn finish<E: Endpoint>(&mut self, now: Time, side: usize, endpoint: &mut E) {
        if let Some(incoming) = &mut self.transfers[1 - side] {
            incoming.delivered_at.get_or_insert(now);
            incoming.ended = true;
        }
        match &mut self.transfers[side] {
            // Over a stream it may go on writing, unless it is there for the other's requests.
            Some(own) if own.checker.service() != Service::Messages && !own.writer.answers() => {}
            Some(own) => {
                own.writer.end();
                endpoint.close(now);
            }
            None if self.kept_open == Some(side) => {}
            None => endpoint.close(now),
        }
    }

    /// A proxy has no more reason to keep this end open; whether it had until now.
    pub fn let_go(&mut self, side: usize) -> bool {
        self.kept_open.take_if(|end| *end == side).is_some()
    }

    /// Lets the application at an end write; whether it did anything.
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

    /// Whether an end that has written all has to stay open for what the other still sends. Of datagrams nobody knows which
    /// one is the last.
    fn must_wait(&self, side: usize) -> bool {
        let [own, incoming] = [side, 1 - side].map(|at| self.transfers[at].as_deref());
        if incoming.is_some_and(|incoming| incoming.checker.service() == Service::Datagrams) {
            return true;
        }
        self.closes_together
            && own.is_some_and(|own| own.writer.said_all())
            && incoming.is_some_and(|incoming| !incoming.is_whole())
    }

    /// Lets the application at an end read all there is; whether that gives the endpoint something to say.
    fn read<E: Endpoint>(&mut self, now: Time, side: usize, endpoint: &mut E) -> bool {
        let mut acted = false;
        let [first, second] = &mut self.transfers;
        let (own, incoming) = if side == 0 { (first, second) } else { (second, first) };
        let Some(incoming) = incoming else { return false };
        // By reference: to copy what was just written in smaller parts costs more than to write it.
        let most = incoming.room.unwrap_or(u64::MAX);
        while most > 0
            && let Some(delivery) = &endpoint.read(now, most)
        {
            acted = true;
            incoming.room = incoming.room.map(|room| room - delivery.len);
            if let Err(mistake) = incoming.checker.deliver(now, delivery, endpoint.fragments()) {
                self.fail(now, &mistake);
            }
            if let Some(own) = own {
                own.writer.read(now, delivery.len);
            }
            // Of a stream that was all there is.
            if incoming.checker.service() == Service::Stream {
                break;
            }
        }
        if !acted {
            return false;
        }
        incoming.delivered_at = Some(now);
        let closes = self.closes_together && self.closes_whole(side);
        if closes {
            endpoint.close(now);
        }
        closes || endpoint.window_update_due()
    }

    /// Whether an end that closes together with the other has nothing to wait for any more.
    fn closes_whole(&self, side: usize) -> bool {
        let said_all = self.transfers[side].as_ref().is_some_and(|own| own.writer.said_all());
        said_all && !self.must_wait(side)
    }
}

/// What an endpoint said that its application reads by.
#[derive(Clone, Copy, Debug, Default)]
pub struct News {
    /// There is something to read.
    pub readable: bool,
    /// There will be nothing more.
    pub finished: bool,
}
