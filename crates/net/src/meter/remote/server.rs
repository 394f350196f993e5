//! A meter server.

use super::arrivals::{Arrivals, Beginning, ExpectedFlows, beginning};
use super::association::{ListeningAssociation, UdpStack};
use super::control::{
    Control, MAX_CLIENT_LINE_BYTES, Message, PROTOCOL, REPLY_TIMEOUT, at_port, boot, printable_line,
};
use super::frame::{GREETING_BYTES, greeting};
use super::open::{self, Opened};
use super::plan::{Plan, PlannedFlow, Test};
use super::queue::{Queue, Ticket};
use super::session::{Connection, FlowSocket, Session, SessionParameters};
use crate::clock::Clock;
use crate::meter::flow::Transport;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Interval of checks whether to stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Maximum number of clients at a time: one runs a test, and the others wait or are refused.
const MAX_CLIENTS: usize = 32;

/// Maximum number of connections to the control port at a time, those of flows included.
const MAX_CONNECTIONS: usize = 64;

/// Interval of reports to a waiting client.
const WAIT_REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of events that wait for [`Server::poll`]; further ones are dropped.
const MAX_WAITING_EVENTS: usize = 1024;

/// Time limit for the connections of all flows of a test.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum difference between a test's time zero and the server's clock when the start arrives.
const MAX_START_DIFFERENCE: Duration = Duration::from_secs(5);

/// A meter server in separate threads; it runs until this value is dropped.
pub struct Server {
    address: SocketAddr,
    events: Receiver<ServerEvent>,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// An event of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerEvent {
    /// Sentence about the event, for the user.
    pub text: String,
    /// True if the event ended a test.
    pub ended: bool,
}

impl Server {
    /// Listens at an address.
    ///
    /// # Errors
    ///
    /// If the address does not belong to this machine, or is in use.
    pub fn start(address: SocketAddr) -> io::Result<Self> {
        let listener = open::control_listener(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (tell, events) = sync_channel(MAX_WAITING_EVENTS);
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || listen(&listener, &tell, &told));
        Ok(Self { address, events, stop, thread: Some(thread) })
    }

    /// The listening address.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next event, within a time limit.
    pub fn poll(&self, timeout: Duration) -> Option<ServerEvent> {
        self.events.recv_timeout(timeout).ok()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has reported it.
            let _ = thread.join();
        }
    }
}

fn listen(listener: &TcpListener, tell: &SyncSender<ServerEvent>, stop: &Arc<AtomicBool>) {
    let shared = Client {
        everywhere: listener.local_addr().is_ok_and(|address| address.ip().is_unspecified()),
        queue: Queue::default(),
        arrivals: Arrivals::default(),
        clients: Arc::default(),
        stop: Arc::clone(stop),
    };
    let mut clients: Vec<(std::thread::JoinHandle<()>, TcpStream)> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        clients.retain(|(client, _)| !client.is_finished());
        match listener.accept() {
            Ok((stream, _)) if shared.is_full(clients.len()) => refuse_excess_client(stream),
            Ok((stream, peer)) => {
                // Without a free descriptor, the client is disconnected.
                let Ok(other) = stream.try_clone() else { continue };
                let (client, tell) = (shared.clone(), tell.clone());
                let thread = std::thread::spawn(move || {
                    if let Some(event) = client.serve(stream, peer) {
                        // Ignore errors: the receiver may have been dropped, or its queue may be full.
                        let _ = tell.try_send(event);
                    }
                });
                clients.push((thread, other));
            }
            Err(_) => std::thread::sleep(STOP_CHECK_INTERVAL),
        }
    }
    for (_, stream) in &clients {
        // Ends each wait for a message. Ignore errors: the client may have disconnected.
        let _ = stream.shutdown(Shutdown::Both);
    }
    for (client, _) in clients {
        let _ = client.join();
    }
}

/// Refuses a client because the server has too many, and closes the connection.
fn refuse_excess_client(stream: TcpStream) {
    if let Ok(control) = Control::new(stream, MAX_CLIENT_LINE_BYTES) {
        refuse(&control, "this meter has too many clients; try again later");
    }
}

