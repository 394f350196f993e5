//! A flow: its ends at two hosts, their applications, and measurements.

mod places;

use super::applications::{Applications, News};
use super::hosts::{FlowEnvironment, HostId, Hosts};
use super::meters::Meters;
use super::returns::Awaited;
use super::side::{RECEIVER, SENDER};
use crate::engine::Datapath;
use crate::engine::datapath::{EndId, Routes};
use crate::engine::link::PacketRef;
use crate::measure::digest::Digest;
use anabranch_base::time::Time;
use anabranch_endpoint::drive::Collected;
use anabranch_endpoint::{Driver, Endpoint, Ends, Event, PathReport, Place, Placement, SchedulingDecision};
use anabranch_host::{ConnectionId, ConnectionRef, Host, HostError, Output, Protocol};
use anabranch_multipath::scheduler::KnownPath;
use anabranch_netem::{Frame, Interface, IpVersion};
use anabranch_scenario::model::FlowChange;
use anabranch_wire::tcp::Flags;
use anabranch_wire::{Body, Packet, Pattern};
use core::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Number of wake-ups of one end at one time above which its timer counts as stuck, which is a bug.
const MAX_WAKE_UPS: u32 = 100_000;

/// Maximum number of timer events of an end that are processed ahead of other ends. A sender may write millions of messages in
/// the delay of a link, and a run cannot be interrupted between them.
const MAX_TIMERS_AHEAD: u64 = 1 << 12;

/// An end of a flow at its host.
pub struct End {
    host: HostId,
    /// The connection of the host; `None` before it has begun.
    connection: Option<ConnectionId>,
    /// The connection that processes arriving packets; `None` before it has begun and after it has ended.
    live: Option<ConnectionId>,
    /// Time of the next scheduled timer event. It stays when the timer moves to a later time.
    scheduled: Time,
    /// The earliest scheduled wake-up.
    queued: Time,
    /// Digest of all arrivals.
    digest: Digest,
    routes: Routes,
    /// The last wake-up and the number of wake-ups at that time.
    woken: (Time, u32),
    /// Notifications that the application has not processed yet.
    news: News,
}

impl End {
    /// An end without pending work.
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

/// The parts of a flow.
pub struct Parts {
    /// The connecting host, and the listening one.
    pub hosts: [HostId; 2],
    /// Parameters of the connection.
    pub opening: Box<(Protocol, Ends)>,
    /// The applications.
    pub applications: Applications,
    /// The end with the main data of the flow.
    pub source: usize,
}

/// A flow of the simulation.
pub struct Flow {
    /// Index of the flow in the scenario.
    index: u32,
    /// The connecting end, and the listening one.
    ends: [End; 2],
    /// The applications.
    pub applications: Applications,
    /// The measurements.
    pub meters: Meters,
    /// The end with the main data of the flow.
    source: usize,
    start: Time,
    /// Parameters of the connection, until it begins.
    opening: Option<Box<(Protocol, Ends)>>,
    /// True if the decisions of its scheduler are recorded.
    keeps_decisions: bool,
    /// True if this is a slot of a flow with arrivals: its ends have one connection after another, so packets
    /// of an earlier one may arrive, and the host finds the connection of every packet.
    is_reused: bool,
    /// Links whose addresses are backups since the last event that changed them; `None` before the first.
    backup: Option<Vec<usize>>,
}

/// Processing of one end of a flow at one time: passes the output of its endpoint to the network and to the
/// application.
struct Turn<'a> {
    now: Time,
    side: usize,
    id: EndId,
    datapath: &'a mut Datapath,
    routes: &'a mut Routes,
    applications: &'a mut Applications,
    meters: &'a mut Meters,
    news: News,
    /// Time of the endpoint's next timer.
    timeout: Option<Time>,
}

