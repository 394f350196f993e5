//! Ends of flows on Anabranch's own stack: those of a host share an engine and its thread.

use super::end::End;
use super::flow::{ACCEPTS, CONNECTS, OwnEnd};
use super::record::State;
use super::samples::Reports;
use super::source::Source;
use super::span::MAX_SLEEP;
use super::speaker::SharedApplication;
use crate::clock::{Clock, prefer_this_thread};
use crate::emulator::StackDevice;
use crate::engine::{Acceptor, Application, Engine};
use crate::namespace::Namespace;
use crate::network::Network;
use crate::secrets::secrets;
use anabranch_base::time::Time;
use anabranch_endpoint::{Address, Endpoint, Ends, Event, Reason, Socket, Write};
use anabranch_host::{Backlog, ConnectionId, Limits, Listening, Protocol};
use anabranch_scenario::result::INTERVAL;
use anabranch_scenario::workload::{Client, Step};
use anabranch_wire::Payload;
use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

/// Maximum number of bytes that are read at once.
const MAX_READ_BYTES: u64 = 1 << 18;

/// An end of a flow on an own stack.
pub struct OwnFlow {
    /// Index of the flow.
    pub index: usize,
    /// The end.
    pub side: usize,
    /// The flow of this end and its records.
    pub end: End,
}

/// The own stack of a host.
pub struct OwnHost {
    /// The namespace of the host: the stack follows the state of its interfaces.
    pub namespace: Namespace,
    /// The devices that attach the stack to the emulated network, each with its addresses.
    pub devices: Vec<(StackDevice, Vec<Address>)>,
    /// The ends of flows on this host.
    pub flows: Vec<OwnFlow>,
}

/// Results of the requesting applications of a host, each with the index of the flow and the end.
pub type Clients = Vec<(usize, usize, Option<Client>)>;

impl OwnHost {
    /// Runs all ends of the host until the end of the run.
    ///
    /// # Errors
    ///
    /// If the system refuses an operation.
    pub fn run(self, clock: Clock, reports: &Arc<Reports>) -> io::Result<Clients> {
        self.namespace.enter()?;
        prefer_this_thread();
        let mut network = Network::new(clock);
        for (device, addresses) in self.devices {
            network.add(device, &addresses);
        }
        network.follow_carriers()?;
        let mut engine = Engine::new(network, Limits::default(), secrets()?);
        let talks: Vec<_> = self.flows.into_iter().map(|flow| Rc::new(Talk::new(flow, reports))).collect();
        talks.iter().filter(|talk| talk.flow.side == ACCEPTS).for_each(|talk| talk.listen(&mut engine));
        let Some(span) = talks.first().map(|talk| Arc::clone(&talk.flow.end.span)) else {
            return Ok(Vec::new());
        };
        let mut next_report = Time::ZERO;
        while !span.is_over() {
            let now = engine.now();
            talks.iter().filter(|talk| talk.wake.get() <= now).for_each(|talk| talk.act(&mut engine));
            if next_report <= now {
                next_report = now + INTERVAL;
                for talk in &talks {
                    talk.report_from(&mut engine);
                }
            }
            let wake = talks.iter().map(|talk| talk.wake.get()).min().unwrap_or(Time::MAX);
            engine.step(wake.min(next_report).min(span.until).min(now + MAX_SLEEP), None)?;
        }
        for talk in &talks {
            talk.report_from(&mut engine);
        }
        let now = span.now();
        let client = |talk: &Rc<Talk>| talk.speaker.as_ref().and_then(|speaker| speaker.client(now));
        Ok(talks.iter().map(|talk| (talk.flow.index, talk.flow.side, client(talk))).collect())
    }
}

/// An end of a flow, in the thread of its host.
struct Talk {
    flow: OwnFlow,
    /// The writing application, if there is one.
    speaker: Option<SharedApplication>,
    reports: Arc<Reports>,
    connection: Cell<Option<ConnectionId>>,
    /// Time of the application's next action: the start of the flow, or its next write.
    wake: Cell<Time>,
}

impl Talk {
    fn new(flow: OwnFlow, reports: &Arc<Reports>) -> Self {
        let End { flow: of, span, .. } = &flow.end;
        let application = of.applications[flow.side].clone();
        let speaker = application.map(|application| SharedApplication::new(application, span.warmup));
        let begin = if flow.side == CONNECTS { of.start } else { Time::MAX };
        let (connection, wake) = (Cell::new(None), Cell::new(begin));
        Self { flow, speaker, reports: Arc::clone(reports), connection, wake }
    }

    fn own(&self) -> &OwnEnd {
        self.flow.end.flow.own[self.flow.side].as_ref().expect("every end of this kind is on an own stack")
    }

    fn fail(&self, sentence: String) {
        self.wake.set(Time::MAX);
        self.flow.end.main().record_fault(sentence);
    }

    fn listen(self: &Rc<Self>, engine: &mut Engine) {
        let protocol = self.own().protocol.clone();
        let port = self.flow.end.flow.remote.port();
        let listening = Listening { protocol, port, backlog: Backlog::default() };
        if let Err(error) = engine.listen(listening, Box::new(Accepting(Rc::clone(self)))) {
            self.fail(format!("cannot listen: {error}"));
        }
    }

    /// Connects, or lets the application write.
    fn act(self: &Rc<Self>, engine: &mut Engine) {
        self.wake.set(Time::MAX);
        if let Some(id) = self.connection.get() {
            return engine.turn(id);
        }
        let OwnEnd { protocol, addresses } = self.own();
        let mut local: Vec<_> = addresses.iter().map(|&(_, address)| address).collect();
        if matches!(protocol, Protocol::Tcp(_)) {
            local.truncate(1);
        }
        let remote = self.flow.end.flow.remote;
        let ends = Ends { local, local_port: 0, remote: vec![remote.ip()], remote_port: remote.port() };
        match engine.connect_from(protocol, ends, Talker::new(Rc::clone(self))) {
            Ok(id) => {
                self.connection.set(Some(id));
                engine.settle();
            }
            Err(error) => self.fail(format!("cannot connect: {error}")),
        }
    }