/// A client of the server.
#[derive(Clone)]
struct Client {
    /// True if the server listens at all addresses of the machine.
    everywhere: bool,
    queue: Queue,
    arrivals: Arrivals,
    /// Number of clients; flows that arrive at the control port are none.
    clients: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

impl Client {
    /// Returns true if a new connection has to be refused, with `connections` of them open. The flows of an
    /// expected test do not count as clients.
    fn is_full(&self, connections: usize) -> bool {
        let has_clients = self.clients.load(Ordering::Relaxed) >= MAX_CLIENTS;
        connections >= MAX_CONNECTIONS || has_clients && !self.arrivals.are_expected()
    }

    /// Serves a connection to the control port; a flow that its test expects reports no event.
    fn serve(&self, stream: TcpStream, peer: SocketAddr) -> Option<ServerEvent> {
        let served = match stream.set_nonblocking(false).and_then(|()| beginning(&stream)) {
            Ok(Beginning::Flow(greeting)) => {
                if self.arrivals.deliver(greeting, stream, peer) {
                    return None;
                }
                Err("a connection that belongs to no test".to_owned())
            }
            Ok(Beginning::Client(received)) => {
                self.clients.fetch_add(1, Ordering::Relaxed);
                let served = Control::with_received(stream, MAX_CLIENT_LINE_BYTES, received)
                    .map_err(|error| error.to_string())
                    .and_then(|control| self.serve_test(control));
                self.clients.fetch_sub(1, Ordering::Relaxed);
                served
            }
            Err(error) => Err(disconnect_reason(&error)),
        };
        Some(match served {
            Ok(text) => ServerEvent { text: format!("{peer}: {text}"), ended: true },
            Err(reason) => ServerEvent { text: format!("{peer}: {reason}"), ended: false },
        })
    }

    fn serve_test(&self, mut control: Control) -> Result<String, String> {
        let one_clock = exchange_hellos(&mut control)?;
        let (cookie, plan) = match control.receive(REPLY_TIMEOUT) {
            Ok(Message::Plan { cookie, plan }) => (cookie, plan),
            Ok(_) => return Err(refuse(&control, "expected a plan after the greeting")),
            Err(error) => return Err(disconnect_reason(&error)),
        };
        let test = plan.test().map_err(|reason| refuse(&control, &reason))?;
        let ticket = self.wait_for_turn(&control, plan.single_port)?;
        let lines = self.accept_flows(&control, &plan, &test, cookie)?;
        control.send(&Message::Connected).map_err(|error| disconnect_reason(&error))?;
        let zero_ns = match control.receive(REPLY_TIMEOUT) {
            Ok(Message::Go { zero_ns }) => zero_ns,
            Ok(_) => return Err(refuse(&control, "expected the start after the connections")),
            Err(error) => return Err(disconnect_reason(&error)),
        };
        let clock = if one_clock { start_clock(&control, zero_ns)? } else { Clock::new() };
        let setting = SessionParameters { side: 1, plan: &plan, test, cookie, one_clock };
        self.run(control, ticket, setting, (lines, clock))
    }

    /// Waits until the tests before this one have ended, if the client waits.
    fn wait_for_turn(&self, control: &Control, waits: bool) -> Result<Ticket, String> {
        let Some(ticket) = self.queue.join(waits) else {
            return Err(refuse(control, "this meter is busy with another test; try again later"));
        };
        let mut reported: Option<Clock> = None;
        loop {
            let ahead = ticket.ahead();
            if ahead == 0 {
                return Ok(ticket);
            }
            if self.stop.load(Ordering::Relaxed) {
                return Err("the server ended".to_owned());
            }
            if control.is_closed() {
                return Err("the other meter closed the connection".to_owned());
            }
            if reported.as_ref().is_none_or(|reported| reported.elapsed() >= WAIT_REPORT_INTERVAL) {
                control.send(&Message::Waiting { ahead }).map_err(|error| disconnect_reason(&error))?;
                reported = Some(Clock::new());
            }
            std::thread::sleep(STOP_CHECK_INTERVAL);
        }
    }

