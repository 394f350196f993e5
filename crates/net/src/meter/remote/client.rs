//! The client of a meter server.

use super::association::{OpenAssociation, UdpStack};
use super::control::{
    Control, MAX_SERVER_LINE_BYTES, Message, PROTOCOL, REPLY_TIMEOUT, at_port, boot, printable_line,
};
use super::frame::{GREETING_BYTES, greeting};
use super::open;
use super::plan::{Plan, PlannedFlow, Test};
use super::result::{Document, EndFlow, EndResult, FORMAT, FlowDocument, Read, Way};
use super::session::{Connection, FlowSocket, Interval, Session, SessionParameters};
use super::source::{Source, version};
use super::streams::StreamPlan;
use crate::clock::Clock;
use anabranch_base::time::Time;
use core::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

/// Interval of reports while the client waits for the tests of others.
const WAIT_INTERVAL: Duration = Duration::from_millis(100);

/// Time limit for the server's result.
const RESULT_TIMEOUT: Duration = Duration::from_secs(20);

/// The reason why a test did not take place or has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The plan is invalid, for the reason that this sentence states.
    Plan(String),
    /// A sentence about an error of the other meter or of the network.
    Peer(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Plan(sentence) | Self::Peer(sentence)) = self;
        f.write_str(sentence)
    }
}

impl core::error::Error for Failure {}

/// An event of a test, for its client.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Event {
    /// The client waits for this number of other tests.
    Waiting(usize),
    /// All flows are connected, and the test begins: local and remote address of each flow.
    Start(Vec<[String; 2]>),
    /// An interval has ended.
    Interval(Interval),
}

/// Runs a plan with the meter server at `host` and `port`. `look` is called with every event, and frequently in
/// between with `None`; it returns whether to continue. Connections use the addresses and ports of `source`.
///
/// # Errors
///
/// The reason why the test did not take place or has no result.
pub fn run(
    (host, port): (&str, u16),
    source: &Source,
    plan: Plan,
    look: &mut dyn FnMut(Option<Event>) -> bool,
) -> Result<Document, Failure> {
    let test = plan.test().map_err(Failure::Plan)?;
    source.check(host, test.flows.len()).map_err(Failure::Plan)?;
    let (mut control, server) = connect_to_server(host, port, source)?;
    let one_clock = exchange_hellos(&mut control, &server)?;
    let cookie = cookie()?;
    let sent = |message: Result<(), io::Error>| message.map_err(|error| disconnect_failure(&server, &error));
    let plan = Box::new(plan);
    sent(control.send(&Message::Plan { cookie, plan: plan.clone() }))?;
    let ports = match wait_for_turn(&mut control, &server, look)? {
        Message::Ready { ports } if ports.len() == test.flows.len() => ports,
        _ => return Err(unexpected_message(&server)),
    };
    let lines = connect_flows(&test, source, (&mut control, &server), (&ports, cookie))?;
    match receive(&mut control, &server, REPLY_TIMEOUT + REPLY_TIMEOUT)? {
        Message::Connected => {}
        _ => return Err(unexpected_message(&server)),
    }
    let ends = lines.iter().map(|line| [line.local, line.remote].map(|address| address.to_string()));
    let mut stopped = !look(Some(Event::Start(ends.collect())));
    let clock = Clock::new();
    sent(control.send(&Message::Go { zero_ns: clock.zero_ns() }))?;
    let setting = SessionParameters { side: 0, plan: &plan, test: test.clone(), cookie, one_clock };
    let mut session = Session::new(setting, lines, clock);
    let mut left = None;
    session.run(test.interval, &mut |interval| {
        // Once the server's flows have ended, no further reports arrive.
        if left.is_none() {
            left = control.try_receive().map_err(|error| disconnect_failure(&server, &error)).transpose();
        }
        let wanted = look(interval.map(Event::Interval)) && !stopped;
        stopped |= !wanted;
        // Data of the server may still be in flight, unless there was an error.
        wanted
            && match &left {
                Some(Ok(Message::Result(other))) => other.fault.is_none(),
                Some(_) => false,
                None => true,
            }
    });
    let until = session.span.now().min(test.until);
    let failed = session.has_failed();
    if let Some(Err(failure)) = left {
        return Err(failure);
    }
    let own = session.result();
    let other = if let Some(Ok(message)) = left {
        message
    } else {
        // Ignore errors: without the server, its result will be missing.
        let _ = control.send(&Message::Done { early: stopped || failed });
        let rest = Duration::from_secs_f64(test.until.since(until).as_secs_f64());
        receive(&mut control, &server, rest + RESULT_TIMEOUT)?
    };
    let Message::Result(other) = other else { return Err(unexpected_message(&server)) };
    let fault = own
        .fault
        .clone()
        .or_else(|| other.fault.as_deref().map(|fault| format!("at {server}: {}", printable_line(fault))));
    if let Some(fault) = fault {
        return Err(Failure::Peer(fault));
    }
    let ended = Ended { server, one_clock, until, interrupted: stopped };
    Ok(combine_results(&test, &plan, own, *other, ended))
}

