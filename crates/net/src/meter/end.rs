//! An end of a flow: establishes its connection, and runs the application there.

use super::flow::{ACCEPTS, CONNECTS, Flow, Transport};
use super::reader::Reader;
use super::record::{Record, State, state_of};
use super::socket;
use super::span::{MAX_SLEEP, Span};
use super::speaker::SharedApplication;
use super::writer::Writer;
use anabranch_scenario::workload::Client;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketFlags};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Maximum length of a PROXY protocol header in text, with the end of its line (proxy-protocol.txt of
/// `HAProxy`, 2.1).
const MAX_PROXY_HEADER_BYTES: usize = 107;

/// An end of a flow in a run.
#[derive(Clone, Debug)]
pub struct End {
    /// The flow.
    pub flow: Flow,
    /// The record of each end's data.
    pub records: [Arc<Record>; 2],
    /// The run.
    pub span: Arc<Span>,
}

/// State of an end after its application has finished.
#[derive(Debug, Default)]
pub struct FinishedEnd {
    /// Open sockets, so that the kernel keeps their state.
    sockets: Vec<OwnedFd>,
    /// Results of a requesting application; `None` for other applications.
    client: Option<Client>,
}

impl FinishedEnd {
    /// Closes the sockets.
    pub fn close(self) -> Option<Client> {
        drop(self.sockets);
        self.client
    }
}

impl End {
    /// Connects when the flow starts, and runs the application until the end of the run.
    pub fn connect(&self) -> FinishedEnd {
        prefer_exact_sleeps();
        let opened = socket::connecting(&self.flow);
        let socket = match opened {
            Ok(socket) => socket,
            Err(sentence) => {
                self.main().record_fault(sentence);
                return FinishedEnd::default();
            }
        };
        self.span.sleep_until(self.flow.start);
        let client = if self.try_connect(&socket) { self.run_application(CONNECTS, &socket) } else { None };
        FinishedEnd { sockets: vec![socket], client }
    }

    /// Waits for the other end at a socket of [`socket::listening`], and runs the application.
    pub fn accept(&self, socket: OwnedFd) -> FinishedEnd {
        prefer_exact_sleeps();
        if self.flow.transport == Transport::Udp {
            if self.flow.applications[ACCEPTS].is_some() && !self.connect_to_sender(&socket) {
                return FinishedEnd { sockets: vec![socket], client: None };
            }
            let client = self.run_application(ACCEPTS, &socket);
            return FinishedEnd { sockets: vec![socket], client };
        }
        let accept_connection = self.accept_connection(&socket);
        let client =
            accept_connection.as_ref().and_then(|connection| self.run_application(ACCEPTS, connection));
        FinishedEnd { sockets: [Some(socket), accept_connection].into_iter().flatten().collect(), client }
    }

    /// The record of the flow's main data.
    pub fn main(&self) -> &Record {
        &self.records[self.flow.source]
    }

    /// Sets the state in all records of the flow.
    pub fn set_state(&self, state: State) {
        self.records.iter().for_each(|record| record.set_state(state));
    }

    /// Connects; on failure, returns false and puts the reason into the record.
    fn try_connect(&self, socket: &OwnedFd) -> bool {
        match rustix::net::connect(socket, &self.flow.socket_address(self.flow.remote)) {
            Ok(()) => {}
            Err(Errno::INPROGRESS) => {
                if !self.wait_until_established(socket) {
                    return false;
                }
            }
            Err(error) => {
                self.set_state(state_of(error));
                return false;
            }
        }
        if let Err(sentence) = socket::check_congestion(socket, &self.flow, CONNECTS) {
            self.main().record_fault(sentence);
            return false;
        }
        self.set_state(State::Open);
        true
    }

    /// Waits until a connection is established.
    fn wait_until_established(&self, socket: &OwnedFd) -> bool {
        while !self.span.is_over() {
            match rustix::net::getpeername(socket) {
                Ok(Some(_)) => return true,
                _ => {
                    if let Ok(Err(error)) = rustix::net::sockopt::socket_error(socket) {
                        self.set_state(state_of(error));
                        return false;
                    }
                }
            }
            if socket::wait(socket, PollFlags::OUT, MAX_SLEEP).is_err() {
                return false;
            }
        }
        false
    }

    fn accept_connection(&self, socket: &OwnedFd) -> Option<OwnedFd> {
        while !self.span.is_over() {
            match rustix::net::accept_with(socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(connection) => {
                    let ready = socket::prepare(&connection, &self.flow, ACCEPTS)
                        .and_then(|()| socket::check_congestion(&connection, &self.flow, ACCEPTS));
                    return match ready {
                        Ok(()) if self.flow.proxied && !self.remove_proxy_header(&connection) => continue,
                        Ok(()) => Some(connection),
                        Err(sentence) => {
                            self.main().record_fault(sentence);
                            None
                        }
                    };
                }
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => self.wait_for_input(socket),
                Err(error) => {
                    self.main().record_fault(format!("cannot accept a connection: {error}"));
                    return None;
                }
            }
        }
        None
    }

    /// Reads the PROXY header that precedes the stream of a connection from a proxy; returns true if the connection
    /// is that of a client. Others come from the proxy's check that this end listens: their header names no client
    /// (UNKNOWN), or they have none and are closed at once.
    fn remove_proxy_header(&self, connection: &OwnedFd) -> bool {
        while !self.span.is_over() {
            let mut header = [0; MAX_PROXY_HEADER_BYTES];
            match rustix::net::recv(connection, header.as_mut_slice(), RecvFlags::PEEK) {
                Ok((0, _)) => return false,
                Ok((len, _)) => match header[..len].windows(2).position(|two| two == b"\r\n") {
                    Some(at) => {
                        let taken = rustix::net::recv(connection, &mut header[..at + 2], RecvFlags::empty());
                        return taken.is_ok_and(|(taken, _)| taken == at + 2)
                            && !header.starts_with(b"PROXY UNKNOWN");
                    }
                    None if len == MAX_PROXY_HEADER_BYTES => return false,
                    None => self.wait_for_input(connection),
                },
                Err(Errno::AGAIN | Errno::INTR) => self.wait_for_input(connection),
                Err(_) => return false,
            }
        }
        false
    }

    /// Waits for the first datagram, and connects to its sender. An end that writes datagrams learns its destination
    /// this way. The datagram stays in the socket.
    fn connect_to_sender(&self, socket: &OwnedFd) -> bool {
        while !self.span.is_over() {
            match rustix::net::recvfrom(socket, [0; 0].as_mut_slice(), RecvFlags::PEEK) {
                Ok((_, _, Some(peer))) => match rustix::net::connect(socket, &peer) {
                    Ok(()) => return true,
                    Err(error) => {
                        self.set_state(state_of(error));
                        return false;
                    }
                },
                Ok(_) | Err(Errno::AGAIN | Errno::INTR) => self.wait_for_input(socket),
                Err(error) => {
                    self.set_state(state_of(error));
                    return false;
                }
            }
        }
        false
    }

    fn wait_for_input(&self, socket: &OwnedFd) {
        if let Err(error) = socket::wait(socket, PollFlags::IN, MAX_SLEEP) {
            self.main().record_fault(format!("cannot wait for the socket: {error}"));
        }
    }

    /// Writes and reads at this side until the end; returns the results of a requesting application.
    fn run_application(&self, side: usize, socket: &OwnedFd) -> Option<Client> {
        let speaker = self.flow.applications[side]
            .clone()
            .map(|application| SharedApplication::new(application, self.span.warmup));
        let (own, other) = (&*self.records[side], &*self.records[1 - side]);
        let reads = self.flow.applications[1 - side].is_some();
        std::thread::scope(|scope| {
            if let Some(speaker) = &speaker {
                scope.spawn(|| {
                    prefer_exact_sleeps();
                    Writer::new(socket, own, &self.span, reads).write(self.flow.transport, speaker);
                });
            }
            if reads {
                Reader::new(socket, other, &self.span).read(self.flow.transport, speaker.as_ref());
            }
        });
        speaker.and_then(|speaker| speaker.client(self.span.now()))
    }
}

/// Lets the calling thread's sleeps end in time; by default they may end 50 µs late.
fn prefer_exact_sleeps() {
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}