    /// Listens for the flows of a test, and accepts their connections.
    fn accept_flows(
        &self,
        control: &Control,
        plan: &Plan,
        test: &Test,
        cookie: u64,
    ) -> Result<Vec<FlowSocket>, String> {
        let host = control.local().map_err(|error| disconnect_reason(&error))?;
        let named = |flow: &PlannedFlow, reason: String| {
            refuse(control, &format!("flow \"{}\": {reason}", flow.name))
        };
        let mut listening = Vec::with_capacity(test.flows.len());
        for (at, flow) in test.flows.iter().enumerate() {
            let opened = self.listen(plan.single_port, host, (at, flow));
            listening.push(opened.map_err(|reason| named(flow, reason))?);
        }
        let expected = plan.single_port.then(|| self.arrivals.expect(cookie));
        let mut ports: Vec<_> = listening.iter().map(|open| open.port().unwrap_or(host.port())).collect();
        for at in 0..ports.len() {
            if let Some(stream) = &test.flows[at].stream {
                ports[at] = ports[stream.first];
            }
        }
        control.send(&Message::Ready { ports }).map_err(|error| disconnect_reason(&error))?;
        let begun = Clock::new();
        let mut acceptor = FlowAcceptor { control, expected, host, stop: &self.stop, begun };
        let mut listening: Vec<_> = listening.into_iter().map(Some).collect();
        let mut awaits_associations = plan.single_port;
        let mut lines: Vec<Option<FlowSocket>> = test.flows.iter().map(|_| None).collect();
        for at in test.connection_order() {
            let flow = &test.flows[at];
            if flow.stream.is_some() && core::mem::take(&mut awaits_associations) {
                let opened = listen_at_control_port(host, test, &mut listening);
                opened.map_err(|reason| named(flow, reason))?;
                control.send(&Message::Listening).map_err(|error| disconnect_reason(&error))?;
            }
            let first = flow.stream.as_ref().and_then(|stream| lines[stream.first].as_ref());
            let line = match (first.and_then(FlowSocket::of_same_association), listening[at].take()) {
                (Some(line), _) => Ok(line),
                (None, Some(open)) => acceptor.accept_flow(open, flow, &greeting(cookie, at as u32)),
                (None, None) => Err("it was accepted before".to_owned()),
            };
            lines[at] = Some(line.map_err(|reason| named(flow, reason))?);
        }
        Ok(lines.into_iter().flatten().collect())
    }

    /// Listens for a flow, unless it arrives at the control port or is a further stream of an association.
    fn listen(
        &self,
        single_port: bool,
        host: SocketAddr,
        (at, flow): (usize, &PlannedFlow),
    ) -> Result<ListeningFlow, String> {
        if single_port {
            open::check_kernel(&flow.options, flow.transport)?;
            return Ok(ListeningFlow::ControlPort);
        }
        match &flow.stream {
            Some(stream) if stream.first == at => {
                let stack = UdpStack::start(&flow.options, own_address(host, 0))?;
                ListeningAssociation::open(stack, stream).map(ListeningFlow::Association)
            }
            Some(_) => Ok(ListeningFlow::ControlPort),
            None => {
                let address = self.listening_address(host, flow.transport);
                open::listening(&flow.options, flow.transport, address).map(ListeningFlow::OwnPort)
            }
        }
    }

    /// The listening address for a flow of a client that connected to `host`: that address, unless further
    /// subflows may connect to other addresses.
    fn listening_address(&self, host: SocketAddr, transport: Transport) -> SocketAddr {
        let everywhere = self.everywhere && transport == Transport::Mptcp;
        match host.ip().to_canonical() {
            IpAddr::V4(_) if everywhere => SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0),
            IpAddr::V6(_) if everywhere => SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0),
            _ => own_address(host, 0),
        }
    }

    fn run(
        &self,
        mut control: Control,
        ticket: Ticket,
        setting: SessionParameters<'_>,
        (lines, clock): (Vec<FlowSocket>, Clock),
    ) -> Result<String, String> {
        let Test { interval, until, .. } = setting.test;
        let flows = setting.test.flows.len();
        let mut session = Session::new(setting, lines, clock);
        let mut left = None;
        let mut early = false;
        session.run(interval, &mut |_| {
            match control.try_receive() {
                Ok(None) => {}
                Ok(Some(Message::Done { early: told })) => early |= told,
                Ok(Some(_)) => left = Some("the client sent an unexpected message".to_owned()),
                Err(error) => left = Some(disconnect_reason(&error)),
            }
            left.is_none() && !early && !self.stop.load(Ordering::Relaxed)
        });
        if let Some(reason) = left {
            return Err(reason);
        }
        let seconds = session.span.now().min(until).as_secs_f64();
        let result = session.result();
        let fault = result.fault.clone();
        // Release the server first: a client that has its result may request the next test.
        drop(ticket);
        control.send(&Message::Result(Box::new(result))).map_err(|error| disconnect_reason(&error))?;
        // Waits for the client to close: if the server closed first, data still sent by the client would
        // cause a reset and the result could be lost. The client only reports its end.
        for _ in 0..2 {
            if control.receive(REPLY_TIMEOUT).is_err() {
                break;
            }
        }
        match fault {
            Some(fault) => Err(fault),
            None => {
                Ok(format!("a test of {seconds:.1} s with {flows} flow{}", if flows == 1 { "" } else { "s" }))
            }
        }
    }
}

