//! A meter that waits for others.

use super::control::{Control, LONGEST_OF_CLIENT, Message, PATIENCE, PROTOCOL, at_port, boot};
use super::frame::{GREETING, greeting};
use super::open::{self, Opened};
use super::plan::{Plan, Test};
use super::session::{Line, Session, Setting};
use crate::clock::Clock;
use crate::meter::flow::Transport;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// How often it is looked whether to stop.
const LOOK: Duration = Duration::from_millis(50);

/// The most clients at a time: one has a test, and the others are told so.
const MOST_CLIENTS: usize = 32;

/// A meter that waits for others, in threads of its own, as long as this value is there.
pub struct Server {
    address: SocketAddr,
    news: Receiver<News>,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// What happened at a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// A sentence.
    pub text: String,
    /// A test came to its end with it.
    pub ended: bool,
}

impl Server {
    /// Waits at an address.
    ///
    /// # Errors
    /// If the address is not this machine's, or taken.
    pub fn start(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (tell, news) = channel();
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || listen(&listener, &tell, &told));
        Ok(Self { address, news, stop, thread: Some(thread) })
    }

    /// Where it waits.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What happened next, if it happens within a time.
    pub fn poll(&self, patience: Duration) -> Option<News> {
        self.news.recv_timeout(patience).ok()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Whoever panicked there has said so.
            let _ = thread.join();
        }
    }
}

fn listen(listener: &TcpListener, tell: &Sender<News>, stop: &Arc<AtomicBool>) {
    let busy = Arc::new(AtomicBool::new(false));
    let everywhere = listener.local_addr().is_ok_and(|address| address.ip().is_unspecified());
    let mut clients: Vec<std::thread::JoinHandle<()>> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        clients.retain(|client| !client.is_finished());
        match listener.accept() {
            Ok((stream, _)) if clients.len() >= MOST_CLIENTS => turn_away(stream),
            Ok((stream, peer)) => {
                let client = Client { everywhere, busy: Arc::clone(&busy), stop: Arc::clone(stop) };
                let tell = tell.clone();
                clients.push(std::thread::spawn(move || {
                    let news = client.serve(stream, peer);
                    // Nobody may be there to be told any more.
                    let _ = tell.send(news);
                }));
            }
            Err(_) => std::thread::sleep(LOOK),
        }
    }
    for client in clients {
        let _ = client.join();
    }
}

/// Tells a client that there are too many, and closes.
fn turn_away(stream: TcpStream) {
    if let Ok(control) = Control::new(stream, LONGEST_OF_CLIENT) {
        refuse(&control, "this meter has too many clients; try again later");
    }
}

/// Who asks for a test, as the server sees it.
struct Client {
    /// The server waits at all addresses of the machine.
    everywhere: bool,
    busy: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
}

