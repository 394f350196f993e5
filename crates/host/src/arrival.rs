//! Finds the connection of an arriving packet, and answers packets without a connection.

use super::connections::{Slot, Stage};
use super::id::ConnectionId;
use super::protocol::{Core, Protocol, Transport, Tuple, datagram_tuple, ports_of, tuple_of};
use super::time_wait::Reaction;
use super::{Host, cookie};
use anabranch_base::time::Time;
use anabranch_endpoint::endpoint::{NetworkEvent, Quote, Unreachable};
use anabranch_endpoint::{Address, Ends};
use anabranch_sctp::{Answer, behind_auth, out_of_the_blue};
use anabranch_tcp::{mptcp, tcp};
use anabranch_wire::icmp::{self, Message, Quoted};
use anabranch_wire::ip::protocol;
use anabranch_wire::sctp::{self as wire_sctp, Chunk};
use anabranch_wire::seq::Serial;
use anabranch_wire::tcp::mptcp::{Capable, Control, Join, Key};
use anabranch_wire::tcp::{Flags, Segment};
use anabranch_wire::{Body, Content, Ecn, Packet};
use core::net::IpAddr;

/// Smallest MTU of IPv4 (RFC 791 §3.2) and of IPv6 (RFC 8200 §5).
const MIN_MTU: [u32; 2] = [68, 1_280];

impl Host {
    /// Handles a packet that has arrived; `content` is as in
    /// [`Endpoint::handle_packet`](anabranch_endpoint::Endpoint::handle_packet). Drops a packet that is addressed to
    /// another host. Returns the connection that has handled the packet, if there is one.
    pub fn handle_packet(
        &mut self,
        now: Time,
        packet: Packet,
        content: &dyn Content,
    ) -> Option<ConnectionId> {
        if !self.addresses.iter().any(|address| address.ip == packet.destination) {
            return None;
        }
        let id = self.connection_of(&packet);
        match (&packet.body, id) {
            (Body::Icmp(message), _) => {
                self.icmp(now, (packet.source, packet.destination), message);
                id
            }
            (_, Some(id)) => self.hand_over(now, (id, packet), content),
            (Body::Tcp(segment), None) => {
                let tuple = tuple_of(segment, (packet.source, packet.destination));
                self.new_segment(now, tuple, packet, content)
            }
            (Body::Sctp(_), None) => self.association_packet(now, packet, content),
            (Body::Udp(datagram), None) => {
                let tuple = datagram_tuple(datagram, (packet.source, packet.destination));
                self.new_datagram(now, tuple, packet, content)
            }
        }
    }

    /// The connection of a packet by its headers; for an ICMP error, the connection that sent the quoted packet.
    pub fn connection_of(&self, packet: &Packet) -> Option<ConnectionId> {
        let addresses = (packet.source, packet.destination);
        match &packet.body {
            Body::Tcp(segment) => self.names.of_tuple(Transport::Tcp, tuple_of(segment, addresses)),
            Body::Udp(datagram) => self.names.of_tuple(Transport::Udp, datagram_tuple(datagram, addresses)),
            Body::Sctp(body) => self.association_of(packet.source, body),
            Body::Icmp(message) => self.quoted(message).map(|(id, _)| id),
        }
    }

    fn hand_over(
        &mut self,
        now: Time,
        (id, packet): (ConnectionId, Packet),
        content: &dyn Content,
    ) -> Option<ConnectionId> {
        let slot = self.connections.get_mut(id)?;
        slot.core.endpoint_mut().handle_packet(now, packet, content);
        self.wake(id);
        Some(id)
    }