/// The address to which a client connected, with another port.
fn own_address(host: SocketAddr, port: u16) -> SocketAddr {
    match host.ip().to_canonical() {
        own @ IpAddr::V4(_) => SocketAddr::new(own, port),
        // A link-local address is valid only together with its link.
        IpAddr::V6(_) => at_port(host, port),
    }
}

/// Exchanges greetings; returns whether both ends are on one machine.
fn exchange_hellos(control: &mut Control) -> Result<bool, String> {
    match control.receive(REPLY_TIMEOUT) {
        Ok(Message::Hello { protocol: PROTOCOL, boot: theirs, .. }) => {
            // A client on another machine must not learn the boot identifier, since it could then set the clock of a
            // test.
            let shared = Some(boot()).filter(|own| !own.is_empty() && theirs == *own);
            let one_clock = shared.is_some();
            control
                .send(&Message::hello(shared.unwrap_or_default()))
                .map_err(|error| disconnect_reason(&error))?;
            Ok(one_clock)
        }
        Ok(Message::Hello { protocol, version, .. }) => Err(refuse(
            control,
            &format!(
                "this meter has version {} with protocol {PROTOCOL}, the other has version {} with \
                 protocol {protocol}; install the same version on both machines",
                env!("CARGO_PKG_VERSION"),
                printable_line(&version)
            ),
        )),
        Ok(_) => Err(refuse(control, "expected a greeting first")),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err(refuse(control, "received an invalid message"))
        }
        Err(error) => Err(disconnect_reason(&error)),
    }
}

/// Sends the client the reason for a refusal; returns the reason.
fn refuse(control: &Control, reason: &str) -> String {
    // Ignore errors: the client may have disconnected.
    let _ = control.send(&Message::Refused { reason: reason.to_owned() });
    reason.to_owned()
}

/// The reason why the connection to the client ended.
fn disconnect_reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            "the other meter closed the connection".to_owned()
        }
        io::ErrorKind::TimedOut => "the other meter sent nothing in time".to_owned(),
        io::ErrorKind::InvalidData => "received an invalid message".to_owned(),
        _ => format!("the control connection failed: {error}"),
    }
}

/// The clock of a test on one machine, whose time zero the client has sent.
fn start_clock(control: &Control, zero_ns: u64) -> Result<Clock, String> {
    let difference = Duration::from_nanos(Clock::new().zero_ns().abs_diff(zero_ns));
    if difference > MAX_START_DIFFERENCE {
        return Err(refuse(control, "the start is more than 5 s from the server's clock"));
    }
    Ok(Clock::since(zero_ns))
}

/// Listens for all associations of a test at the control port, by one stack.
fn listen_at_control_port(
    host: SocketAddr,
    test: &Test,
    listening: &mut [Option<ListeningFlow>],
) -> Result<(), String> {
    let mut stack = None;
    for (at, flow) in test.flows.iter().enumerate() {
        let Some(plan) = flow.stream.as_ref().filter(|plan| plan.first == at) else { continue };
        let stack = match &stack {
            Some(stack) => Arc::clone(stack),
            None => Arc::clone(stack.insert(UdpStack::start(&flow.options, own_address(host, host.port()))?)),
        };
        listening[at] = Some(ListeningFlow::Association(ListeningAssociation::open(stack, plan)?));
    }
    Ok(())
}

/// The port of a flow before its connection.
enum ListeningFlow {
    /// A socket with a separate port.
    OwnPort(Opened),
    /// A stack with a separate UDP port.
    Association(ListeningAssociation),
    /// The control port.
    ControlPort,
}

impl ListeningFlow {
    /// The separate port, if there is one.
    fn port(&self) -> Option<u16> {
        match self {
            Self::OwnPort(open) => Some(open.local.port()),
            Self::Association(open) => Some(open.port()),
            Self::ControlPort => None,
        }
    }
}

