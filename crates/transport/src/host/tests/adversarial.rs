//! What a host does for those who do not mean well: nothing that would cost the others anything.

use super::*;
use multipath::rng::Rng;
use wire::icmp::{Message, Quote as IcmpQuote, Unreachable};
use wire::sctp::{Abort, Chunk, CookieEcho, Init};
use wire::seq::Serial;
use wire::tcp::mptcp::{Capable, Control, Join};
use wire::tcp::{Options, Segment, Timestamps};
use wire::{Ecn, Payload, udp};

const PORT: u16 = 80;
const MULTIPATH_PORT: u16 = 81;

/// Makes packets to the second host that are not what they seem.
struct Forger<'a> {
    rng: &'a mut Rng,
    from: SocketAddr,
    to: SocketAddr,
}

impl<'a> Forger<'a> {
    /// Half of the packets seem to belong to a known connection, half come from somewhere.
    fn new(rng: &'a mut Rng, known: &[(SocketAddr, SocketAddr)]) -> Self {
        let (from, to) = if rng.chance(0.5) {
            known[rng.below(known.len() as u64) as usize]
        } else {
            let source = [172, 16, rng.below(256) as u8, rng.below(256) as u8];
            let to = SocketAddr::new(ip(2, 1), PORT + rng.below(3) as u16);
            ((source, rng.below(65_536) as u16).into(), to)
        };
        Self { rng, from, to }
    }

    fn word(&mut self) -> u32 {
        self.rng.below(1 << 32) as u32
    }

    fn packet(&mut self) -> Packet {
        let body = match self.rng.below(9) {
            0..=2 => Body::Tcp(self.segment()),
            3 => Body::Tcp(self.multipath()),
            4 => {
                let init = Init { initiate_tag: 1 + self.rng.below(9) as u32, ..init() };
                self.association(Chunk::Init(init), 0)
            }
            5 => {
                let tag = self.word();
                self.association(Chunk::CookieEcho(CookieEcho { cookie: vec![7; 60].into() }), tag)
            }
            6 => {
                let (tag, reflected_tag) = (self.word(), self.rng.chance(0.5));
                self.association(Chunk::Abort(Abort { reflected_tag, causes: Vec::new() }), tag)
            }
            7 => Body::Udp(udp::Datagram {
                source_port: self.from.port(),
                destination_port: self.to.port(),
                payload: Payload::new(0, 100),
            }),
            _ => self.error(),
        };
        Packet { source: self.from.ip(), destination: self.to.ip(), ecn: Ecn::NotEct, body }
    }

    fn segment(&mut self) -> Segment {
        let (ack, fin, syn, rst) = (Flags::ACK, Flags::FIN, Flags::SYN, Flags::RST);
        let flags = [syn, rst, ack, ack | fin, syn | ack, rst | ack][self.rng.below(6) as usize];
        let mut segment = Segment {
            source_port: self.from.port(),
            destination_port: self.to.port(),
            seq: Serial(self.word()),
            ack: Serial(self.word()),
            flags,
            window: self.word() as u16,
            payload: Payload::new(0, self.rng.below(3) as u32 * 700),
            ..Segment::default()
        };
        if self.rng.chance(0.3) {
            segment.options.timestamps = Some(Timestamps { value: self.word(), echo: 0 });
        }
        segment
    }

    /// A SYN with `MP_JOIN` or `MP_CAPABLE`.
    fn multipath(&mut self) -> Segment {
        let mut syn = Segment { flags: Flags::SYN, payload: Payload::EMPTY, ..self.segment() };
        let control = if self.rng.chance(0.5) {
            Control::Join(Join::Syn { backup: false, address_id: 1, token: self.word(), nonce: 1 })
        } else {
            Control::Capable(Capable {
                version: 1,
                checksum_required: false,
                no_join_here: false,
                hmac_sha256: true,
                sender_key: None,
                receiver_key: None,
                data: None,
            })
        };
        syn.options = Options { mss: Some(1_460), ..Options::default() };
        syn.options.mptcp.others.push(control);
        syn
    }

