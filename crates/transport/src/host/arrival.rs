//! A packet arrives: whose is it, and what is answered if it is nobody's.

use super::connections::{Slot, Stage};
use super::id::ConnectionId;
use super::protocol::{Core, Protocol, Transport, Tuple, ports_of, tuple_of};
use super::time_wait::Verdict;
use super::{Host, cookie};
use crate::endpoint::{NetworkEvent, Quote, Unreachable};
use crate::sctp::{Answer, out_of_the_blue};
use crate::tcp;
use crate::{Address, Ends};
use core::net::IpAddr;
use multipath::time::Time;
use wire::icmp::{self, Message, Quoted};
use wire::ip::protocol;
use wire::sctp::Chunk;
use wire::tcp::mptcp::{Control, Join};
use wire::tcp::{Flags, Segment};
use wire::{Body, Content, Ecn, Packet};

/// Smallest MTU that IPv6 knows (RFC 8200 §5), and that any network of IPv4 does (RFC 791 §3.2).
const LEAST_MTU: [u32; 2] = [68, 1_280];

impl Host {
    /// A packet arrived; `content` is as [`Endpoint::handle_packet`](crate::Endpoint::handle_packet) has it. One that is
    /// addressed to another host is dropped.
    pub fn handle_packet(&mut self, now: Time, packet: Packet, content: &dyn Content) {
        if !self.addresses.iter().any(|address| address.ip == packet.destination) {
            return;
        }
        match &packet.body {
            Body::Tcp(segment) => {
                let tuple = tuple_of(segment, (packet.source, packet.destination));
                match self.names.of_tuple(Transport::Tcp, tuple) {
                    Some(id) => self.hand_over(now, (id, packet), content),
                    None => self.new_segment(now, tuple, packet, content),
                }
            }
            Body::Sctp(_) => self.association_packet(now, packet, content),
            Body::Udp(datagram) => {
                let tuple = (
                    (packet.destination, datagram.destination_port).into(),
                    (packet.source, datagram.source_port).into(),
                );
                match self.names.of_tuple(Transport::Udp, tuple) {
                    Some(id) => self.hand_over(now, (id, packet), content),
                    None => self.new_datagram(now, tuple, packet, content),
                }
            }
            Body::Icmp(message) => self.icmp(now, (packet.source, packet.destination), message),
        }
    }

    fn hand_over(&mut self, now: Time, (id, packet): (ConnectionId, Packet), content: &dyn Content) {
        if let Some(slot) = self.connections.get_mut(id) {
            slot.core.endpoint_mut().handle_packet(now, packet, content);
            self.wake(id);
        }
    }

    /// A segment of no connection.
    fn new_segment(&mut self, now: Time, tuple: Tuple, packet: Packet, content: &dyn Content) {
        let Body::Tcp(segment) = &packet.body else { return };
        if let Some(token) = joins(segment) {
            return match self.names.of_token(token) {
                Some(id) => self.join(now, tuple, (id, packet), content),
                None => self.reset(now, tuple, segment),
            };
        }
        match self.names.time_wait.handle(now, &tuple, segment) {
            None | Some(Verdict::Reopens) => {}
            Some(Verdict::Ignored) => return,
            Some(Verdict::Answer(answer)) => {
                if self.answers.allows(now) {
                    self.out.push_back(from(tuple, *answer));
                }
                return;
            }
        }
        let at = (Transport::Tcp, tuple.0.port());
        let Some(listener) = self.listeners.get(&at) else { return self.reset(now, tuple, segment) };
        let flags = segment.flags;
        if flags.contains(Flags::RST) {
            return;
        }
        if flags.contains(Flags::SYN) && !flags.contains(Flags::ACK) {
            let room = self.connections.len() < self.limits.connections;
            if listener.is_full() || !room {
                return; // The peer tries again.
            }
            if listener.is_flooded() {
                return self.give_cookie(now, tuple, segment);
            }
            let config = listener.protocol.clone();
            if let Some(id) = self.begin(now, (tuple, &config), None) {
                self.hand_over_first(now, tuple, (id, packet), content);
            }
        } else if flags.contains(Flags::ACK) && listener.expects_cookies(now) && !listener.is_full() {
            match cookie::open(&self.secrets, now, tuple, segment) {
                Some(opened) if self.connections.len() < self.limits.connections => {
                    self.take_cookie(now, tuple, (opened, packet), content);
                }
                Some(_) => {}
                None => self.reset(now, tuple, segment),
            }
        } else if flags.contains(Flags::ACK) {
            self.reset(now, tuple, segment);
        }
    }