/// Accepts the connections of a test's flows, one after another.
struct FlowAcceptor<'a> {
    control: &'a Control,
    /// The connections that arrive at the control port, if the test has a single port.
    expected: Option<ExpectedFlows>,
    /// The address to which the client connected.
    host: SocketAddr,
    stop: &'a AtomicBool,
    begun: Clock,
}

impl FlowAcceptor<'_> {
    /// Waits for the connection of a flow that begins with its greeting, and refuses others.
    fn accept_flow(
        &mut self,
        listening: ListeningFlow,
        flow: &PlannedFlow,
        greeting: &[u8; GREETING_BYTES],
    ) -> Result<FlowSocket, String> {
        match listening {
            ListeningFlow::OwnPort(listening) => self.accept_at_own_port(listening, flow, greeting),
            ListeningFlow::Association(listening) => self.accept_association(listening, greeting),
            ListeningFlow::ControlPort if flow.transport == Transport::Udp => {
                let address = own_address(self.host, self.host.port());
                let listening = open::listening(&flow.options, flow.transport, address)?;
                self.accept_at_own_port(listening, flow, greeting)
            }
            ListeningFlow::ControlPort => self.accept_at_control_port(flow, greeting),
        }
    }

    fn accept_association(
        &self,
        listening: ListeningAssociation,
        greeting: &[u8; GREETING_BYTES],
    ) -> Result<FlowSocket, String> {
        let own = Clock::new();
        let (open, foreign) = listening.accept(greeting, &|| self.check_patience(own))?;
        let (local, remote) = (open.local(), open.remote().unwrap_or(self.host));
        let connection = Connection::Association(Arc::new(open));
        Ok(FlowSocket { foreign, ..FlowSocket::new(connection, local, remote) })
    }

    /// Checks whether the server may wait longer for a flow. The clock `own` started when the wait began.
    fn check_patience(&self, own: Clock) -> Result<(), String> {
        if self.stop.load(Ordering::Relaxed) {
            return Err("the server ended".to_owned());
        }
        if self.control.is_closed() {
            return Err("the other meter closed the connection".to_owned());
        }
        if own.elapsed() >= REPLY_TIMEOUT || self.begun.elapsed() >= CONNECT_TIMEOUT {
            return Err("the other meter did not connect in time".to_owned());
        }
        Ok(())
    }

    fn accept_at_control_port(
        &mut self,
        flow: &PlannedFlow,
        greeting: &[u8; GREETING_BYTES],
    ) -> Result<FlowSocket, String> {
        let own = Clock::new();
        loop {
            self.check_patience(own)?;
            let arrived =
                self.expected.as_mut().and_then(|expected| expected.wait(greeting, STOP_CHECK_INTERVAL));
            let Some((stream, remote)) = arrived else { continue };
            let socket = stream.into();
            open::adopt(&socket, &flow.options)
                .map_err(|error| format!("cannot accept a connection: {error}"))?;
            let local = open::local(&socket).unwrap_or(self.host);
            return Ok(FlowSocket::new(Connection::Socket(socket), local, remote));
        }
    }

    fn accept_at_own_port(
        &self,
        listening: Opened,
        flow: &PlannedFlow,
        greeting: &[u8; GREETING_BYTES],
    ) -> Result<FlowSocket, String> {
        let own = Clock::new();
        let mut foreign = 0;
        loop {
            self.check_patience(own)?;
            let failed = |error| format!("cannot accept a connection: {error}");
            if !open::is_readable(&listening.socket, STOP_CHECK_INTERVAL).map_err(failed)? {
                continue;
            }
            let met = if flow.transport == Transport::Udp {
                open::answer(&listening, greeting)
            } else {
                open::accept(&listening, greeting, &flow.options)
            };
            let Some((socket, remote)) = met.map_err(failed)? else {
                foreign += 1;
                continue;
            };
            let Opened { socket: own, local } = listening;
            let (socket, listening) = match socket {
                Some(accepted) => (accepted, Some(own)),
                None => (own, None),
            };
            let local = open::local(&socket).unwrap_or(local);
            let line = FlowSocket::new(Connection::Socket(socket), local, remote);
            return Ok(FlowSocket { listening, foreign, ..line });
        }
    }
}