impl Flow {
    /// A flow that begins at `start`, after [`arm`](Self::schedule_start).
    pub fn new(index: u32, parts: Parts, start: Time) -> Self {
        let Parts { hosts, opening, applications, source } = parts;
        let mut meters = Meters::new(source, start);
        meters.measure_streams(start, applications.streams(source));
        Self {
            index,
            ends: hosts.map(End::new),
            applications,
            meters,
            source,
            start,
            opening: Some(opening),
            keeps_decisions: false,
            is_reused: false,
            backup: None,
        }
    }

    /// Starts to record the decisions of the scheduler of its data.
    pub const fn keep_decisions(&mut self) {
        self.keeps_decisions = true;
    }

    /// The endpoint at one of its ends; `None` before it has begun.
    pub fn endpoint<'a>(&self, side: usize, hosts: &'a Hosts) -> Option<&'a dyn Endpoint> {
        let End { host, connection, .. } = &self.ends[side];
        hosts.endpoint(*host, *connection)
    }

    /// The oldest recorded decision of the scheduler of its data.
    pub fn poll_decision(&self, hosts: &mut Hosts) -> Option<SchedulingDecision> {
        let End { host, connection, .. } = &self.ends[self.source];
        hosts.get_mut(*host).endpoint_mut((*connection)?)?.poll_decision()
    }

    /// The end with the main data of the flow, to which the flow's goodput, paths and windows belong.
    pub const fn source(&self) -> usize {
        self.source
    }

    /// Time of the last arrival, if the applications have closed and all data has arrived. Valid only between events:
    /// while one end is processed ahead, its time is later than that of the other end.
    pub fn completed(&self) -> Option<Time> {
        self.applications.completed()
    }

    /// Time at which the flow starts.
    pub const fn start(&self) -> Time {
        self.start
    }

    /// Returns true if the connection has ended from the view of one end.
    pub const fn is_over(&self, side: usize) -> bool {
        self.applications.ended[side].is_some()
    }

    /// Resumes reading for an application that has left data unread.
    pub fn read_on(&mut self, now: Time, side: usize, world: &mut FlowEnvironment) {
        self.ends[side].news.readable = true;
        self.turn(now, side, world);
    }

    /// Whether an end has a connection, which may have ended.
    pub const fn is_connected(&self, side: usize) -> bool {
        self.ends[side].connection.is_some()
    }

    /// True if the flow's connection has begun.
    pub const fn has_begun(&self) -> bool {
        self.opening.is_none()
    }

    /// Begins the flow's connection now, independently of its scheduled start.
    pub fn begin(&mut self, now: Time, world: &mut FlowEnvironment) {
        if let Some(opening) = self.opening.take() {
            self.connect_reserved(now, &opening, world);
            self.schedule_wake_up(SENDER, &mut world.datapath);
        }
    }

    /// Aborts one end of the flow, with all data in flight; the other end is notified.
    pub fn abort(&mut self, now: Time, side: usize, world: &mut FlowEnvironment) {
        self.end(now, side, world, |endpoint| endpoint.abort(now));
    }

    /// Closes one end of the flow, which has no more data to write.
    pub fn close(&mut self, now: Time, side: usize, world: &mut FlowEnvironment) {
        self.end(now, side, world, |endpoint| endpoint.close(now));
    }

    fn end(
        &mut self,
        now: Time,
        side: usize,
        world: &mut FlowEnvironment,
        how: impl FnOnce(&mut dyn Endpoint),
    ) {
        let End { host, connection, .. } = self.ends[side];
        if let Some(mut reference) = connection.and_then(|id| world.hosts.get_mut(host).connection_ref(id)) {
            how(reference.endpoint());
        }
        self.turn(now, side, world);
    }

    /// Schedules the start of the flow.
    pub fn schedule_start(&mut self, datapath: &mut Datapath) {
        self.ends[SENDER].scheduled = self.start;
        self.schedule_wake_up(SENDER, datapath);
    }

    /// Records the datagrams of an end that were lost until now.
    #[inline]
    pub fn record_lost(&mut self, side: usize, datapath: &mut Datapath) {
        if self.applications.may_lose(side) {
            self.applications.record_lost(side, datapath.take_lost(self.id(side)));
        }
    }

    /// Processes a packet that reached one of its ends.
    pub fn arrived(&mut self, now: Time, side: usize, frame: PacketRef, world: &mut FlowEnvironment) {
        self.receive(now, side, frame, world);
        self.schedule_wake_up(side, &mut world.datapath);
    }

    /// Number of entries of its lists that a packet passes at one of its ends.
    pub fn entries_before(&self, side: usize, frame: PacketRef, world: &mut FlowEnvironment) -> u64 {
        let End { host, live, .. } = self.ends[side];
        let packet = world.datapath.packet(frame);
        let connection = if self.is_reused { world.hosts.get_mut(host).connection_of(packet) } else { live };
        world.hosts.endpoint(host, connection).map_or(0, |endpoint| endpoint.entries_before(packet))
    }

    /// Processes a wake-up of one end, as far ahead as possible, with at most [`MAX_TIMERS_AHEAD`] timer events. Returns the number of timer events.
    pub fn woken(&mut self, now: Time, side: usize, world: &mut FlowEnvironment) -> u64 {
        let id = self.id(side);
        if self.ends[side].queued == now {
            self.ends[side].queued = Time::MAX;
        }
        let until = world.datapath.safe_until(id, now);
        self.record_lost(side, &mut world.datapath);
        let mut timer_events = 0;
        loop {
            let due = self.ends[side].scheduled;
            // At equal times packets precede timers.
            let limit = if due < until { due.just_after() } else { until };
            if let Some((at, frame)) = world.datapath.take_arrival(id, limit) {
                self.receive(at, side, frame, world);
            } else if due < until && timer_events < MAX_TIMERS_AHEAD {
                timer_events += 1;
                self.on_timer(due, side, world);
            } else {
                break;
            }
        }
        world.datapath.resume(id);
        self.schedule_wake_up(side, &mut world.datapath);
        timer_events
    }

    /// Processes a wake-up of one end in real time, at `now` or before. Returns the number of timer events.
    pub fn due(&mut self, now: Time, side: usize, world: &mut FlowEnvironment) -> u64 {
        if self.ends[side].queued <= now {
            self.ends[side].queued = Time::MAX;
        }
        self.record_lost(side, &mut world.datapath);
        let mut timer_events = 0;
        while self.ends[side].scheduled <= now {
            timer_events += 1;
            self.on_timer(now, side, world);
        }
        self.schedule_wake_up(side, &mut world.datapath);
        timer_events
    }

    /// The engine knows the connection of a packet, so the host need not search for it. The host searches for
    /// packets that may open a connection or a subflow (SYNs), for errors, and for packets without a
    /// connection.
    #[inline]
    fn receive(&mut self, now: Time, side: usize, frame: PacketRef, world: &mut FlowEnvironment) {
        let sender = self.id(1 - side);
        let end = &mut self.ends[side];
        let packet = world.datapath.packet(frame);
        end.digest.packet(now, (side as u32, frame.wire_len()), packet);
        if world.datapath.drops_misaddressed(sender, frame) {
            return;
        }
        if world.datapath.is_repeated_datagram(sender, frame) {
            self.applications.record_duplicate(1 - side);
            world.datapath.take_packet(frame);
            return;
        }
        let packet = world.datapath.packet(frame);
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
        let Some(mut reference) = known.and_then(|connection| host.connection_ref(connection)) else {
            return self.receive_as_host(now, side, frame, world);
        };
        reference.endpoint().handle_packet(now, world.datapath.take_packet(frame), &Pattern);
        let output = self.drive_connection(now, side, reference, &mut world.datapath);
        if output.concerns_host() {
            self.note(now, side, output, &mut world.hosts);
        }
    }

    /// Passes a packet to the host, which finds its destination.
    #[cold]
    #[inline(never)]
    fn receive_as_host(&mut self, now: Time, side: usize, frame: PacketRef, world: &mut FlowEnvironment) {
        let packet = world.datapath.take_packet(frame);
        let (id, end) = (self.id(side), &mut self.ends[side]);
        let host = world.hosts.get_mut(end.host);
        let mut answers = Vec::new();
        if let Some(found) = host.handle_packet(now, packet, &Pattern) {
            let own = end.connection.filter(|own| host.endpoint(*own).is_some());
            // A free slot has no connection.
            let is_free = self.is_reused && self.ends[SENDER].connection.is_none();
            if is_free || own.is_some_and(|own| own != found) {
                // The connection of the flow had ended before. An old packet has opened another one, which is
                // removed.
                host.forget(now, found);
                answers = take_last_packets(now, found, host);
            } else {
                if own.is_none() {
                    self.assign(side, found);
                    self.applications.ended[side] = None;
                    self.set_connection(now, side, &mut world.hosts);
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

    /// Processes the timers of an end.
    fn on_timer(&mut self, now: Time, side: usize, world: &mut FlowEnvironment) {
        let end = &mut self.ends[side];
        end.scheduled = Time::MAX;
        end.woken = if end.woken.0 == now { (now, end.woken.1 + 1) } else { (now, 0) };
        assert!(
            end.woken.1 < MAX_WAKE_UPS,
            "flow \"{}\": its timer is due at {now:?} repeatedly",
            self.applications.name()
        );
        if side == SENDER
            && let Some(opening) = self.opening.take()
        {
            return self.connect_reserved(now, &opening, world);
        }
        let timeout = self.endpoint(side, &world.hosts).and_then(Endpoint::next_timeout);
        if timeout.is_some_and(|due| due <= now) {
            let End { host, connection, .. } = &self.ends[side];
            if let Some(mut reference) =
                connection.and_then(|id| world.hosts.get_mut(*host).connection_ref(id))
            {
                reference.endpoint().handle_timeout(now);
            }
            self.drive(now, side, world);
        } else if self.applications.due(side) <= now {
            self.drive(now, side, world);
        } else {
            self.schedule(now, side, timeout);
        }
    }

    /// Opens the connection of the connecting end from the port that is reserved for it.
    fn connect_reserved(&mut self, now: Time, opening: &(Protocol, Ends), world: &mut FlowEnvironment) {
        // The settings have been checked, too.
        if let Err(error) = self.connect(now, opening, world) {
            panic!("flow \"{}\": {error}", self.applications.name());
        }
    }

    /// Opens the connection of the connecting end.
    fn connect(
        &mut self,
        now: Time,
        (protocol, ends): &(Protocol, Ends),
        world: &mut FlowEnvironment,
    ) -> Result<(), HostError> {
        let host = world.hosts.get_mut(self.ends[SENDER].host);
        let connection = host.connect_from(now, protocol, ends.clone())?;
        self.assign(SENDER, connection);
        self.set_connection(now, SENDER, &mut world.hosts);
        self.drive(now, SENDER, world);
        Ok(())
    }

    /// Assigns a connection of a host to one end of the flow.
    fn assign(&mut self, side: usize, connection: ConnectionId) {
        let end = &mut self.ends[side];
        end.connection = Some(connection);
        end.live = end.connection.filter(|_| !self.is_reused);
    }

    /// Sets the connection of an end.
    fn set_connection(&self, now: Time, side: usize, hosts: &mut Hosts) {
        let End { host, connection, .. } = &self.ends[side];
        if self.keeps_decisions
            && side == self.source
            && let Some(mut reference) = connection.and_then(|id| hosts.get_mut(*host).connection_ref(id))
        {
            reference.endpoint().keep_decisions();
        }
        self.set_backup(now, side, hosts);
    }

    /// Passes the backups of the last event to the connection of an end.
    fn set_backup(&self, now: Time, side: usize, hosts: &mut Hosts) {
        let End { host, connection, .. } = &self.ends[side];
        if let (Some(links), Some(connection)) = (&self.backup, *connection) {
            let host = hosts.get_mut(*host);
            host.set_backup_addresses(now, connection, &|ip| is_of(links, ip));
        }
    }

    /// Applies an event of the scenario to the flow.
    pub fn change(&mut self, now: Time, change: &FlowChange, world: &mut FlowEnvironment) {
        match change {
            FlowChange::Backup(links) => {
                self.backup = Some(links.clone());
                for side in [SENDER, RECEIVER] {
                    self.set_backup(now, side, &mut world.hosts);
                }
            }
            FlowChange::Primary(link, version) => self.set_primary((*link, *version), world),
        }
    }

    /// Makes the address at a link the primary destination of the data, if it is active.
    fn set_primary(&self, (link, version): (usize, Option<IpVersion>), world: &mut FlowEnvironment) {
        let FlowEnvironment { datapath, hosts } = world;
        let End { host, connection, .. } = &self.ends[self.source];
        let paths = hosts.endpoint(*host, *connection).map(|endpoint| endpoint.report().paths);
        let leads_there = |path: &PathReport| {
            let remote = datapath.real_address(path.remote).ip();
            let is_version = version.is_none_or(|version| version == IpVersion::of(remote));
            path.usable && is_version && is_of(&[link], remote)
        };
        let path = paths.iter().flatten().find(|path| leads_there(path));
        if let (Some(path), Some(connection)) = (path, *connection) {
            hosts.get_mut(*host).set_primary(connection, path.id);
        }
    }

    /// Replaces an address of either host by another on the same interface.
    pub fn renumber(&mut self, old: IpAddr, new: IpAddr) {
        for end in &mut self.ends {
            end.routes = Routes::default();
        }
        if let Some(opening) = &mut self.opening {
            let (protocol, ends) = &mut **opening;
            protocol.renumber(old, new);
            ends.renumber(old, new);
        }
    }

    /// Replaces the characteristics of paths, if the flow has not started.
    pub fn set_known_paths(&mut self, known: &Arc<[KnownPath]>) {
        if let Some(opening) = &mut self.opening {
            opening.0.set_known_paths(known);
        }
    }

    /// Schedules the next wake-up of an end.
    fn schedule_wake_up(&mut self, side: usize, datapath: &mut Datapath) {
        let id = self.id(side);
        let end = &mut self.ends[side];
        if end.scheduled < end.queued {
            end.queued = end.scheduled;
            datapath.wake(id, end.scheduled);
        }
    }

    /// Processes an end after an event other than a packet or a timer: a change of the network, or pending
    /// work of its application.
    pub fn turn(&mut self, now: Time, side: usize, world: &mut FlowEnvironment) {
        self.drive(now, side, world);
        self.schedule_wake_up(side, &mut world.datapath);
    }

    /// Adds the arrivals at both ends to the digest.
    pub fn digest(&self, digest: &mut Digest) {
        for end in &self.ends {
            digest.word(end.digest.value());
        }
    }

    /// Starts to await new data after an event.
    pub fn watch_returns(&mut self, now: Time, event: Awaited, hosts: &Hosts) {
        let endpoints = [SENDER, RECEIVER].map(|side| self.endpoint(side, hosts));
        self.meters.watch_returns(now, event, endpoints);
    }

    /// Begins or ends the span after an event in which repeated bytes are counted. A slot of a flow with arrivals has
    /// none: at its ends, the counters may be those of different connections.
    pub fn set_span(&mut self, begins: bool, hosts: &Hosts) {
        if self.is_reused {
            return;
        }
        let endpoints = [SENDER, RECEIVER].map(|side| self.endpoint(side, hosts));
        if begins {
            self.meters.begin_span(endpoints);
        } else {
            self.meters.end_span(endpoints);
        }
    }

    /// Ends the warm-up: discards the measurements up to `now`.
    pub fn restart(&mut self, now: Time, hosts: &Hosts) {
        let endpoints = [SENDER, RECEIVER].map(|side| self.endpoint(side, hosts));
        let written_by = [SENDER, RECEIVER].map(|side| self.applications.written_by(side));
        let delivered =
            written_by.map(|transfer| transfer.map_or(0, |transfer| transfer.checker.delivered()));
        self.meters.restart(now, endpoints, delivered);
        self.applications.restart_delays(now);
    }

    /// Processes all output of an end's connection at this time, if it has one.
    fn drive(&mut self, now: Time, side: usize, world: &mut FlowEnvironment) {
        let End { host, connection, .. } = self.ends[side];
        let reference = connection.and_then(|id| world.hosts.get_mut(host).connection_ref(id));
        let Some(reference) = reference else { return };
        let output = self.drive_connection(now, side, reference, &mut world.datapath);
        if output.concerns_host() {
            self.note(now, side, output, &mut world.hosts);
        }
    }

    /// Processes all output of a connection at this time.
    fn drive_connection(
        &mut self,
        now: Time,
        side: usize,
        mut reference: ConnectionRef<'_>,
        datapath: &mut Datapath,
    ) -> Output {
        let id = self.id(side);
        let End { routes, news, .. } = &mut self.ends[side];
        let news = core::mem::take(news);
        let (applications, meters) = (&mut self.applications, &mut self.meters);
        let timeout = None;
        let mut turn = Turn { now, side, id, datapath, routes, applications, meters, news, timeout };
        let output = reference.drive(now, &mut turn);
        let timeout = turn.timeout;
        self.schedule(now, side, timeout);
        output
    }

    /// Passes the output of a connection to its host.
    #[cold]
    #[inline(never)]
    fn note(&mut self, now: Time, side: usize, output: Output, hosts: &mut Hosts) {
        let End { host, connection, live, .. } = &mut self.ends[side];
        let (host, Some(connection)) = (hosts.get_mut(*host), *connection) else { return };
        host.note(now, connection, output);
        if output.connected() && side == RECEIVER {
            host.accept_one(connection);
        }
        if output.closed() {
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

/// True if an address belongs to an end of one of these links.
fn is_of(links: &[usize], ip: IpAddr) -> bool {
    Interface::of_address(ip).is_some_and(|interface| links.contains(&interface.link()))
}

/// The last packets of a connection that its host has removed.
fn take_last_packets(now: Time, connection: ConnectionId, host: &mut Host) -> Vec<Packet> {
    let mut collected = Collected::default();
    if let Some(output) =
        host.connection_ref(connection).map(|mut reference| reference.drive(now, &mut collected))
    {
        host.note(now, connection, output);
    }
    collected.packets
}

impl<E: Endpoint> Driver<E> for Turn<'_> {
    #[inline]
    fn place(&mut self, placement: Placement) {
        match placement.place {
            Place::Fragment { key } => self.applications.place(self.now, self.side, (key, placement.payload)),
            // A stream's deliveries are checked by offset, so the bytes of a packet must equal those written at that
            // offset.
            Place::Stream { offset } if self.datapath.carries_bytes() => {
                self.applications.check_place(self.now, self.side, (offset, placement.payload));
            }
            Place::Stream { .. } => {}
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

    /// The host assigns ports itself.
    fn port(&mut self, _: IpAddr, _: SocketAddr) -> Option<u16> {
        None
    }

    #[inline]
    fn application(&mut self, endpoint: &mut E) -> bool {
        let news = core::mem::take(&mut self.news);
        self.applications.run_application(self.now, self.side, news, endpoint)
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