    /// Handles a segment without a connection.
    fn new_segment(
        &mut self,
        now: Time,
        tuple: Tuple,
        packet: Packet,
        content: &dyn Content,
    ) -> Option<ConnectionId> {
        let Body::Tcp(segment) = &packet.body else { return None };
        if let Some(token) = join_token(segment) {
            let Some(id) = self.names.of_token(token) else { return self.reset(now, tuple, segment) };
            return self.join(now, tuple, (id, packet), content);
        }
        match self.names.time_wait.handle(now, &tuple, segment) {
            None | Some(Reaction::Reopens) => {}
            Some(Reaction::Ignored) => return None,
            Some(Reaction::Answer(answer)) => {
                if self.answers.allows(now) {
                    self.out.push_back(from(tuple, *answer));
                }
                return None;
            }
        }
        let at = (Transport::Tcp, tuple.0.port());
        let Some(listener) = self.listeners.get(&at) else { return self.reset(now, tuple, segment) };
        let flags = segment.flags;
        if flags.contains(Flags::RST) {
            return None;
        }
        if flags.contains(Flags::SYN) && !flags.contains(Flags::ACK) {
            let room = self.connections.len() < self.limits.connections;
            if listener.is_full() || !room {
                return None; // the peer retransmits its SYN
            }
            if listener.is_flooded() {
                return self.send_cookie(now, tuple, segment);
            }
            let config = listener.protocol.clone();
            let id = self.begin(now, (tuple, &config), None)?;
            self.handle_first_packet(now, tuple, (id, packet), content)
        } else if flags.contains(Flags::ACK) && listener.expects_cookies(now) && !listener.is_full() {
            match cookie::open(&self.secrets, now, tuple, segment) {
                Some(opened) if self.connections.len() < self.limits.connections => {
                    self.accept_cookie(now, tuple, (opened, packet), content)
                }
                Some(_) => None,
                None => self.reset(now, tuple, segment),
            }
        } else if flags.contains(Flags::ACK) {
            self.reset(now, tuple, segment)
        } else {
            None
        }
    }

    /// Creates the accepting end of a connection.
    fn begin(
        &mut self,
        now: Time,
        (tuple, config): (Tuple, &Protocol),
        cookie: Option<(u32, Option<Key>)>,
    ) -> Option<ConnectionId> {
        let at = (config.transport(), tuple.0.port());
        let listening = self.listeners.get(&at)?.local.as_ref().unwrap_or(&self.addresses);
        let local = match config {
            Protocol::Mptcp(_) => listening.clone(),
            _ => vec![*listening.iter().find(|address| address.ip == tuple.0.ip())?],
        };
        let ends = Ends::listening(local, tuple.0.port());
        let secrets = self.secrets.clone();
        let mut core = match (config, cookie) {
            (Protocol::Tcp(config), Some((number, _))) => {
                let end = tcp::Connection::listening(config.clone(), &ends, secrets);
                Core::Tcp(Box::new(end.with_initial_sequence(number)))
            }
            (Protocol::Mptcp(config), Some((number, Some(key)))) => {
                let end = mptcp::Connection::listening(config.clone(), &ends, secrets);
                Core::Mptcp(Box::new(end.with_cookie(number, key.secret)))
            }
            _ => config.listening(&ends, tuple.1, secrets).ok()?,
        };
        core.endpoint_mut().connect(now);
        self.listeners.get_mut(&at)?.incomplete += 1;
        let id = self.connections.insert(Slot::new(core, Stage::Handshake(at)));
        self.report_lost_addresses(now, id, &ends.local);
        Some(id)
    }

    /// Passes a connection its first packet and registers its names.
    fn handle_first_packet(
        &mut self,
        now: Time,
        tuple: Tuple,
        (id, packet): (ConnectionId, Packet),
        content: &dyn Content,
    ) -> Option<ConnectionId> {
        self.hand_over(now, (id, packet), content);
        if self.take_names(id, tuple) {
            return Some(id);
        }
        // Another connection has the same token. Without an answer the peer retries with another key (RFC 8684 §3.1).
        self.leave_listener(id);
        self.connections.remove(id);
        None
    }

    /// Creates another subflow of the connection with this token.
    fn join(
        &mut self,
        now: Time,
        tuple: Tuple,
        (id, packet): (ConnectionId, Packet),
        content: &dyn Content,
    ) -> Option<ConnectionId> {
        self.rename(id);
        self.connections.get_mut(id)?.registered.tuples.push(tuple);
        self.names.add_tuple(Transport::Tcp, tuple, id);
        self.hand_over(now, (id, packet), content);
        // Releases the names of a refused subflow.
        self.rename(id);
        Some(id)
    }

