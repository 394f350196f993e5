//! A flow: its two endpoints, the applications on them, and what is measured there.

use super::delivery::DeliveryChecker;
use super::meters::Meters;
use super::ports::Ports;
use super::side::{RECEIVER, SENDER};
use crate::engine::Datapath;
use crate::engine::datapath::{EndId, Routes};
use crate::measure::digest::Digest;
use core::net::{IpAddr, SocketAddr};
use multipath::time::Time;
use scenario::workload::{Application, Step};
use transport::{Driver, Endpoint, Event, NetworkEvent, Placement, Quote, Reason, Write, drive};
use wire::icmp::Message;
use wire::{Body, Packet, Pattern};

/// Wake-ups of one end at one moment after which its timer is taken to be stuck.
const WAKE_LIMIT: u32 = 100_000;

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

/// An endpoint and what the simulator keeps beside it.
pub struct End {
    /// The protocol core.
    pub endpoint: Box<dyn Endpoint>,
    /// When it next looks at its timers. Those that move to a later time leave it where it is.
    scheduled: Time,
    /// When the earliest wake-up comes that the datapath knows of.
    queued: Time,
    /// Over all that arrived.
    digest: Digest,
    routes: Routes,
    /// Of its host.
    ports: Ports,
    /// The last wake-up and how often it came at that moment.
    woken: (Time, u32),
}

impl End {
    /// An endpoint without anything pending.
    pub fn new(endpoint: Box<dyn Endpoint>, ports: Ports) -> Self {
        Self {
            endpoint,
            scheduled: Time::MAX,
            queued: Time::MAX,
            digest: Digest::new(),
            routes: Routes::default(),
            ports,
            woken: (Time::ZERO, 0),
        }
    }
}

/// How the sending application uses the streams of its protocol.
#[derive(Clone, Copy, Debug)]
pub struct Streams {
    /// How many, used in turn.
    pub count: u16,
    /// Messages may overtake each other.
    pub unordered: bool,
}

/// What a flow is made of.
pub struct Parts {
    /// Sending and receiving end.
    pub endpoints: [Box<dyn Endpoint>; 2],
    /// Their ports.
    pub ports: [Ports; 2],
    /// What the sending host writes.
    pub application: Application,
    /// Of what is delivered.
    pub checker: DeliveryChecker,
    /// Streams.
    pub streams: Streams,
}

/// A flow of the simulation.
pub struct Flow {
    /// Index of the flow in the scenario.
    index: u32,
    /// Sending and receiving end.
    pub ends: [End; 2],
    /// What runs on them.
    pub applications: Applications,
    /// What is measured.
    pub meters: Meters,
    start: Time,
    started: bool,
}

/// The applications at both ends of a flow, and what is known of what they wrote and read.
pub struct Applications {
    /// Name of the flow, for messages.
    name: String,
    writer: Application,
    /// Of what is delivered.
    pub checker: DeliveryChecker,
    streams: Streams,
    next_stream: u16,
    stop: Time,
    /// The transport takes what is written.
    may_write: bool,
    /// It has said so since the writer was last asked.
    fresh: bool,
    /// How far the flow has come.
    pub state: State,
    /// When and why the endpoints ended.
    pub ended: [Option<(Time, Reason)>; 2],
    /// When the reader last got something, or learnt that there is nothing to get.
    delivered_at: Option<Time>,
}

/// What an ICMP error tells the end that sent the packet it quotes; the network brings it to that end.
#[cold]
fn network_event(message: &Message) -> Option<NetworkEvent> {
    let Message::PacketTooBig { mtu, quote } = message else { return None };
    let quoted = quote.parse_encapsulated().or_else(|| quote.parse())?;
    let quote = Quote { local: quoted.source, remote: quoted.destination, number: quoted.number };
    Some(NetworkEvent::PacketTooBig { quote, mtu: *mtu })
}

/// One end of a flow at one moment: what comes out of its endpoint goes to the network and to its application.
struct Turn<'a> {
    now: Time,
    side: usize,
    id: EndId,
    datapath: &'a mut Datapath,
    routes: &'a mut Routes,
    ports: &'a mut Ports,
    applications: &'a mut Applications,
    readable: bool,
    finished: bool,
}

impl Flow {
    /// A flow that runs from `start` until `stop`; it wakes up by itself.
    pub fn new(index: u32, name: &str, parts: Parts, [start, stop]: [Time; 2]) -> Self {
        let ([sender, receiver], [from, to]) = (parts.endpoints, parts.ports);
        Self {
            index,
            ends: [End::new(sender, from), End::new(receiver, to)],
            applications: Applications {
                name: name.to_owned(),
                writer: parts.application,
                checker: parts.checker,
                streams: parts.streams,
                next_stream: 0,
                stop,
                may_write: false,
                fresh: false,
                state: State::Opening,
                ended: [None; 2],
                delivered_at: None,
            },
            meters: Meters::new(),
            start,
            started: false,
        }
    }