    /// Publishes the state of the connection, if it has not ended.
    fn report_from(&self, engine: &mut Engine) {
        if let Some(endpoint) = self.connection.get().and_then(|id| engine.host().endpoint(id)) {
            self.report(endpoint);
        }
    }

    fn report(&self, endpoint: &dyn Endpoint) {
        self.reports.lock()[self.flow.index][self.flow.side] = Some(endpoint.report());
    }
}

/// The listener of a flow, which accepts one connection.
struct Accepting(Rc<Talk>);

impl Acceptor for Accepting {
    fn has_room(&self) -> bool {
        self.0.connection.get().is_none()
    }

    fn accept(&mut self, id: ConnectionId, _: &dyn Endpoint) -> Box<dyn Application> {
        self.0.connection.set(Some(id));
        Box::new(Talker::new(Rc::clone(&self.0)))
    }
}

/// The application of a connection.
struct Talker {
    talk: Rc<Talk>,
    source: Source,
    /// Bytes read.
    read: u64,
    bytes: Vec<u8>,
    last_read: Option<Time>,
    /// True once the peer has ended writing and the application knows.
    finished: bool,
    ended_input: bool,
    /// True once this end has ended writing and the connection has ended.
    closed: bool,
    over: bool,
}

impl Talker {
    fn new(talk: Rc<Talk>) -> Self {
        Self {
            talk,
            source: Source::new(),
            read: 0,
            bytes: Vec::new(),
            last_read: None,
            finished: false,
            ended_input: false,
            closed: false,
            over: false,
        }
    }

    /// Reads, and compares received with sent data. Returns whether there was any.
    fn read(&mut self, socket: &mut Socket<'_>) -> bool {
        let OwnFlow { side, end, .. } = &self.talk.flow;
        let (record, now) = (&end.records[1 - side], socket.now);
        if now >= end.span.until {
            return false;
        }
        let mut any = false;
        loop {
            self.bytes.clear();
            if socket.read(MAX_READ_BYTES, &mut self.bytes).is_none_or(|delivery| delivery.len == 0) {
                break;
            }
            let len = self.bytes.len() as u64;
            let expected = Payload::new(self.read, len as u32);
            if let Some(at) = expected.first_difference(&self.bytes) {
                record.record_fault(format!("byte {} differs from the sent one", self.read + at as u64));
            }
            self.read += len;
            self.last_read = Some(now);
            record.read(now, len);
            if let Some(speaker) = &self.talk.speaker {
                speaker.read(now, len);
            }
            any = true;
        }
        if self.finished && !self.ended_input && socket.endpoint.readable() == 0 {
            self.ended_input = true;
            let mut tally = record.tally();
            if tally.finished_writing && tally.delivered == tally.written {
                // The other end may close some time after its last write.
                tally.completed = self.last_read.or(Some(now));
                tally.state = State::Closed;
            }
            drop(tally);
            if let Some(speaker) = &self.talk.speaker {
                speaker.end_input();
            }
            any = true;
        }
        any
    }

    /// Writes the application's data until it has none or there is no room. Returns whether it did anything.
    fn write(&mut self, socket: &mut Socket<'_>) -> bool {
        let OwnFlow { side, end, .. } = &self.talk.flow;
        let (record, now) = (&end.records[*side], socket.now);
        let Some(speaker) = self.talk.speaker.as_ref().filter(|_| !self.closed) else { return false };
        if now >= end.span.until {
            return false;
        }
        let mut any = false;
        loop {
            match speaker.poll(now) {
                Step::Write { len, born } => {
                    let taken = socket.write(self.source.next(len), Write::bytes(0)) as u64;
                    if taken == 0 {
                        // An event will report free space. The application may have ended before that.
                        self.talk
                            .wake
                            .set(Some(speaker.wake()).filter(|&wake| wake > now).unwrap_or(Time::MAX));
                        return any;
                    }
                    self.source.take(taken);
                    speaker.accepted(taken);
                    record.wrote(now, taken, born.max(Time::ZERO));
                }
                Step::Close => {
                    record.tally().finished_writing = true;
                    self.closed = true;
                    self.talk.wake.set(Time::MAX);
                    socket.close();
                    return true;
                }
                Step::Idle => {
                    self.talk.wake.set(speaker.wake());
                    return any;
                }
            }
            any = true;
        }
    }
}

impl Application for Talker {
    fn event(&mut self, event: Event) {
        let end = &self.talk.flow.end;
        match event {
            Event::Connected => end.set_state(State::Open),
            Event::Finished => self.finished = true,
            Event::Closed(reason) => {
                self.over = true;
                self.talk.wake.set(Time::MAX);
                if let Some(state) = state_of(reason) {
                    end.set_state(state);
                }
            }
            _ => {}
        }
    }

    fn turn(&mut self, socket: &mut Socket<'_>) -> bool {
        let any = self.read(socket);
        if self.over {
            self.talk.report(socket.endpoint);
            return any;
        }
        self.write(socket) || any
    }
}

/// State of a flow whose connection has ended; `None` if it was closed in order.
const fn state_of(reason: Reason) -> Option<State> {
    match reason {
        Reason::Closed => None,
        Reason::Reset => Some(State::Reset),
        Reason::Aborted => Some(State::Aborted),
        Reason::TimedOut => Some(State::TimedOut),
        Reason::Unreachable => Some(State::Unreachable),
        Reason::Refused => Some(State::Refused),
    }
}