    fn association(&self, chunk: Chunk, verification_tag: u32) -> Body {
        Body::Sctp(wire::sctp::Packet {
            source_port: self.from.port(),
            destination_port: self.to.port(),
            verification_tag,
            chunks: vec![chunk],
            udp: None,
        })
    }

    /// An ICMP error about a packet of the second host.
    fn error(&mut self) -> Body {
        let (source_port, destination_port) = (self.to.port(), self.from.port());
        let body = Body::Tcp(Segment { source_port, destination_port, ..self.segment() });
        let (source, destination) = (self.to.ip(), self.from.ip());
        let quote = IcmpQuote::of(&Packet { source, destination, ecn: Ecn::NotEct, body });
        Body::Icmp(Box::new(match self.rng.below(3) {
            0 => Message::PacketTooBig { mtu: 68 + self.rng.below(1_400) as u32, quote },
            1 => Message::Unreachable { what: Unreachable::Port, quote },
            _ => Message::Unreachable { what: Unreachable::Protocol, quote },
        }))
    }
}

fn init() -> Init {
    Init {
        initiate_tag: 1,
        a_rwnd: 100_000,
        outbound_streams: 1,
        inbound_streams: 1,
        initial_tsn: Serial(1),
        parameters: Vec::new(),
    }
}

/// The ends of a connection as the second host's packets have them: remote, local.
fn known(net: &Net, id: ConnectionId) -> (SocketAddr, SocketAddr) {
    let report = net.hosts[1].endpoint(id).expect("a connection").report();
    (report.paths[0].remote, report.paths[0].local)
}

#[test]
fn a_hundred_thousand_hostile_packets_change_no_established_connection() {
    let mut net = Net::new();
    let protocols = [(tcp(), PORT), (mptcp(), MULTIPATH_PORT), (sctp(), PORT)];
    for (protocol, port) in &protocols {
        net.listen(protocol.clone(), *port);
    }
    let all: Vec<_> = (0..12)
        .map(|at| {
            let (protocol, port) = &protocols[at % 3];
            net.pair(protocol, *port)
        })
        .collect();
    for ends in &all {
        net.exchange(*ends, 3_000);
    }
    let known: Vec<_> = all.iter().map(|[_, server]| known(&net, *server)).collect();
    let mut rng = Rng::new(1);
    let backlog = Backlog::default();
    let (mut most, mut answers) = ((0, 0), 0);
    for count in 0..100_000 {
        let packet = Forger::new(&mut rng, &known).packet();
        let before = net.flying.len();
        net.deliver(1, packet);
        answers += net.flying.len() - before;
        // What goes to strangers is lost on the way; only the first host is there to answer.
        net.flying.retain(|(_, packet)| packet.destination == ip(1, 1) || packet.destination == ip(1, 2));
        if count % 100 == 0 {
            net.tick();
            let entries = net.hosts[1].entries();
            most = (most.0.max(entries.0), most.1.max(entries.1));
        }
    }
    assert!(most.0 <= 12 + 2 * (backlog.incomplete + backlog.complete), "{most:?} connections and names");
    assert!(most.1 <= 2 * most.0 + 100, "{most:?} connections and names");
    println!("at most {} connections and {} names; {answers} answers", most.0, most.1);
    assert!(answers < 100_000, "{answers} answers: no packet brings forth more than one");
    for [client, server] in &all {
        assert!(!net.closed(0, *client) && !net.closed(1, *server));
        net.exchange([*client, *server], 3_000);
    }
}