    /// Makes the end of a connection that came to a listener.
    fn begin(
        &mut self,
        now: Time,
        (tuple, config): (Tuple, &Protocol),
        number: Option<u32>,
    ) -> Option<ConnectionId> {
        let at = (config.transport(), tuple.0.port());
        let local = match config {
            Protocol::Mptcp(_) => self.addresses.clone(),
            _ => vec![self.address(tuple.0.ip())?],
        };
        let ends = Ends::listening(local, tuple.0.port());
        let secrets = self.secrets.clone();
        let mut core = match (config, number) {
            (Protocol::Tcp(config), Some(number)) => {
                let end = tcp::Connection::listening(config.clone(), &ends, secrets);
                Core::Tcp(Box::new(end.with_initial_sequence(number)))
            }
            _ => config.listening(&ends, tuple.1, secrets).ok()?,
        };
        core.endpoint_mut().connect(now);
        self.listeners.get_mut(&at)?.incomplete += 1;
        Some(self.connections.insert(Slot::new(core, Stage::Handshake(at))))
    }

    /// A connection's first packet, with which it takes its names.
    fn hand_over_first(
        &mut self,
        now: Time,
        tuple: Tuple,
        (id, packet): (ConnectionId, Packet),
        content: &dyn Content,
    ) {
        self.hand_over(now, (id, packet), content);
        if !self.take_names(id, tuple) {
            // Its token is another's: unanswered, the peer tries again, and another key is drawn (RFC 8684 §3.1).
            let at = self.connections.get(id).map(|slot| slot.core.transport());
            if let Some(listener) = at.and_then(|at| self.listeners.get_mut(&(at, tuple.0.port()))) {
                listener.incomplete -= 1;
            }
            self.connections.remove(id);
        }
    }

    /// Another subflow for a connection that its token names.
    fn join(&mut self, now: Time, tuple: Tuple, (id, packet): (ConnectionId, Packet), content: &dyn Content) {
        self.rename(id);
        let Some(slot) = self.connections.get_mut(id) else { return };
        slot.tuples.push(tuple);
        self.names.add_tuple(Transport::Tcp, tuple, id);
        self.hand_over(now, (id, packet), content);
        // One that it did not take leaves no name.
        self.rename(id);
    }

    /// Answers a SYN without remembering it.
    fn give_cookie(&mut self, now: Time, tuple: Tuple, syn: &Segment) {
        let Some(address) = self.address(tuple.0.ip()) else { return };
        let Some(listener) = self.listeners.get_mut(&(Transport::Tcp, tuple.0.port())) else { return };
        let config = match &listener.protocol {
            Protocol::Tcp(config) => config,
            Protocol::Mptcp(config) => &config.tcp,
            Protocol::Sctp(_) | Protocol::Udp => return,
        };
        let (sack, buffer) = (config.sack, config.receive_buffer);
        listener.gave_cookie(now);
        let header = if tuple.0.is_ipv4() { 40 } else { 60 };
        let mss = address.mtu.saturating_sub(header).min(u32::from(u16::MAX)) as u16;
        let shift = tcp::window_shift(buffer);
        let mut answer = cookie::answer(&self.secrets, now, (tuple, syn), (mss, shift));
        answer.window = buffer.min(u64::from(u16::MAX)) as u16;
        answer.options.sack_permitted &= sack;
        self.out.push_back(from(tuple, answer));
    }