    /// Answers a SYN with a cookie, and creates no connection.
    fn send_cookie(&mut self, now: Time, tuple: Tuple, syn: &Segment) -> Option<ConnectionId> {
        let address = self.address(tuple.0.ip())?;
        let listener = self.listeners.get_mut(&(Transport::Tcp, tuple.0.port()))?;
        let (config, checksum) = match &listener.protocol {
            Protocol::Tcp(config) => (config, None),
            Protocol::Mptcp(config) => (&config.tcp, Some(config.checksum)),
            Protocol::Sctp(_) | Protocol::Udp => return None,
        };
        let (sack, buffer) = (config.sack, config.receive_buffer);
        listener.record_cookie(now);
        let header = if tuple.0.is_ipv4() { 40 } else { 60 };
        let mss = address.mtu.saturating_sub(header).min(u32::from(u16::MAX)) as u16;
        let shift = tcp::window_shift(buffer);
        let mut answer = cookie::answer(&self.secrets, now, (tuple, syn), (mss, shift));
        answer.window = buffer.min(u64::from(u16::MAX)) as u16;
        answer.options.sack_permitted &= sack;
        let key = cookie::key(&self.secrets, tuple, (syn.seq, answer.seq));
        // Without an MP_CAPABLE the peer falls back to plain TCP (RFC 8684 §3.7).
        if let Some((checksum, offer)) = checksum.zip(mptcp::offer(syn))
            && self.names.of_token(key.token).is_none()
        {
            let capable = Capable {
                version: 1,
                checksum_required: checksum || offer.checksum_required,
                hmac_sha256: true,
                sender_key: Some(key.secret),
                ..Capable::default()
            };
            answer.options.mptcp.others.push(Control::Capable(capable));
        }
        self.out.push_back(from(tuple, answer));
        None
    }

    /// Creates a connection from the final ACK of a handshake that has a valid SYN cookie. It is plain TCP if the segment
    /// does not contain the key of the cookie, or another connection has got its token.
    fn accept_cookie(
        &mut self,
        now: Time,
        tuple: Tuple,
        ((mut syn, number), packet): ((Segment, u32), Packet),
        content: &dyn Content,
    ) -> Option<ConnectionId> {
        let Body::Tcp(third) = &packet.body else { return None };
        let key = cookie::key(&self.secrets, tuple, (syn.seq, Serial(number)));
        let confirmed = mptcp::capable(third).filter(|capable| {
            capable.receiver_key == Some(key.secret) && self.names.of_token(key.token).is_none()
        });
        let listener = self.listeners.get(&(Transport::Tcp, tuple.0.port()))?;
        let (config, key) = match (&listener.protocol, confirmed) {
            (Protocol::Mptcp(config), Some(confirmed)) => {
                let offer = Capable { sender_key: None, receiver_key: None, data: None, ..*confirmed };
                syn.options.mptcp.others.push(Control::Capable(offer));
                (Protocol::Mptcp(config.clone()), Some(key))
            }
            (Protocol::Mptcp(config), None) => (Protocol::Tcp(config.tcp.clone()), None),
            (Protocol::Tcp(config), _) => (Protocol::Tcp(config.clone()), None),
            (Protocol::Sctp(_) | Protocol::Udp, _) => return None,
        };
        let id = self.begin(now, (tuple, &config), Some((number, key)))?;
        let body = Body::Tcp(syn);
        let (source, destination) = (packet.source, packet.destination);
        let syn = Packet { source, destination, ecn: Ecn::NotEct, body };
        self.handle_first_packet(now, tuple, (id, syn), content);
        self.hand_over(now, (id, packet), content)
    }