#[test]
fn who_means_well_connects_through_a_flood() {
    for protocol in [tcp(), mptcp()] {
        let mut net = Net::new();
        net.listen(protocol.clone(), PORT);
        let mut rng = Rng::new(2);
        let mut flood = |net: &mut Net| {
            for _ in 0..500 {
                let port = rng.below(65_536) as u16;
                let mut syn = Segment {
                    source_port: port,
                    destination_port: PORT,
                    flags: Flags::SYN,
                    ..Segment::default()
                };
                syn.seq = Serial(rng.below(1 << 32) as u32);
                let source = [172, 16, 0, rng.below(256) as u8].into();
                net.deliver(
                    1,
                    Packet { source, destination: ip(2, 1), ecn: Ecn::NotEct, body: Body::Tcp(syn) },
                );
            }
            net.flying.retain(|(_, packet)| packet.destination == ip(1, 1));
        };
        flood(&mut net);
        let before = net.hosts[1].entries();
        assert_eq!(before.0, Backlog::default().incomplete);
        let client = net.connect(&protocol, PORT);
        net.drive(0);
        net.tick();
        flood(&mut net);
        assert_eq!(net.hosts[1].entries(), before, "a cookie takes no memory");
        net.run(20);
        let server = net.hosts[1].accept(Transport::Tcp, PORT).expect("the cookie came back");
        let report = net.hosts[1].endpoint(server).expect("there").report();
        // The buffer needs a window scale, which came back in the timestamp.
        assert!(report.peer_window > 65_535, "{}", report.peer_window);
        net.exchange([client, server], 200_000);
        let client = net.hosts[0].endpoint(client).expect("there").report();
        assert_eq!(client.fallback, matches!(protocol, Protocol::Mptcp(_)), "plain TCP came of it");
    }
}

#[test]
fn the_third_segment_may_carry_the_first_data_behind_a_cookie() {
    let mut net = Net::new();
    let backlog = Backlog { complete: 10, incomplete: 0 };
    net.hosts[1].listen(Listening { protocol: tcp(), port: PORT, backlog }).expect("free");
    let client = net.connect(&tcp(), PORT);
    net.drive(0);
    net.run(2);
    // The third segment is lost; data follows and brings the cookie as well.
    net.flying.clear();
    net.write(0, client, 5_000);
    net.run(10);
    let server = net.hosts[1].accept(Transport::Tcp, PORT).expect("a cookie");
    assert_eq!(net.read(1, server), 5_000);
}

#[test]
fn ten_thousand_connections_to_a_hundred_listeners() {
    const CONNECTIONS: usize = 10_000;
    const LISTENERS: u16 = 100;
    let mut net = Net::new();
    for port in 0..LISTENERS {
        net.listen(tcp(), 1_000 + port);
    }
    let mut clients = Vec::new();
    let mut servers = Vec::new();
    for batch in 0..CONNECTIONS / usize::from(LISTENERS) {
        for port in 0..LISTENERS {
            clients.push(net.connect(&tcp(), 1_000 + port));
        }
        net.drive(0);
        net.run(3);
        for port in 0..LISTENERS {
            servers.push(
                net.hosts[1].accept(Transport::Tcp, 1_000 + port).unwrap_or_else(|| panic!("batch {batch}")),
            );
        }
    }
    assert_eq!(net.hosts[1].entries(), (CONNECTIONS, CONNECTIONS));
    for &client in &clients {
        assert_eq!(net.write(0, client, 2_000), 2_000);
    }
    net.run(10);
    for &server in &servers {
        assert_eq!(net.read(1, server), 2_000);
    }
    // Timers of all, and none for nothing: delayed acknowledgements have long gone out.
    net.pass(Duration::from_secs(1));
    assert_eq!(net.hosts[0].next_timeout(), None);
    for &client in &clients {
        net.close(0, client);
    }
    net.run(5);
    for &server in &servers {
        net.close(1, server);
    }
    net.run(5);
    for host in 0..2 {
        for &id in [&clients, &servers][host] {
            net.hosts[host].forget(net.now, id);
        }
    }
    assert_eq!(net.hosts[0].entries(), (0, CONNECTIONS), "the clients closed first: theirs is the TIME-WAIT");
    assert_eq!(net.hosts[1].entries(), (0, 0));
}
