//! A flow: its ends at two hosts, the applications on them, and what is measured there.

use super::applications::{Applications, News};
use super::hosts::{HostId, Hosts, World};
use super::meters::Meters;
use super::side::{RECEIVER, SENDER};
use crate::engine::Datapath;
use crate::engine::datapath::{EndId, Routes};
use crate::engine::link::PacketRef;
use crate::measure::digest::Digest;
use core::net::{IpAddr, SocketAddr};
use multipath::time::Time;
use netem::Frame;
use transport::drive::Collected;
use transport::host::{Alone, ConnectionId, Host, Protocol, Said};
use transport::{Driver, Endpoint, Ends, Event, Place, Placement, Scheduled};
use wire::tcp::Flags;
use wire::{Body, Packet, Pattern};

/// Wake-ups of one end at one moment after which its timer is taken to be stuck.
const WAKE_LIMIT: u32 = 100_000;

/// An end of a flow at its host.
pub struct End {
    host: HostId,
    /// The connection of the host; none before it has begun.
    connection: Option<ConnectionId>,
    /// The same until it has ended: whose packets these are.
    live: Option<ConnectionId>,
    /// When it next looks at its timers. Those that move to a later time leave it where it is.
    scheduled: Time,
    /// When the earliest wake-up comes that the datapath knows of.
    queued: Time,
    /// Over all that arrived.
    digest: Digest,
    routes: Routes,
    /// The last wake-up and how often it came at that moment.
    woken: (Time, u32),
    /// What its application is told at its next turn.
    news: News,
}

impl End {
    /// An end without anything pending.
    pub fn new(host: HostId) -> Self {
        Self {
            host,
            connection: None,
            live: None,
            scheduled: Time::MAX,
            queued: Time::MAX,
            digest: Digest::new(),
            routes: Routes::default(),
            woken: (Time::ZERO, 0),
            news: News::default(),
        }
    }
}

/// What a flow is made of.
pub struct Parts {
    /// The host that connects, and the one that listens.
    pub hosts: [HostId; 2],
    /// What the connecting one asks its host for.
    pub opening: Box<(Protocol, Ends)>,
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
    ends: [End; 2],
    /// What runs on them.
    pub applications: Applications,
    /// What is measured.
    pub meters: Meters,
    /// The end whose data the flow is there for.
    source: usize,
    start: Time,
    /// What the connecting end asks its host for when it starts.
    opening: Option<Box<(Protocol, Ends)>>,
    /// Its scheduler's decisions are wanted.
    keeps_decisions: bool,
}

/// One end of a flow at one moment: what comes out of its endpoint goes to the network and to its application.
struct Turn<'a> {
    now: Time,
    side: usize,
    id: EndId,
    datapath: &'a mut Datapath,
    routes: &'a mut Routes,
    applications: &'a mut Applications,
    meters: &'a mut Meters,
    news: News,
    /// When the endpoint wants to be asked again.
    timeout: Option<Time>,
}

impl Flow {
    /// A flow that begins at `start`; it wakes up by itself.
    pub fn new(index: u32, parts: Parts, start: Time) -> Self {
        let Parts { hosts, opening, applications, source } = parts;
        Self {
            index,
            ends: hosts.map(End::new),
            applications,
            meters: Meters::new(source, start),
            source,
            start,
            opening: Some(opening),
            keeps_decisions: false,
        }
    }

    /// Has the decisions of its data's scheduler kept.
    pub const fn keep_decisions(&mut self) {
        self.keeps_decisions = true;
    }