    /// The third segment brought a cookie back: the connection is made as if it had been there all the time. Multipath TCP
    /// gives way to plain TCP then: its keys would have to be remembered (RFC 8684 §3.7 has the peer fall back).
    fn take_cookie(
        &mut self,
        now: Time,
        tuple: Tuple,
        ((syn, number), packet): ((Segment, u32), Packet),
        content: &dyn Content,
    ) {
        let Some(listener) = self.listeners.get(&(Transport::Tcp, tuple.0.port())) else { return };
        let config = match &listener.protocol {
            Protocol::Tcp(config) => config.clone(),
            Protocol::Mptcp(config) => config.tcp.clone(),
            Protocol::Sctp(_) | Protocol::Udp => return,
        };
        let Some(id) = self.begin(now, (tuple, &Protocol::Tcp(config)), Some(number)) else { return };
        let body = Body::Tcp(syn);
        let (source, destination) = (packet.source, packet.destination);
        let syn = Packet { source, destination, ecn: Ecn::NotEct, body };
        self.hand_over_first(now, tuple, (id, syn), content);
        self.hand_over(now, (id, packet), content);
    }

    /// RFC 9293 §3.10.7.1: nobody is there.
    fn reset(&mut self, now: Time, tuple: Tuple, segment: &Segment) {
        if segment.flags.contains(Flags::RST) || !self.may_answer(now, tuple.1.ip()) {
            return;
        }
        let mut reset = Segment {
            source_port: tuple.0.port(),
            destination_port: tuple.1.port(),
            flags: Flags::RST,
            ..Segment::default()
        };
        if segment.flags.contains(Flags::ACK) {
            reset.seq = segment.ack;
        } else {
            reset.flags |= Flags::ACK;
            reset.ack = segment.seq.add(segment.sequence_len());
        }
        self.out.push_back(from(tuple, reset));
    }

    fn association_packet(&mut self, now: Time, packet: Packet, content: &dyn Content) {
        let Body::Sctp(body) = &packet.body else { return };
        let ports = ports_of(body);
        let by_tag = self.names.of_tag(ports, body.verification_tag);
        let id = match body.chunks.first() {
            Some(Chunk::Init(_) | Chunk::CookieEcho(_)) => {
                by_tag.or_else(|| self.names.of_peer(ports, packet.source))
            }
            Some(Chunk::Abort(abort)) if abort.reflected_tag => self.names.of_peer(ports, packet.source),
            Some(Chunk::ShutdownComplete(done)) if done.reflected_tag => {
                self.names.of_peer(ports, packet.source)
            }
            _ => by_tag,
        };
        if let Some(id) = id {
            return self.hand_over(now, (id, packet), content);
        }
        let at = (Transport::Sctp, ports.0);
        let Some(listener) = self.listeners.get_mut(&at) else {
            if self.may_answer(now, packet.source) {
                self.out.extend(out_of_the_blue(&packet));
            }
            return;
        };
        let brings_cookie = matches!(body.chunks.first(), Some(Chunk::CookieEcho(_)));
        let room = self.connections.len() < self.limits.connections;
        if brings_cookie && (listener.is_full() || !room) {
            return; // The peer tries again.
        }
        let Some(stateless) = &mut listener.stateless else { return };
        match stateless.handle_packet(now, packet, content) {
            Answer::Ignored => {}
            Answer::Packet(answer) => self.out.push_back(answer),
            Answer::Accepted(association) => {
                listener.incomplete += 1;
                let id = self.connections.insert(Slot::new(Core::Sctp(association), Stage::Handshake(at)));
                self.rename(id);
                self.wake(id);
            }
        }
    }

    /// A datagram of no socket: a listener makes one for each sender.
    fn new_datagram(&mut self, now: Time, tuple: Tuple, packet: Packet, content: &dyn Content) {
        let Some(listener) = self.listeners.get(&(Transport::Udp, tuple.0.port())) else {
            if self.may_answer(now, packet.source) {
                let what = icmp::Unreachable::Port;
                let message = Message::Unreachable { what, quote: icmp::Quote::of(&packet) };
                self.say(&packet, message);
            }
            return;
        };
        if listener.is_full() || listener.is_flooded() || self.connections.len() >= self.limits.connections {
            return;
        }
        let config = listener.protocol.clone();
        if let Some(id) = self.begin(now, (tuple, &config), None) {
            self.hand_over_first(now, tuple, (id, packet), content);
        }
    }

