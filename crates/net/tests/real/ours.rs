//! The side of a transfer that runs this project's stack.

use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::{Address, Event, Reason, Report, Socket};
use anabranch_host::{Backlog, Limits, Listening, Protocol};
use anabranch_net::{Clock, Device, Engine, Network, Tun};
use anabranch_testkit::application::{Application, Load};
use anabranch_testkit::contents::Contents;
use core::net::IpAddr;
use std::cell::RefCell;
use std::rc::Rc;

/// Bytes in each direction.
pub const BYTES: u64 = 10_000_000;
/// Maximum duration of a transfer.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(60);

/// The application that writes and reads. Its results are available to the test when the connection has
/// ended.
struct User {
    application: Application,
    closed: Option<Reason>,
    done: Rc<RefCell<Option<Done>>>,
    meanwhile: Meanwhile,
}

/// An additional action of the application, called at each of its steps. While it returns true, the connection
/// stays open.
///
/// Losses determine the duration of the action, and the machine's speed that of the concurrent transfer.
pub type Meanwhile = fn(&mut Socket<'_>) -> bool;

impl anabranch_net::Application for User {
    fn event(&mut self, event: Event) {
        match event {
            Event::Finished => self.application.finished = true,
            Event::Closed(reason) => self.closed = Some(reason),
            _ => {}
        }
    }

    fn turn(&mut self, socket: &mut Socket<'_>) -> bool {
        self.application.goes_on = (self.meanwhile)(socket);
        let busy = self.application.turn(socket);
        if let Some(closed) = self.closed {
            let (written, read) = (self.application.written.clone(), self.application.read.clone());
            let (report, seconds) = (socket.endpoint.report(), socket.now.as_secs_f64());
            *self.done.borrow_mut() = Some(Done { closed, written, read, report, seconds });
        }
        busy
    }
}

/// Address of a host: on path `i` the kernel has `10.0.i.1` (`fd00:i::1`), this stack `10.0.i.2` (`fd00:i::2`).
pub fn address(ipv6: bool, path: u8, host: u8) -> IpAddr {
    if ipv6 { [0xfd00, path.into(), 0, 0, 0, 0, 0, host.into()].into() } else { [10, 0, path, host].into() }
}

/// A network of `paths` TUN interfaces, in the namespace of the calling thread.
pub fn network(ipv6: bool, paths: u8) -> Network {
    network_of(ipv6, paths, |_, tun| tun)
}

/// As [`network`], with the device that `device` makes of the interface of each path.
pub fn network_of<D: Device + 'static>(ipv6: bool, paths: u8, device: impl Fn(u8, Tun) -> D) -> Network {
    let mut network = Network::new(Clock::new());
    for path in 0..paths {
        let prefix = if ipv6 { 64 } else { 24 };
        let tun = Tun::new(&format!("tun{path}"), (address(ipv6, path, 1), prefix), 1500);
        let ours = Address::new(address(ipv6, path, 2), 1500);
        network.add(device(path, tun.expect("root may make TUN interfaces")), &[ours]);
    }
    network
}

/// Results of this stack.
pub struct Done {
    closed: Reason,
    written: Contents,
    read: Contents,
    pub report: Report,
    seconds: f64,
}

/// The end that opens a connection.
#[derive(Clone, Copy, Debug)]
pub enum Role {
    /// This stack connects to this address and port.
    Connect(IpAddr, u16),
    /// The peer connects to this port.
    Accept(u16),
    /// The peer connects to this port, whose listener answers each SYN by a cookie.
    AcceptByCookie(u16),
}

/// This project's stack in its role, ready for its peer.
pub struct Side {
    engine: Engine,
    done: Rc<RefCell<Option<Done>>>,
}

/// A stack that transfers `load` in both directions over one connection.
pub fn start(network: Network, protocol: Protocol, load: Load, role: Role) -> Side {
    start_with(network, protocol, load, (role, |_| false))
}

/// A stack that transfers `load` in both directions over one connection, with an additional action.
pub fn start_with(
    network: Network,
    protocol: Protocol,
    load: Load,
    (role, meanwhile): (Role, Meanwhile),
) -> Side {
    let mut engine = Engine::new(network, Limits::default(), anabranch_net::secrets().expect("the system's"));
    let done = Rc::new(RefCell::new(None));
    let slot = done.clone();
    let user = move || User {
        application: Application::new(load, BYTES, Rng::new(9)),
        closed: None,
        done: slot.clone(),
        meanwhile,
    };
    match role {
        Role::Connect(address, port) => engine.connect(&protocol, (&[address], port), user()).map(drop),
        Role::Accept(port) | Role::AcceptByCookie(port) => {
            let is_flooded = matches!(role, Role::AcceptByCookie(_));
            let incomplete = if is_flooded { 0 } else { Backlog::default().incomplete };
            let listening =
                Listening { protocol, port, backlog: Backlog { incomplete, ..Backlog::default() } };
            let accept = move || Box::new(user()) as Box<dyn anabranch_net::Application>;
            engine.listen(listening, Box::new(accept))
        }
    }
    .expect("the port is free");
    Side { engine, done }
}

impl Side {
    /// Transfers until both ends have closed.
    ///
    /// # Panics
    ///
    /// If the transfer takes too long or fails.
    pub fn finish(mut self) -> Done {
        let done = self.done.clone();
        let ended = self
            .engine
            .run(Time::ZERO + TRANSFER_TIMEOUT, |_| done.borrow().is_some())
            .expect("the devices work");
        assert!(
            ended,
            "not finished in {TRANSFER_TIMEOUT:?}: {:#?}",
            self.engine.reports().collect::<Vec<_>>()
        );
        let done = self.done.take().expect("the connection has ended");
        assert_eq!(done.closed, Reason::Closed, "{:#?}", done.report);
        done
    }
}

impl Done {
    /// Checks that the data written at each end was read at the other.
    pub fn check(&self, (written, read): &(Contents, Contents)) {
        assert!(self.written.bytes >= BYTES && written.bytes >= BYTES);
        for (written, read) in [(&self.written, read), (written, &self.read)] {
            assert_eq!((written.bytes, written.messages), (read.bytes, read.messages));
            assert_eq!(written.digests(), read.digests());
        }
        let both = self.written.bytes + self.read.bytes;
        println!("{} MB in {:.2} s, by path {:?}", both / 1_000_000, self.seconds, self.bytes_by_path());
    }

    /// Like [`check`](Self::check), but up to `abandoned` messages of this stack may be missing.
    pub fn check_partial(&self, (written, read): &(Contents, Contents), abandoned: u64) {
        assert!(self.written.bytes >= BYTES && written.bytes >= BYTES);
        assert_eq!((written.bytes, written.messages), (self.read.bytes, self.read.messages));
        assert_eq!(written.digests(), self.read.digests());
        let all = self.written.messages;
        assert!((all - abandoned..=all).contains(&read.messages), "{} of {all}", read.messages);
    }

    /// Payload bytes by path: sent and received.
    pub fn bytes_by_path(&self) -> Vec<(u64, u64)> {
        bytes_by_path(&self.report)
    }
}

/// Payload bytes by path: sent and received.
pub fn bytes_by_path(report: &Report) -> Vec<(u64, u64)> {
    let counters = report.paths.iter().map(|path| path.counters);
    counters.map(|counters| (counters.bytes_sent, counters.bytes_received)).collect()
}