/// The server's answer to a plan, after the tests of others. Reports the number of these.
fn wait_for_turn(
    control: &mut Control,
    server: &str,
    look: &mut dyn FnMut(Option<Event>) -> bool,
) -> Result<Message, Failure> {
    let mut silent = Clock::new();
    loop {
        match control.receive(WAIT_INTERVAL) {
            Ok(Message::Waiting { ahead }) => {
                silent = Clock::new();
                if !look(Some(Event::Waiting(ahead))) {
                    return Err(Failure::Peer("the test was interrupted before it began".to_owned()));
                }
            }
            Ok(Message::Refused { reason }) => return Err(refusal(server, &reason)),
            Ok(message) => return Ok(message),
            Err(error) if is_timeout(&error) && silent.elapsed() < REPLY_TIMEOUT => {
                if !look(None) {
                    return Err(Failure::Peer("the test was interrupted before it began".to_owned()));
                }
            }
            Err(error) => return Err(disconnect_failure(server, &error)),
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

/// Connects all flows, one after another.
fn connect_flows(
    test: &Test,
    source: &Source,
    (control, server): (&mut Control, &str),
    (ports, cookie): (&[u16], u64),
) -> Result<Vec<FlowSocket>, Failure> {
    let lost = |error: io::Error| disconnect_failure(server, &error);
    let (address, own) = (control.peer().map_err(lost)?, control.local().map_err(lost)?);
    let mut waits_for_associations = test.single_port;
    let mut lines: Vec<Option<FlowSocket>> = test.flows.iter().map(|_| None).collect();
    for at in test.connection_order() {
        let flow = &test.flows[at];
        let remote = at_port(address, ports[at]);
        let greeting = greeting(cookie, at as u32);
        let named = |reason: String| Failure::Peer(format!("flow \"{}\": {reason}", flow.name));
        let local = source.of_flow(at, remote);
        let is_first_association = flow.stream.is_some() && core::mem::take(&mut waits_for_associations);
        if is_first_association && !matches!(receive(control, server, REPLY_TIMEOUT)?, Message::Listening) {
            return Err(unexpected_message(server));
        }
        let line = match &flow.stream {
            None => open::connect(&flow.options, flow.transport, (local, remote), &greeting).map(|socket| {
                let local = open::local(&socket).unwrap_or(remote);
                FlowSocket::new(Connection::Socket(socket), local, remote)
            }),
            Some(plan) => match lines[plan.first].as_ref().and_then(FlowSocket::of_same_association) {
                Some(line) => Ok(line),
                None => associate(flow, plan, (own, local, remote), &greeting),
            },
        };
        lines[at] = Some(line.map_err(named)?);
    }
    Ok(lines.into_iter().flatten().collect())
}

/// Opens the association of a flow, from the address of the control connection, `own`, or from `local`.
fn associate(
    flow: &PlannedFlow,
    plan: &StreamPlan,
    (own, local, remote): (SocketAddr, Option<SocketAddr>, SocketAddr),
    greeting: &[u8; GREETING_BYTES],
) -> Result<FlowSocket, String> {
    let address = at_port(own, local.map_or(0, |local| local.port()));
    let stack = UdpStack::start(&flow.options, address)?;
    let open = OpenAssociation::connect(stack, plan, remote, greeting)?;
    let local = open.local();
    Ok(FlowSocket::new(Connection::Association(Arc::new(open)), local, remote))
}

/// Connects to a server.
fn connect_to_server(host: &str, port: u16, source: &Source) -> Result<(Control, String), Failure> {
    let server = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let addresses = (host, port)
        .to_socket_addrs()
        .map_err(|error| Failure::Peer(format!("cannot resolve {host}: {error}")))?;
    let mut reason = io::Error::from(io::ErrorKind::AddrNotAvailable);
    let addresses: Vec<_> = addresses.filter(|&address| source.suits(address)).collect();
    if addresses.is_empty() {
        let wanted = source.ipv6.map_or("the version of the source address", version);
        return Err(Failure::Peer(format!("{host} has no address of {wanted}")));
    }
    for address in addresses {
        match open::control(address, source.of_control(address)) {
            Ok(stream) => {
                let control = Control::new(stream, MAX_SERVER_LINE_BYTES)
                    .map_err(|error| disconnect_failure(&server, &error))?;
                return Ok((control, server));
            }
            Err(error) => reason = error,
        }
    }
    Err(Failure::Peer(match reason.kind() {
        io::ErrorKind::ConnectionRefused => {
            format!("there is no meter server at {server}; start one: anabranch meter serve --bind ADDRESS")
        }
        _ => format!("cannot reach {server}: {reason}"),
    }))
}

/// Exchanges greetings; returns whether both ends are on one machine.
fn exchange_hellos(control: &mut Control, server: &str) -> Result<bool, Failure> {
    let own = boot();
    control.send(&Message::hello(own.clone())).map_err(|error| disconnect_failure(server, &error))?;
    match receive(control, server, REPLY_TIMEOUT)? {
        Message::Hello { protocol: PROTOCOL, boot: theirs, .. } => Ok(!theirs.is_empty() && theirs == own),
        Message::Hello { protocol, version, .. } => Err(Failure::Peer(format!(
            "the meter at {server} has version {} with protocol {protocol}, this one has protocol {PROTOCOL}; \
             install the same version on both machines",
            printable_line(&version)
        ))),
        _ => Err(unexpected_message(server)),
    }
}

/// The server's next message, unless it refuses.
fn receive(control: &mut Control, server: &str, patience: Duration) -> Result<Message, Failure> {
    match control.receive(patience) {
        Ok(Message::Refused { reason }) => Err(refusal(server, &reason)),
        Ok(message) => Ok(message),
        Err(error) => Err(disconnect_failure(server, &error)),
    }
}

fn refusal(server: &str, reason: &str) -> Failure {
    Failure::Peer(format!("the meter at {server} refused the test: {}", printable_line(reason)))
}

fn unexpected_message(server: &str) -> Failure {
    Failure::Peer(format!(
        "the meter at {server} sent an unexpected message; install the same version on both machines"
    ))
}

/// The reason why the connection to the server ended.
fn disconnect_failure(server: &str, error: &io::Error) -> Failure {
    Failure::Peer(match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            format!("the meter at {server} closed the connection")
        }
        io::ErrorKind::TimedOut => {
            format!("the meter at {server} does not answer; check that it is a meter server")
        }
        io::ErrorKind::InvalidData => {
            format!(
                "{server} does not answer like a meter; check that anabranch meter serve is running there"
            )
        }
        _ => format!("the connection to {server} failed: {error}"),
    })
}

fn cookie() -> Result<u64, Failure> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::Peer(format!("the system has no random numbers: {error}")))?;
    Ok(u64::from_le_bytes(bytes))
}