    fn icmp(&mut self, now: Time, (source, destination): (IpAddr, IpAddr), message: &Message) {
        if let Message::EchoRequest(echo) = message {
            if self.may_answer(now, source) {
                let body = Body::Icmp(Box::new(Message::EchoReply(echo.clone())));
                let (source, destination) = (destination, source);
                self.out.push_back(Packet { source, destination, ecn: Ecn::NotEct, body });
            }
            return;
        }
        let Some(quote) = message.quote() else { return };
        let found = quote.parse().and_then(|quoted| Some((self.quoted_connection(&quoted)?, quoted)));
        let found = found.or_else(|| {
            let inner = quote.parse_encapsulated()?;
            Some((self.quoted_connection(&inner)?, inner))
        });
        let Some((id, quoted)) = found else { return };
        let v6 = usize::from(quoted.source.is_ipv6());
        let quote = Quote {
            local: quoted.source,
            remote: quoted.destination,
            number: quoted.number,
            initiate_tag: quoted.initiate_tag,
        };
        let event = match *message {
            // What no network does is a lie (RFC 5927 §7, RFC 8201 §4).
            Message::PacketTooBig { mtu, .. } if mtu < LEAST_MTU[v6] => return,
            Message::PacketTooBig { mtu, .. } => NetworkEvent::PacketTooBig { quote, mtu },
            Message::Unreachable { what, .. } => NetworkEvent::Unreachable { quote, what: meaning(what) },
            _ => NetworkEvent::Unreachable { quote, what: Unreachable::Host },
        };
        if let Some(slot) = self.connections.get_mut(id) {
            slot.core.endpoint_mut().handle_network(now, event);
            self.wake(id);
        }
    }

    /// The connection that a quoted packet is from.
    pub(super) fn quoted_connection(&self, quoted: &Quoted) -> Option<ConnectionId> {
        let tuple = (quoted.source, quoted.destination);
        match quoted.protocol {
            protocol::TCP => self.names.of_tuple(Transport::Tcp, tuple),
            protocol::UDP => self.names.of_tuple(Transport::Udp, tuple),
            _ => self.names.of_peer((tuple.0.port(), tuple.1.port()), tuple.1.ip()),
        }
    }

    fn say(&mut self, to: &Packet, message: Message) {
        let (source, destination) = (to.destination, to.source);
        let body = Body::Icmp(Box::new(message));
        self.out.push_back(Packet { source, destination, ecn: Ecn::NotEct, body });
    }

    fn may_answer(&mut self, now: Time, source: IpAddr) -> bool {
        icmp::may_be_answered(source) && self.answers.allows(now)
    }

    fn address(&self, ip: IpAddr) -> Option<Address> {
        self.addresses.iter().find(|address| address.ip == ip).copied()
    }
}

/// The token of a SYN that joins a connection.
fn joins(segment: &Segment) -> Option<u32> {
    if !segment.flags.contains(Flags::SYN) || segment.flags.contains(Flags::ACK) {
        return None;
    }
    segment.options.mptcp.others.iter().find_map(|option| match option {
        Control::Join(Join::Syn { token, .. }) => Some(*token),
        _ => None,
    })
}

const fn meaning(what: icmp::Unreachable) -> Unreachable {
    match what {
        icmp::Unreachable::Network | icmp::Unreachable::Host | icmp::Unreachable::Other(_) => {
            Unreachable::Host
        }
        icmp::Unreachable::Protocol => Unreachable::Protocol,
        icmp::Unreachable::Port => Unreachable::Port,
        icmp::Unreachable::Prohibited => Unreachable::Prohibited,
    }
}

/// A segment from the local end to the remote one.
const fn from(tuple: Tuple, segment: Segment) -> Packet {
    let (source, destination) = (tuple.0.ip(), tuple.1.ip());
    Packet { source, destination, ecn: Ecn::NotEct, body: Body::Tcp(segment) }
}