    /// Answers a segment without a connection by a reset (RFC 9293 §3.10.7.1).
    fn reset(&mut self, now: Time, tuple: Tuple, segment: &Segment) -> Option<ConnectionId> {
        if segment.flags.contains(Flags::RST) || !self.may_answer(now, tuple.1.ip()) {
            return None;
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
        None
    }

    /// The association of a packet from this address.
    fn association_of(&self, source: IpAddr, body: &wire_sctp::Packet) -> Option<ConnectionId> {
        let ports = ports_of(body);
        let by_tag = self.names.of_tag(ports, body.verification_tag);
        match behind_auth(&body.chunks).first() {
            Some(Chunk::Init(_) | Chunk::CookieEcho(_)) => {
                by_tag.or_else(|| self.names.of_peer(ports, source))
            }
            Some(Chunk::Abort(abort)) if abort.reflected_tag => self.names.of_peer(ports, source),
            Some(Chunk::ShutdownComplete(done)) if done.reflected_tag => self.names.of_peer(ports, source),
            _ => by_tag,
        }
    }

    /// Handles a packet without an association.
    fn association_packet(
        &mut self,
        now: Time,
        packet: Packet,
        content: &dyn Content,
    ) -> Option<ConnectionId> {
        let Body::Sctp(body) = &packet.body else { return None };
        let at = (Transport::Sctp, body.destination_port);
        let Some(listener) = self.listeners.get_mut(&at) else {
            if self.may_answer(now, packet.source) {
                self.out.extend(out_of_the_blue(&packet));
            }
            return None;
        };
        let has_cookie = matches!(behind_auth(&body.chunks).first(), Some(Chunk::CookieEcho(_)));
        let room = self.connections.len() < self.limits.connections;
        if has_cookie && (listener.is_full() || !room) {
            return None; // the peer retransmits its COOKIE ECHO
        }
        match listener.stateless.as_mut()?.handle_packet(now, packet, content) {
            Answer::Ignored => None,
            Answer::Packet(answer) => {
                self.out.push_back(answer);
                None
            }
            Answer::Accepted(association) => {
                listener.incomplete += 1;
                let local = listener.local.clone();
                let id = self.connections.insert(Slot::new(Core::Sctp(association), Stage::Handshake(at)));
                self.report_lost_addresses(now, id, local.as_deref().unwrap_or_default());
                self.rename(id);
                self.wake(id);
                Some(id)
            }
        }
    }

    /// Handles a datagram without a socket; a listener creates one for each sender.
    fn new_datagram(
        &mut self,
        now: Time,
        tuple: Tuple,
        packet: Packet,
        content: &dyn Content,
    ) -> Option<ConnectionId> {
        let Some(listener) = self.listeners.get(&(Transport::Udp, tuple.0.port())) else {
            if self.may_answer(now, packet.source) {
                let what = icmp::Unreachable::Port;
                let message = Message::Unreachable { what, quote: icmp::Quote::of(&packet) };
                self.say(&packet, message);
            }
            return None;
        };
        if listener.is_full() || listener.is_flooded() || self.connections.len() >= self.limits.connections {
            return None;
        }
        let config = listener.protocol.clone();
        let id = self.begin(now, (tuple, &config), None)?;
        self.handle_first_packet(now, tuple, (id, packet), content)
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
        let Some((id, quoted)) = self.quoted(message) else { return };
        let v6 = usize::from(quoted.source.is_ipv6());
        let quote = Quote {
            local: quoted.source,
            remote: quoted.destination,
            number: quoted.number,
            initiate_tag: quoted.initiate_tag,
        };
        let event = match *message {
            // Ignore an MTU below the protocol's minimum: such a message is forged (RFC 5927 §7, RFC 8201 §4).
            Message::PacketTooBig { mtu, .. } if mtu < MIN_MTU[v6] => return,
            Message::PacketTooBig { mtu, .. } => NetworkEvent::PacketTooBig { quote, mtu },
            Message::Unreachable { what, .. } => NetworkEvent::Unreachable { quote, what: meaning(what) },
            _ => NetworkEvent::Unreachable { quote, what: Unreachable::Host },
        };
        if let Some(slot) = self.connections.get_mut(id) {
            slot.core.endpoint_mut().handle_network(now, event);
            self.wake(id);
        }
    }

    /// The quoted packet of an error, and the connection that sent it.
    fn quoted(&self, message: &Message) -> Option<(ConnectionId, Quoted)> {
        let quote = message.quote()?;
        let found = quote.parse().and_then(|quoted| Some((self.quoted_connection(&quoted)?, quoted)));
        found.or_else(|| {
            let inner = quote.parse_encapsulated()?;
            Some((self.quoted_connection(&inner)?, inner))
        })
    }

    /// The connection that sent a quoted packet.
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

/// The token that a SYN with `MP_JOIN` contains.
fn join_token(segment: &Segment) -> Option<u32> {
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

/// A segment from the local to the remote address, for an answer of the host itself.
const fn from(tuple: Tuple, segment: Segment) -> Packet {
    let (source, destination) = (tuple.0.ip(), tuple.1.ip());
    Packet { source, destination, ecn: Ecn::NotEct, body: Body::Tcp(segment) }
}
