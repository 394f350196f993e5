//! A meter that asks another for a test.

use super::control::{Control, LONGEST_OF_SERVER, Message, PATIENCE, PROTOCOL, at_port, boot};
use super::frame::greeting;
use super::open;
use super::plan::{Plan, Test};
use super::result::{Document, EndFlow, EndResult, FORMAT, FlowDocument, Read, Way};
use super::session::{Interval, Line, Session, Setting};
use crate::clock::Clock;
use crate::meter::flow::Transport;
use core::fmt;
use core::net::IpAddr;
use multipath::time::Time;
use std::io;
use std::net::ToSocketAddrs;
use std::time::Duration;

/// How long a server may take to send what it saw.
const RESULT: Duration = Duration::from_secs(20);

/// Why there was no test, or no result of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The plan asks for what cannot be done: a sentence.
    Plan(String),
    /// The other meter or the network: a sentence.
    Peer(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Plan(sentence) | Self::Peer(sentence)) = self;
        f.write_str(sentence)
    }
}

impl core::error::Error for Failure {}

/// Carries out a plan with the meter that waits at `host` and `port`. `look` is called at the end of every interval, and
/// often besides with `None`; it says whether to go on. All connections leave from `local`, if that is given.
///
/// # Errors
/// Why there was no test, or no result of it.
pub fn run(
    (host, port): (&str, u16),
    local: Option<IpAddr>,
    plan: Plan,
    look: &mut dyn FnMut(Option<Interval>) -> bool,
) -> Result<Document, Failure> {
    let test = plan.test().map_err(Failure::Plan)?;
    let (mut control, server) = reach(host, port, local)?;
    let one_clock = acquaint(&mut control, &server)?;
    let cookie = cookie()?;
    let said = |message: Result<(), io::Error>| message.map_err(|error| gone(&server, &error));
    let plan = Box::new(plan);
    said(control.say(&Message::Plan { cookie, plan: plan.clone() }))?;
    let ports = match hear(&mut control, &server, PATIENCE)? {
        Message::Ready { ports } if ports.len() == test.flows.len() => ports,
        _ => return Err(confused(&server)),
    };
    let address = control.peer().map_err(|error| gone(&server, &error))?;
    let mut lines = Vec::with_capacity(ports.len());
    for (at, (flow, port)) in test.flows.iter().zip(ports).enumerate() {
        let remote = at_port(address, port);
        let socket = open::connect(&plan, flow.transport, (local, remote), &greeting(cookie, at as u32))
            .map_err(|reason| Failure::Peer(format!("flow \"{}\": {reason}", flow.name)))?;
        let local = open::local(&socket).unwrap_or(remote);
        lines.push(Line { socket, listening: None, local, remote, foreign: 0 });
    }
    match hear(&mut control, &server, PATIENCE + PATIENCE)? {
        Message::Connected => {}
        _ => return Err(confused(&server)),
    }
    let clock = Clock::new();
    said(control.say(&Message::Go { zero_ns: clock.zero_ns() }))?;
    let setting = Setting { side: 0, plan: &plan, test: test.clone(), cookie, one_clock };
    let mut session = Session::new(setting, lines, clock);
    let (mut left, mut stopped) = (None, false);
    session.run(test.interval, &mut |interval| {
        // Once the server has come to the end of its flows there is nothing more to hear.
        if left.is_none() {
            left = control.overhear().map_err(|error| gone(&server, &error)).transpose();
        }
        let wanted = look(interval);
        stopped |= !wanted;
        // What the server has written may still be on the way, unless something went wrong.
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
        // A server that has gone meanwhile shows in what it does not say.
        let _ = control.say(&Message::Done { early: stopped || failed });
        let rest = Duration::from_secs_f64(test.until.since(until).as_secs_f64());
        hear(&mut control, &server, rest + RESULT)?
    };
    let Message::Result(other) = other else { return Err(confused(&server)) };
    let fault =
        own.fault.clone().or_else(|| other.fault.clone().map(|fault| format!("at {server}: {fault}")));
    if let Some(fault) = fault {
        return Err(Failure::Peer(fault));
    }
    let ended = Ended { server, one_clock, until, interrupted: stopped };
    Ok(document(&test, &plan, own, *other, ended))
}

/// Connects to a server.
fn reach(host: &str, port: u16, local: Option<IpAddr>) -> Result<(Control, String), Failure> {
    let server = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let addresses = (host, port)
        .to_socket_addrs()
        .map_err(|error| Failure::Peer(format!("{host} is no host that is known here: {error}")))?;
    let mut reason = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match open::control(address, local) {
            Ok(stream) => {
                let control =
                    Control::new(stream, LONGEST_OF_SERVER).map_err(|error| gone(&server, &error))?;
                return Ok((control, server));
            }
            Err(error) => reason = error,
        }
    }
    Err(Failure::Peer(match reason.kind() {
        io::ErrorKind::ConnectionRefused => {
            format!("no meter waits at {server}; start one there: anabranch meter serve --bind ADDRESS")
        }
        _ => format!("{server} cannot be reached: {reason}"),
    }))
}