    /// The endpoint at one of its ends; none before that has begun.
    pub fn endpoint<'a>(&self, side: usize, hosts: &'a Hosts) -> Option<&'a dyn Endpoint> {
        let End { host, connection, .. } = &self.ends[side];
        hosts.endpoint(*host, *connection)
    }

    /// The next decision of its data's scheduler, oldest first.
    pub fn poll_decision(&self, hosts: &mut Hosts) -> Option<Scheduled> {
        let End { host, connection, .. } = &self.ends[self.source];
        hosts.get_mut(*host).endpoint_mut((*connection)?)?.poll_decision()
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

    /// The application of an end reads on, which has left something unread.
    pub fn read_on(&mut self, now: Time, side: usize, world: &mut World) {
        self.ends[side].news.readable = true;
        self.turn(now, side, world);
    }

    /// Whether its connection has been asked for.
    pub const fn has_begun(&self) -> bool {
        self.opening.is_none()
    }

    /// Its connection is asked for now, whatever its start was to be.
    pub fn begin(&mut self, now: Time, world: &mut World) {
        if let Some(opening) = self.opening.take() {
            self.connect(now, &opening, world);
            self.rest(SENDER, &mut world.datapath);
        }
    }

    /// One of its ends ends at once, whatever is under way; the other end is told.
    pub fn abort(&mut self, now: Time, side: usize, world: &mut World) {
        self.end(now, side, world, |endpoint| endpoint.abort(now));
    }

    /// One of its ends has nothing more to write.
    pub fn close(&mut self, now: Time, side: usize, world: &mut World) {
        self.end(now, side, world, |endpoint| endpoint.close(now));
    }

    fn end(&mut self, now: Time, side: usize, world: &mut World, how: impl FnOnce(&mut dyn Endpoint)) {
        let End { host, connection, .. } = self.ends[side];
        if let Some(mut alone) = connection.and_then(|id| world.hosts.get_mut(host).alone(id)) {
            how(alone.endpoint());
        }
        self.turn(now, side, world);
    }

    /// Has the flow woken up at its start.
    pub fn arm(&mut self, datapath: &mut Datapath) {
        self.ends[SENDER].scheduled = self.start;
        self.rest(SENDER, datapath);
    }

    /// A packet reached one of its ends.
    pub fn arrived(&mut self, now: Time, side: usize, frame: PacketRef, world: &mut World) {
        self.receive(now, side, frame, world);
        self.rest(side, &mut world.datapath);
    }

    /// One of its ends has something to do: it lives on as long as it can alone. How many times it looked at its timers.
    pub fn woken(&mut self, now: Time, side: usize, world: &mut World) -> u64 {
        let id = self.id(side);
        if self.ends[side].queued == now {
            self.ends[side].queued = Time::MAX;
        }
        let until = world.datapath.safe_until(id, now);
        if self.applications.may_lose(side) {
            self.applications.note_lost(side, world.datapath.take_lost(id));
        }
        let mut timer_events = 0;
        loop {
            let due = self.ends[side].scheduled;
            // At one moment packets come first.
            let limit = if due < until { due.just_after() } else { until };
            if let Some((at, frame)) = world.datapath.take_arrival(id, limit) {
                self.receive(at, side, frame, world);
            } else if due < until {
                timer_events += 1;
                self.on_timer(due, side, world);
            } else {
                break;
            }
        }
        world.datapath.resume(id);
        self.rest(side, &mut world.datapath);
        timer_events
    }

    /// The engine knows whose a packet is, and the host need not search. It does for what may bring it a connection or a
    /// subflow (a SYN), for errors, and for what comes when there is no connection.
    #[inline]
    fn receive(&mut self, now: Time, side: usize, frame: PacketRef, world: &mut World) {
        let end = &mut self.ends[side];
        let packet = world.datapath.packet(frame);
        end.digest.packet(now, (side as u32, frame.wire_len()), packet);
        let for_host = matches!(packet.body, Body::Icmp(_))
            || matches!(&packet.body, Body::Tcp(segment) if segment.flags.contains(Flags::SYN));
        let known = end.live.filter(|_| !for_host);
        let host = world.hosts.get_mut(end.host);
        if let Some(connection) = known
            && world.datapath.is_checking()
        {
            let found = host.connection_of(world.datapath.packet(frame));
            world.datapath.check_connection(now, self.index * 2 + side as u32, (connection, found));
        }
        let Some(mut alone) = known.and_then(|connection| host.alone(connection)) else {
            return self.receive_as_host(now, side, frame, world);
        };
        alone.endpoint().handle_packet(now, world.datapath.take_packet(frame), &Pattern);
        let said = self.drive_alone(now, side, alone, &mut world.datapath);
        if said.concerns_host() {
            self.note(now, side, said, &mut world.hosts);
        }
    }

    /// The host finds out what becomes of a packet.
    #[cold]
    #[inline(never)]
    fn receive_as_host(&mut self, now: Time, side: usize, frame: PacketRef, world: &mut World) {
        let packet = world.datapath.take_packet(frame);
        let (id, end) = (self.id(side), &mut self.ends[side]);
        let host = world.hosts.get_mut(end.host);
        let mut answers = Vec::new();
        if let Some(found) = host.handle_packet(now, packet, &Pattern) {
            let own = end.connection.filter(|own| host.endpoint(*own).is_some());
            if own.is_some_and(|own| own != found) {
                // Who has had his connection wants no other: an old packet has begun it.
                host.forget(now, found);
                answers = last_words(now, found, host);
            } else {
                if own.is_none() {
                    (end.connection, end.live) = (Some(found), Some(found));
                    self.applications.ended[side] = None;
                    self.begun(side, &mut world.hosts);
                }
                self.drive(now, side, world);
            }
        }
        let End { host, routes, .. } = &mut self.ends[side];
        answers.extend(core::iter::from_fn(|| world.hosts.get_mut(*host).poll_answer()));
        for packet in answers {
            world.datapath.send(now, id, routes, packet);
        }
    }

    /// An end looks at its timers.
    fn on_timer(&mut self, now: Time, side: usize, world: &mut World) {
        let end = &mut self.ends[side];
        end.scheduled = Time::MAX;
        end.woken = if end.woken.0 == now { (now, end.woken.1 + 1) } else { (now, 0) };
        assert!(
            end.woken.1 < WAKE_LIMIT,
            "flow \"{}\": its timer is due at {now:?} for ever",
            self.applications.name()
        );
        if side == SENDER
            && let Some(opening) = self.opening.take()
        {
            return self.connect(now, &opening, world);
        }
        let timeout = self.endpoint(side, &world.hosts).and_then(Endpoint::next_timeout);
        if timeout.is_some_and(|due| due <= now) {
            let End { host, connection, .. } = &self.ends[side];
            if let Some(mut alone) = connection.and_then(|id| world.hosts.get_mut(*host).alone(id)) {
                alone.endpoint().handle_timeout(now);
            }
            self.drive(now, side, world);
        } else if self.applications.due(side) <= now {
            self.drive(now, side, world);
        } else {
            self.schedule(now, side, timeout);
        }
    }

    /// The connecting end asks its host for a connection.
    fn connect(&mut self, now: Time, (protocol, ends): &(Protocol, Ends), world: &mut World) {
        let end = &mut self.ends[SENDER];
        let begun = world.hosts.get_mut(end.host).connect_from(now, protocol, ends.clone());
        // The port was kept for it, and its settings have been tried.
        let connection =
            begun.unwrap_or_else(|error| panic!("flow \"{}\": {error}", self.applications.name()));
        (end.connection, end.live) = (Some(connection), Some(connection));
        self.begun(SENDER, &mut world.hosts);
        self.drive(now, SENDER, world);
    }

    /// An end has a connection.
    fn begun(&self, side: usize, hosts: &mut Hosts) {
        let End { host, connection, .. } = &self.ends[side];
        if self.keeps_decisions
            && side == self.source
            && let Some(mut alone) = connection.and_then(|id| hosts.get_mut(*host).alone(id))
        {
            alone.endpoint().keep_decisions();
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

    /// Something else than a packet or a timer concerns an end: its host has been told something about the network and its
    /// connections with it, or its application has something to do.
    pub fn turn(&mut self, now: Time, side: usize, world: &mut World) {
        self.drive(now, side, world);
        self.rest(side, &mut world.datapath);
    }

    /// Adds what arrived at its ends.
    pub fn digest(&self, digest: &mut Digest) {
        for end in &self.ends {
            digest.word(end.digest.value());
        }
    }

    /// The last link of an outage comes up.
    pub fn watch_returns(&mut self, now: Time, hosts: &Hosts) {
        let endpoints = [SENDER, RECEIVER].map(|side| self.endpoint(side, hosts));
        self.meters.watch_returns(now, endpoints);
    }

    /// The warm-up is over: forgets what was measured.
    pub fn restart(&mut self, now: Time, hosts: &Hosts) {
        let endpoints = [SENDER, RECEIVER].map(|side| self.endpoint(side, hosts));
        let written_by = [SENDER, RECEIVER].map(|side| self.applications.written_by(side));
        let delivered =
            written_by.map(|transfer| transfer.map_or(0, |transfer| transfer.checker.delivered()));
        self.meters.restart(now, endpoints, delivered);
        self.applications.restart_delays();
    }

    /// Deals with all that comes out of the connection of an end at this moment, if it has one.
    fn drive(&mut self, now: Time, side: usize, world: &mut World) {
        let End { host, connection, .. } = self.ends[side];
        let alone = connection.and_then(|id| world.hosts.get_mut(host).alone(id));
        let Some(alone) = alone else { return };
        let said = self.drive_alone(now, side, alone, &mut world.datapath);
        if said.concerns_host() {
            self.note(now, side, said, &mut world.hosts);
        }
    }

    /// Deals with all that comes out of a connection at this moment.
    fn drive_alone(&mut self, now: Time, side: usize, mut alone: Alone<'_>, datapath: &mut Datapath) -> Said {
        let id = self.id(side);
        let End { routes, news, .. } = &mut self.ends[side];
        let news = core::mem::take(news);
        let (applications, meters) = (&mut self.applications, &mut self.meters);
        let timeout = None;
        let mut turn = Turn { now, side, id, datapath, routes, applications, meters, news, timeout };
        let said = alone.drive(now, &mut turn);
        let timeout = turn.timeout;
        self.schedule(now, side, timeout);
        said
    }

    /// The host learns what a connection of its has said.
    #[cold]
    #[inline(never)]
    fn note(&mut self, now: Time, side: usize, said: Said, hosts: &mut Hosts) {
        let End { host, connection, live, .. } = &mut self.ends[side];
        let (host, Some(connection)) = (hosts.get_mut(*host), *connection) else { return };
        host.note(now, connection, said);
        if said.connected() && side == RECEIVER {
            host.accept_one(connection);
        }
        if said.closed() {
            *live = None;
        }
    }

    #[inline]
    fn schedule(&mut self, now: Time, side: usize, timeout: Option<Time>) {
        let due = timeout.unwrap_or(Time::MAX).min(self.applications.due(side));
        let end = &mut self.ends[side];
        end.scheduled = end.scheduled.min(due.max(now));
    }

    const fn id(&self, side: usize) -> EndId {
        self.index * 2 + side as u32
    }
}

/// What a connection that its host has let go of has to say.
fn last_words(now: Time, connection: ConnectionId, host: &mut Host) -> Vec<Packet> {
    let mut collected = Collected::default();
    if let Some(said) = host.alone(connection).map(|mut alone| alone.drive(now, &mut collected)) {
        host.note(now, connection, said);
    }
    collected.packets
}

impl<E: Endpoint> Driver<E> for Turn<'_> {
    #[inline]
    fn place(&mut self, placement: Placement) {
        // What a stream delivers is checked by its offset.
        if let Place::Fragment { key } = placement.place {
            self.applications.place(self.now, self.side, (key, placement.payload));
        }
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

    /// The host gives ports itself.
    fn port(&mut self, _: IpAddr, _: SocketAddr) -> Option<u16> {
        None
    }

    #[inline]
    fn application(&mut self, endpoint: &mut E) -> bool {
        let news = core::mem::take(&mut self.news);
        self.applications.act(self.now, self.side, news, endpoint)
    }

    #[inline]
    fn settled(&mut self, endpoint: &E) {
        if self.applications.ended[self.side].is_none() {
            self.meters.sample(self.now, self.side, endpoint);
        } else {
            self.meters.end(self.now, self.side);
        }
        self.timeout = endpoint.next_timeout();
    }
}
