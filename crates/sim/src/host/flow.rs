//! A flow: its two endpoints, the applications on them, and what is measured there.

use super::applications::{Applications, News};
use super::meters::Meters;
use super::ports::Ports;
use super::side::{RECEIVER, SENDER};
use crate::engine::Datapath;
use crate::engine::datapath::{EndId, Routes};
use crate::engine::link::PacketRef;
use crate::measure::digest::Digest;
use core::net::{IpAddr, SocketAddr};
use multipath::time::Time;
use netem::Frame;
use transport::{Driver, Endpoint, Event, NetworkEvent, Placement, Quote, drive};
use wire::icmp::Message;
use wire::{Body, Packet, Pattern};

/// Wake-ups of one end at one moment after which its timer is taken to be stuck.
const WAKE_LIMIT: u32 = 100_000;

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

/// What a flow is made of.
pub struct Parts {
    /// The end that connects, and the one that listens.
    pub endpoints: [Box<dyn Endpoint>; 2],
    /// Their ports.
    pub ports: [Ports; 2],
    /// What runs on them.
    pub applications: Applications,
    /// The end whose data the flow is there for.
    pub source: usize,
}

/// A flow of the simulation.
pub struct Flow {
    /// Index of the flow in the scenario.
    index: u32,
    /// The end that connects, and the one that listens.
    pub ends: [End; 2],
    /// What runs on them.
    pub applications: Applications,
    /// What is measured.
    pub meters: Meters,
    /// The end whose data the flow is there for.
    source: usize,
    start: Time,
    started: bool,
}

/// What an ICMP error tells the end that sent the packet it quotes; the network brings it to that end.
#[cold]
fn network_event(message: &Message) -> Option<NetworkEvent> {
    let Message::PacketTooBig { mtu, quote } = message else { return None };
    let quoted = quote.parse_encapsulated().or_else(|| quote.parse())?;
    let quote = Quote {
        local: quoted.source,
        remote: quoted.destination,
        number: quoted.number,
        initiate_tag: quoted.initiate_tag,
    };
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
    news: News,
}

impl Flow {
    /// A flow that begins at `start`; it wakes up by itself.
    pub fn new(index: u32, parts: Parts, start: Time) -> Self {
        let Parts { endpoints: [connecting, listening], ports: [from, to], applications, source } = parts;
        Self {
            index,
            ends: [End::new(connecting, from), End::new(listening, to)],
            applications,
            meters: Meters::new(source, start),
            source,
            start,
            started: false,
        }
    }

    /// The end whose data the flow is there for: whose goodput, paths and windows are the flow's.
    pub const fn source(&self) -> usize {
        self.source
    }

    /// When the last byte arrived, if the applications have closed and all has arrived. For between events: while one end
    /// lives on by itself, it is ahead of what the other has done.
    pub fn completed(&self) -> Option<Time> {
        self.applications.completed()
    }

    /// When it starts.
    pub const fn start(&self) -> Time {
        self.start
    }

    /// Whether the connection is over as one of its ends sees it.
    pub const fn is_over(&self, side: usize) -> bool {
        self.applications.ended[side].is_some()
    }

    /// Has the flow woken up at its start.
    pub fn arm(&mut self, datapath: &mut Datapath) {
        self.ends[SENDER].scheduled = self.start;
        self.rest(SENDER, datapath);
    }

    /// A packet reached one of its ends.
    pub fn arrived(&mut self, now: Time, side: usize, frame: PacketRef, datapath: &mut Datapath) {
        self.receive(now, side, frame, datapath);
        self.rest(side, datapath);
    }

    /// One of its ends has something to do: it lives on as long as it can alone. How many times it looked at its timers.
    pub fn woken(&mut self, now: Time, side: usize, datapath: &mut Datapath) -> u64 {
        let id = self.id(side);
        if self.ends[side].queued == now {
            self.ends[side].queued = Time::MAX;
        }
        let until = datapath.safe_until(id, now);
        if self.applications.may_lose(side) {
            self.applications.note_lost(side, datapath.take_lost(id));
        }
        let mut looks = 0;
        loop {
            let due = self.ends[side].scheduled;
            // At one moment packets come first.
            let limit = if due < until { due.just_after() } else { until };
            if let Some((at, frame)) = datapath.take_arrival(id, limit) {
                self.receive(at, side, frame, datapath);
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
    fn receive(&mut self, now: Time, side: usize, frame: PacketRef, datapath: &mut Datapath) {
        let end = &mut self.ends[side];
        let packet = datapath.take_packet(frame);
        end.digest.packet(now, (side as u32, frame.wire_len()), &packet);
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
            self.applications.name()
        );
        if side == SENDER && !self.started {
            self.started = true;
            end.endpoint.connect(now);
            self.drive(now, side, datapath);
        } else if end.endpoint.next_timeout().is_some_and(|due| due <= now) {
            end.endpoint.handle_timeout(now);
            self.drive(now, side, datapath);
        } else if self.applications.due(side) <= now {
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
        let written_by = [SENDER, RECEIVER].map(|side| self.applications.written_by(side));
        let delivered =
            written_by.map(|transfer| transfer.map_or(0, |transfer| transfer.checker.delivered()));
        self.meters.restart(now, endpoints, delivered);
        self.applications.restart_delays();
    }

    /// Deals with all that comes out of an end at this moment.
    #[inline]
    fn drive(&mut self, now: Time, side: usize, datapath: &mut Datapath) {
        let id = self.id(side);
        let End { endpoint, routes, ports, .. } = &mut self.ends[side];
        let applications = &mut self.applications;
        let mut turn = Turn { now, side, id, datapath, routes, ports, applications, news: News::default() };
        drive(endpoint.as_mut(), now, &mut turn);
        if self.applications.ended[side].is_none() {
            self.meters.look(now, side, self.ends[side].endpoint.as_ref());
        } else {
            self.meters.end(now, side);
        }
        self.schedule(now, side);
    }

    #[inline]
    fn schedule(&mut self, now: Time, side: usize) {
        let timeout = self.ends[side].endpoint.next_timeout().unwrap_or(Time::MAX);
        let due = timeout.min(self.applications.due(side));
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
        self.applications.place(self.now, self.side, placement);
    }

    fn forget(&mut self, run: (u64, u32)) {
        self.applications.forget(self.now, self.side, run);
    }

    #[inline]
    fn transmit(&mut self, packet: Packet) {
        self.datapath.send(self.now, self.id, self.routes, packet);
    }

    #[inline]
    fn event(&mut self, event: Event) {
        self.news.readable |= event == Event::Readable;
        self.news.finished |= event == Event::Finished;
        self.applications.note(self.now, self.side, event);
    }

    fn port(&mut self, local: IpAddr, remote: SocketAddr) -> Option<u16> {
        self.ports.give(local, remote)
    }

    #[inline]
    fn application(&mut self, endpoint: &mut (dyn Endpoint + 'static)) -> bool {
        let news = core::mem::take(&mut self.news);
        self.applications.act(self.now, self.side, news, endpoint)
    }
}
