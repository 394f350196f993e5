//! Attackers must not harm the established connections of a host, nor prevent new ones.

use super::hosts::forger::{Forger, MULTIPATH_PORT, PORT};
use super::*;
use anabranch_base::rng::Rng;
use anabranch_wire::Ecn;
use anabranch_wire::seq::Serial;
use anabranch_wire::tcp::Segment;
use anabranch_wire::tcp::mptcp::{Capable, Control};

/// Remote and local address of a connection, as seen from the second host.
fn known(net: &Net, id: ConnectionId) -> (SocketAddr, SocketAddr) {
    let report = net.hosts[1].endpoint(id).expect("a connection").report();
    (report.paths[0].remote, report.paths[0].local)
}

#[test]
fn forged_packets_leave_connections_intact() {
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
        // Drop answers to forged addresses; of the senders only the first host exists.
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
    assert!(answers < 100_000, "{answers} answers, but at most one for each packet");
    for [client, server] in &all {
        assert!(!net.closed(0, *client) && !net.closed(1, *server));
        net.exchange([*client, *server], 3_000);
    }
}

#[test]
fn client_connects_during_a_syn_flood() {
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
        let report = net.hosts[1].endpoint(server).expect("the connection exists").report();
        // The client's receive buffer needs a window scale, which the timestamp of the SYN/ACK encoded.
        assert!(report.peer_window > 65_535, "{}", report.peer_window);
        net.exchange([client, server], 200_000);
        let client = net.hosts[0].endpoint(client).expect("the connection exists").report();
        assert!(!client.fallback, "the key follows from the cookie");
    }
}

/// A network whose second host answers each SYN by a cookie.
fn flooded(protocol: &Protocol) -> Net {
    let mut net = Net::new();
    let backlog = Backlog { complete: 10, incomplete: 0 };
    net.hosts[1].listen(Listening { protocol: protocol.clone(), port: PORT, backlog }).expect("free");
    net
}

/// Opens a connection of the first host by a cookie. `change` gets the packets after the SYN/ACK.
fn opened(net: &mut Net, protocol: &Protocol, change: impl Fn(&mut Segment)) -> [ConnectionId; 2] {
    let client = net.connect(protocol, PORT);
    net.drive(0);
    net.run(2);
    for (_, packet) in &mut net.flying {
        if let Body::Tcp(segment) = &mut packet.body {
            change(segment);
        }
    }
    net.run(20);
    [client, net.hosts[1].accept(Transport::Tcp, PORT).expect("the cookie came back")]
}

#[test]
fn first_data_segment_completes_a_cookie_handshake() {
    for protocol in [tcp(), mptcp()] {
        let mut net = flooded(&protocol);
        let client = net.connect(&protocol, PORT);
        net.drive(0);
        net.run(2);
        // The third segment is lost; the following data segment acknowledges the cookie as well.
        net.flying.clear();
        net.write(0, client, 5_000);
        net.run(10);
        let server = net.hosts[1].accept(Transport::Tcp, PORT).expect("a cookie");
        assert_eq!(net.read(1, server), 5_000);
        assert!(!net.hosts[1].endpoint(server).expect("the connection exists").report().fallback);
    }
}

#[test]
fn cookies_keep_the_second_path() {
    let protocol = mptcp();
    let mut net = flooded(&protocol);
    let ends = opened(&mut net, &protocol, |_| {});
    net.exchange(ends, 200_000);
    for (host, id) in ends.into_iter().enumerate() {
        let report = net.hosts[host].endpoint(id).expect("the connection exists").report();
        let used = report.paths.iter().filter(|path| path.counters.bytes_received > 0).count();
        assert!(!report.fallback && used >= 2, "{report:#?}");
    }
}

#[test]
fn forged_key_of_a_cookie_gives_plain_tcp() {
    let protocol = mptcp();
    let forge = |segment: &mut Segment| {
        for option in &mut segment.options.mptcp.others {
            if let Control::Capable(Capable { receiver_key: Some(key), .. }) = option {
                *key ^= 1;
            }
        }
    };
    let mut net = flooded(&protocol);
    let [client, server] = opened(&mut net, &protocol, forge);
    net.write(0, client, 5_000);
    net.run(30);
    assert_eq!(net.read(1, server), 5_000);
    let core = net.hosts[1].core(server).expect("the connection exists");
    assert!(matches!(core, Core::Tcp(_)), "without a key");
}

#[test]
fn hundred_listeners_serve_10_000_connections() {
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
    // All delayed acknowledgements have been sent, so no timer may run.
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
    assert_eq!(net.hosts[0].entries(), (0, CONNECTIONS), "the clients closed first and keep the TIME-WAIT");
    assert_eq!(net.hosts[1].entries(), (0, 0));
}