/// Times and state at the end of a test.
struct Ended {
    server: String,
    one_clock: bool,
    until: Time,
    interrupted: bool,
}

/// The results of both ends, combined.
fn combine_results(test: &Test, plan: &Plan, own: EndResult, other: EndResult, ended: Ended) -> Document {
    let kernels = [own.kernel, other.kernel];
    let processor_s = [own.processor_s, other.processor_s];
    let flows = test.flows.iter().zip(own.flows).zip(other.flows).map(|((flow, client), server)| {
        let congestion = [client.congestion.clone(), server.congestion.clone()];
        let datagrams = flow.is_lossy();
        let ways = [
            way("client-to-server", [&client, &server], datagrams, (test, &ended)),
            way("server-to-client", [&server, &client], datagrams, (test, &ended)),
        ];
        let [own, back] = [client, server].map(|end| (end.written.is_some(), end));
        let source = if own.0 { &own.1 } else { &back.1 };
        FlowDocument {
            id: flow.id,
            name: flow.name.clone(),
            protocol: flow.transport.name().to_owned(),
            congestion,
            ways: ways.into_iter().flatten().collect(),
            answers: own.1.answers.or(back.1.answers),
            response_time_s: own.1.response_time_s.or(back.1.response_time_s),
            subflows: source.subflows.clone(),
            aborted: [own.1.aborted.clone(), back.1.aborted.clone()],
        }
    });
    Document {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        flows: flows.collect(),
        server_address: ended.server,
        one_clock: ended.one_clock,
        duration_s: ended.until.as_secs_f64(),
        warmup_s: test.warmup.as_secs_f64(),
        interval_s: plan.interval_s,
        interrupted: ended.interrupted,
        kernels,
        processor_s,
    }
}

/// The data from one end to the other, if there is any.
fn way(
    direction: &str,
    [from, to]: [&EndFlow; 2],
    datagrams: bool,
    (test, ended): (&Test, &Ended),
) -> Option<Way> {
    let (written, read) = (from.written.clone()?, to.read.clone()?);
    // A workload that was completed is measured up to its end.
    let until = read.completed_s.unwrap_or(ended.until.as_secs_f64());
    let measured_s = (until - test.warmup.as_secs_f64()).max(0.0);
    let Read { measured_bytes, measured_messages, measured_due, due, .. } = read;
    Some(Way {
        direction: direction.to_owned(),
        goodput_bps: if measured_s > 0.0 { measured_bytes as f64 * 8.0 / measured_s } else { 0.0 },
        measured_s,
        lost_messages: datagrams.then(|| measured_due.saturating_sub(measured_messages)),
        open_messages: datagrams.then(|| written.messages.saturating_sub(due)),
        written,
        read,
    })
}