    /// When the last byte arrived, if the application has closed and all has arrived. For between events: while one end
    /// lives on by itself, it is ahead of what the other has done.
    pub fn completed(&self) -> Option<Time> {
        let Applications { writer, checker, delivered_at, .. } = &self.applications;
        delivered_at.filter(|_| writer.is_closed() && checker.delivered() == checker.written())
    }

    /// When it starts.
    pub const fn start(&self) -> Time {
        self.start
    }

    /// Has the flow woken up at its start.
    pub fn arm(&mut self, datapath: &mut Datapath) {
        self.ends[SENDER].scheduled = self.start;
        self.rest(SENDER, datapath);
    }

    /// A packet reached one of its ends.
    pub fn arrived(&mut self, now: Time, side: usize, packet: Packet, datapath: &mut Datapath) {
        self.receive(now, side, packet, datapath);
        self.rest(side, datapath);
    }

    /// One of its ends has something to do: it lives on as long as it can alone. How many times it looked at its timers.
    pub fn woken(&mut self, now: Time, side: usize, datapath: &mut Datapath) -> u64 {
        let id = self.id(side);
        if self.ends[side].queued == now {
            self.ends[side].queued = Time::MAX;
        }
        let mut until = datapath.safe_until(id, now);
        if !self.applications.checker.allows_ahead() {
            until = now.just_after();
        }
        let mut looks = 0;
        loop {
            let due = self.ends[side].scheduled;
            // At one moment packets come first.
            let limit = if due < until { due.just_after() } else { until };
            if let Some((at, packet)) = datapath.take_arrival(id, limit) {
                self.receive(at, side, packet, datapath);
            } else if due < until {
                looks += 1;
                self.look(due, side, datapath);
            } else {
                break;
            }
        }
        datapath.resume(id);
        self.rest(side, datapath);
        looks
    }

    #[inline]
    fn receive(&mut self, now: Time, side: usize, packet: Packet, datapath: &mut Datapath) {
        let end = &mut self.ends[side];
        end.digest.packet(now, side as u32, &packet);
        if let Body::Icmp(message) = &packet.body {
            if let Some(event) = network_event(message) {
                end.endpoint.handle_network(now, event);
            }
        } else {
            end.endpoint.handle_packet(now, packet, &Pattern);
        }
        self.drive(now, side, datapath);
    }

    /// An end looks at its timers.
    fn look(&mut self, now: Time, side: usize, datapath: &mut Datapath) {
        let end = &mut self.ends[side];
        end.scheduled = Time::MAX;
        end.woken = if end.woken.0 == now { (now, end.woken.1 + 1) } else { (now, 0) };
        assert!(
            end.woken.1 < WAKE_LIMIT,
            "flow \"{}\": its timer is due at {now:?} for ever",
            self.applications.name
        );
        if side == SENDER && !self.started {
            self.started = true;
            end.endpoint.connect(now);
            self.drive(now, side, datapath);
        } else if end.endpoint.next_timeout().is_some_and(|due| due <= now) {
            end.endpoint.handle_timeout(now);
            self.drive(now, side, datapath);
        } else if side == SENDER && self.applications.due() <= now {
            self.drive(now, side, datapath);
        } else {
            self.schedule(now, side);
        }
    }

    /// Has the datapath wake an end in time.
    fn rest(&mut self, side: usize, datapath: &mut Datapath) {
        let id = self.id(side);
        let end = &mut self.ends[side];
        if end.scheduled < end.queued {
            end.queued = end.scheduled;
            datapath.wake(id, end.scheduled);
        }
    }

    /// The network tells one of its hosts something.
    pub fn network_changed(&mut self, now: Time, side: usize, event: NetworkEvent, datapath: &mut Datapath) {
        self.ends[side].endpoint.handle_network(now, event);
        if self.started || side == RECEIVER {
            self.drive(now, side, datapath);
            self.rest(side, datapath);
        }
    }

    /// Adds what arrived at its ends.
    pub fn digest(&self, digest: &mut Digest) {
        for end in &self.ends {
            digest.word(end.digest.value());
        }
    }

    /// The warm-up is over: forgets what was measured.
    pub fn restart(&mut self, now: Time) {
        let endpoints = [self.ends[SENDER].endpoint.as_ref(), self.ends[RECEIVER].endpoint.as_ref()];
        self.meters.restart(now, endpoints, self.applications.checker.delivered());
        self.applications.checker.restart_delays();
    }