/// Says hello; whether both ends are on one machine.
fn acquaint(control: &mut Control, server: &str) -> Result<bool, Failure> {
    control.say(&Message::hello()).map_err(|error| gone(server, &error))?;
    match hear(control, server, PATIENCE)? {
        Message::Hello { protocol: PROTOCOL, boot: theirs, .. } => Ok(!theirs.is_empty() && theirs == boot()),
        Message::Hello { protocol, version, .. } => Err(Failure::Peer(format!(
            "the meter at {server} is of version {version} and speaks version {protocol} of the protocol, this one version \
             {PROTOCOL}; install the same on both machines"
        ))),
        _ => Err(confused(server)),
    }
}

/// What the server says next, unless it refuses.
fn hear(control: &mut Control, server: &str, patience: Duration) -> Result<Message, Failure> {
    match control.hear(patience) {
        Ok(Message::Refused { reason }) => {
            Err(Failure::Peer(format!("the meter at {server} refuses: {reason}")))
        }
        Ok(message) => Ok(message),
        Err(error) => Err(gone(server, &error)),
    }
}

fn confused(server: &str) -> Failure {
    Failure::Peer(format!(
        "the meter at {server} said something out of turn; install the same version on both machines"
    ))
}

/// Why there is no server any more.
fn gone(server: &str, error: &io::Error) -> Failure {
    Failure::Peer(match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            format!("the meter at {server} has gone")
        }
        io::ErrorKind::TimedOut => format!("the meter at {server} says nothing; is it one?"),
        io::ErrorKind::InvalidData => {
            format!("{server} does not answer as a meter does; is anabranch meter serve running there?")
        }
        _ => format!("the connection to {server} broke: {error}"),
    })
}

fn cookie() -> Result<u64, Failure> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::Peer(format!("the system has no random numbers: {error}")))?;
    Ok(u64::from_le_bytes(bytes))
}

/// How a test ended.
struct Ended {
    server: String,
    one_clock: bool,
    until: Time,
    interrupted: bool,
}

/// What both ends saw, put together.
fn document(test: &Test, plan: &Plan, own: EndResult, other: EndResult, ended: Ended) -> Document {
    let kernels = [own.kernel, other.kernel];
    let flows = test.flows.iter().zip(own.flows).zip(other.flows).map(|((flow, client), server)| {
        let congestion = [client.congestion.clone(), server.congestion.clone()];
        let datagrams = flow.transport == Transport::Udp;
        let ways = [
            way("client-to-server", [&client, &server], datagrams, (test, &ended)),
            way("server-to-client", [&server, &client], datagrams, (test, &ended)),
        ];
        let [own, back] = [client, server].map(|end| (end.written.is_some(), end));
        let source = if own.0 { &own.1 } else { &back.1 };
        FlowDocument {
            name: flow.name.clone(),
            protocol: flow.transport.name().to_owned(),
            congestion,
            ways: ways.into_iter().flatten().collect(),
            answers: own.1.answers.or(back.1.answers),
            response_time_s: own.1.response_time_s.or(back.1.response_time_s),
            subflows: source.subflows.clone(),
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
    }
}

/// What went from one end to the other, if anything was to.
fn way(
    direction: &str,
    [from, to]: [&EndFlow; 2],
    datagrams: bool,
    (test, ended): (&Test, &Ended),
) -> Option<Way> {
    let (written, read) = (from.written.clone()?, to.read.clone()?);
    // What ended by itself is measured up to its end.
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