/// Has the server to itself.
struct Turn(Arc<AtomicBool>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Client {
    fn serve(&self, stream: TcpStream, peer: SocketAddr) -> News {
        let served = stream
            .set_nonblocking(false)
            .and_then(|()| Control::new(stream, LONGEST_OF_CLIENT))
            .map_err(|error| error.to_string())
            .and_then(|control| self.talk(control));
        match served {
            Ok(text) => News { text: format!("{peer}: {text}"), ended: true },
            Err(reason) => News { text: format!("{peer}: {reason}"), ended: false },
        }
    }

    fn talk(&self, mut control: Control) -> Result<String, String> {
        let one_clock = acquaint(&mut control)?;
        let (cookie, plan) = match control.hear(PATIENCE) {
            Ok(Message::Plan { cookie, plan }) => (cookie, plan),
            Ok(_) => return Err(refuse(&control, "a plan comes after the greeting")),
            Err(error) => return Err(gone(&error)),
        };
        if self.busy.swap(true, Ordering::Acquire) {
            return Err(refuse(&control, "this meter is busy with another test; try again later"));
        }
        let turn = Turn(Arc::clone(&self.busy));
        let test = plan.test().map_err(|reason| refuse(&control, &reason))?;
        let host = control.local().map_err(|error| gone(&error))?;
        let listening: Result<Vec<_>, _> = test
            .flows
            .iter()
            .map(|flow| open::listening(&plan, flow.transport, self.place(host, flow.transport)))
            .collect();
        let listening = listening.map_err(|reason| refuse(&control, &reason))?;
        let ports = listening.iter().map(|open| open.local.port()).collect();
        control.say(&Message::Ready { ports }).map_err(|error| gone(&error))?;
        let mut lines = Vec::with_capacity(listening.len());
        for (at, (open, flow)) in listening.into_iter().zip(&test.flows).enumerate() {
            let line = meet(open, flow.transport, &greeting(cookie, at as u32), &plan);
            lines
                .push(line.map_err(|reason| refuse(&control, &format!("flow \"{}\": {reason}", flow.name)))?);
        }
        control.say(&Message::Connected).map_err(|error| gone(&error))?;
        let zero_ns = match control.hear(PATIENCE) {
            Ok(Message::Go { zero_ns }) => zero_ns,
            Ok(_) => return Err(refuse(&control, "only the start comes after the connections")),
            Err(error) => return Err(gone(&error)),
        };
        let clock = if one_clock { Clock::since(zero_ns) } else { Clock::new() };
        let setting = Setting { side: 1, plan: &plan, test, cookie, one_clock };
        self.run(control, turn, setting, (lines, clock))
    }

    /// Where a flow of a client that came to `host` is waited for: there, unless further subflows may come to other addresses.
    fn place(&self, host: SocketAddr, transport: Transport) -> SocketAddr {
        let everywhere = self.everywhere && transport == Transport::Mptcp;
        match host.ip().to_canonical() {
            IpAddr::V4(_) if everywhere => SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0),
            IpAddr::V6(_) if everywhere => SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0),
            own @ IpAddr::V4(_) => SocketAddr::new(own, 0),
            // An address that is a link's own is one together with the link.
            IpAddr::V6(_) => at_port(host, 0),
        }
    }

    fn run(
        &self,
        mut control: Control,
        turn: Turn,
        setting: Setting<'_>,
        (lines, clock): (Vec<Line>, Clock),
    ) -> Result<String, String> {
        let Test { interval, until, .. } = setting.test;
        let flows = setting.test.flows.len();
        let mut session = Session::new(setting, lines, clock);
        let mut left = None;
        let mut early = false;
        session.run(interval, &mut |_| {
            match control.overhear() {
                Ok(None) => {}
                Ok(Some(Message::Done { early: told })) => early |= told,
                Ok(Some(_)) => left = Some("it said what nobody asked for".to_owned()),
                Err(error) => left = Some(gone(&error)),
            }
            left.is_none() && !early && !self.stop.load(Ordering::Relaxed)
        });
        if let Some(reason) = left {
            return Err(reason);
        }
        let seconds = session.span.now().min(until).as_secs_f64();
        let result = session.result();
        let fault = result.fault.clone();
        // Whoever has the result may ask for the next test.
        drop(turn);
        control.say(&Message::Result(Box::new(result))).map_err(|error| gone(&error))?;
        // The client closes: what it still says would otherwise find nobody, and the result be lost on its way. It says no
        // more than that it has ended.
        for _ in 0..2 {
            if control.hear(PATIENCE).is_err() {
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

/// Says hello; whether both ends are on one machine.
fn acquaint(control: &mut Control) -> Result<bool, String> {
    match control.hear(PATIENCE) {
        Ok(Message::Hello { protocol: PROTOCOL, boot: theirs, .. }) => {
            control.say(&Message::hello()).map_err(|error| gone(&error))?;
            Ok(!theirs.is_empty() && theirs == boot())
        }
        Ok(Message::Hello { protocol, version, .. }) => Err(refuse(
            control,
            &format!(
                "this meter is of version {} and speaks version {PROTOCOL} of the protocol, the other ({version}) version \
                 {protocol}; install the same on both machines",
                env!("CARGO_PKG_VERSION")
            ),
        )),
        Ok(_) => Err(refuse(control, "a test begins with a greeting")),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err(refuse(control, "what came is nothing that a meter says"))
        }
        Err(error) => Err(gone(&error)),
    }
}

/// Tells the client why not, if it is still there; the reason.
fn refuse(control: &Control, reason: &str) -> String {
    // A client that has gone need not know.
    let _ = control.say(&Message::Refused { reason: reason.to_owned() });
    reason.to_owned()
}

/// Why there is no client any more.
fn gone(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            "the other meter has gone".to_owned()
        }
        io::ErrorKind::TimedOut => "the other meter said nothing in time".to_owned(),
        io::ErrorKind::InvalidData => "what came is nothing that a meter says".to_owned(),
        _ => format!("the control connection broke: {error}"),
    }
}

/// Waits for the connection of a flow that begins with its greeting, and turns others away.
fn meet(
    listening: Opened,
    transport: Transport,
    greeting: &[u8; GREETING],
    plan: &Plan,
) -> Result<Line, String> {
    let deadline = Clock::new();
    let mut foreign = 0;
    loop {
        let left = PATIENCE.saturating_sub(Duration::from_nanos(deadline.now().as_nanos()));
        if left.is_zero() {
            return Err("the other meter did not connect in time".to_owned());
        }
        let met = if transport == Transport::Udp {
            open::answer(&listening, greeting, left)
        } else {
            open::accept(&listening, greeting, left, plan)
        };
        match met.map_err(|error| format!("nothing can be accepted: {error}"))? {
            Some((socket, remote)) => {
                let Opened { socket: own, local } = listening;
                let (socket, listening) = match socket {
                    Some(accepted) => (accepted, Some(own)),
                    None => (own, None),
                };
                let local = open::local(&socket).unwrap_or(local);
                return Ok(Line { socket, listening, local, remote, foreign });
            }
            None => foreign += 1,
        }
    }
}