    /// Deals with all that comes out of an end at this moment.
    #[inline]
    fn drive(&mut self, now: Time, side: usize, datapath: &mut Datapath) {
        let id = self.id(side);
        let End { endpoint, routes, ports, .. } = &mut self.ends[side];
        let applications = &mut self.applications;
        let (readable, finished) = (false, false);
        let mut turn = Turn { now, side, id, datapath, routes, ports, applications, readable, finished };
        drive(endpoint.as_mut(), now, &mut turn);
        self.meters.sample(now, side, self.ends[side].endpoint.as_ref());
        self.schedule(now, side);
    }

    #[inline]
    fn schedule(&mut self, now: Time, side: usize) {
        let mut due = self.ends[side].endpoint.next_timeout().unwrap_or(Time::MAX);
        if side == SENDER {
            due = due.min(self.applications.due());
        }
        let end = &mut self.ends[side];
        end.scheduled = end.scheduled.min(due.max(now));
    }

    const fn id(&self, side: usize) -> EndId {
        self.index * 2 + side as u32
    }
}

impl Driver<dyn Endpoint> for Turn<'_> {
    #[inline]
    fn place(&mut self, placement: Placement) {
        let Applications { checker, name, .. } = self.applications;
        if let Err(mistake) = checker.place(placement) {
            panic!("flow \"{name}\" at {:?}: {mistake}", self.now);
        }
    }

    #[inline]
    fn transmit(&mut self, packet: Packet) {
        self.datapath.send(self.now, self.id, self.routes, packet);
    }

    #[inline]
    fn event(&mut self, event: Event) {
        self.readable |= event == Event::Readable;
        self.finished |= event == Event::Finished;
        self.applications.note(self.now, self.side, event);
    }

    fn port(&mut self, local: IpAddr, remote: SocketAddr) -> Option<u16> {
        self.ports.give(local, remote)
    }

    /// The sending side writes. The receiving side has nothing to say: it reads, and closes as soon as the other has.
    #[inline]
    fn application(&mut self, endpoint: &mut (dyn Endpoint + 'static)) -> bool {
        let (readable, finished) = (core::mem::take(&mut self.readable), core::mem::take(&mut self.finished));
        if self.side == SENDER {
            return self.applications.write(self.now, endpoint);
        }
        if finished {
            self.applications.finish(self.now, endpoint);
        }
        finished || (readable && self.applications.read(self.now, endpoint))
    }
}

impl Applications {
    fn note(&mut self, now: Time, side: usize, event: Event) {
        if let Event::Closed(reason) = event {
            self.ended[side] = Some((now, reason));
        }
        match (side, event) {
            (SENDER, Event::Connected) => {
                self.state = State::Open;
                (self.may_write, self.fresh) = (true, true);
            }
            (SENDER, Event::Writable) => (self.may_write, self.fresh) = (true, true),
            (SENDER, Event::Closed(reason)) => self.state = State::Ended(reason),
            _ => {}
        }
    }

    /// Reads what there is before the receiving side closes.
    fn finish(&mut self, now: Time, endpoint: &mut dyn Endpoint) {
        self.read(now, endpoint);
        self.delivered_at.get_or_insert(now);
        endpoint.close(now);
    }

    /// Lets the application write; whether it did anything.
    fn write(&mut self, now: Time, endpoint: &mut dyn Endpoint) -> bool {
        if self.writer.is_closed() || (!self.fresh && now < self.due()) {
            return false;
        }
        self.fresh = false;
        let mut acted = false;
        loop {
            match self.writer.poll(now) {
                Step::Write { len, born } => {
                    let Streams { unordered, .. } = self.streams;
                    let accepted = endpoint
                        .write(now, Write { stream: self.next_stream, unordered, ..Write::bytes(len) });
                    if accepted > 0 {
                        acted = true;
                        self.checker.wrote(accepted, born);
                        self.writer.accepted(accepted);
                    }
                    if accepted < len {
                        self.may_write = false;
                        return acted;
                    }
                    self.next_stream = (self.next_stream + 1) % self.streams.count.max(1);
                }
                Step::Close => {
                    endpoint.close(now);
                    return true;
                }
                Step::Idle => return acted,
            }
        }
    }

    /// Lets the receiving application read all there is; whether there was anything.
    fn read(&mut self, now: Time, endpoint: &mut dyn Endpoint) -> bool {
        let mut acted = false;
        while let Some(delivery) = endpoint.read(now, u64::MAX) {
            acted = true;
            if let Err(mistake) = self.checker.deliver(now, delivery, endpoint.fragments()) {
                panic!("flow \"{}\" at {now:?}: {mistake}", self.name);
            }
        }
        if acted {
            self.delivered_at = Some(now);
        }
        acted
    }

    /// When the writer wants to be asked.
    #[inline]
    fn due(&self) -> Time {
        if self.writer.is_closed() {
            Time::MAX
        } else if self.may_write {
            self.writer.wake()
        } else {
            self.stop
        }
    }
}
