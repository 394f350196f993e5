//! Connections, listeners and addresses of a host without attackers.

use super::*;
use anabranch_wire::icmp::{Message, Unreachable};
use anabranch_wire::tcp::mptcp::Control;

#[test]
fn protocols_share_hosts_and_a_port_number() {
    let mut net = Net::new();
    let protocols = [tcp(), sctp()];
    for protocol in &protocols {
        net.listen(protocol.clone(), 80);
    }
    net.listen(mptcp(), 81);
    net.listen(Protocol::Udp, 80);
    // Two connections of each protocol between the same two hosts.
    let all: Vec<_> = [(tcp(), 80), (tcp(), 80), (sctp(), 80), (sctp(), 80), (mptcp(), 81), (mptcp(), 81)]
        .into_iter()
        .map(|(protocol, port)| net.pair(&protocol, port))
        .collect();
    for ends in &all {
        net.exchange(*ends, 1_000);
    }
    let udp = net.connect(&Protocol::Udp, 80);
    net.write(0, udp, 100);
    net.run(5);
    let server = net.hosts[1].accept(Transport::Udp, 80).expect("the datagram has created a connection");
    assert_eq!(net.read(1, server), 100);
    for (at, [client, server]) in all.into_iter().enumerate() {
        let paths = net.hosts[0].endpoint(client).expect("the connection exists").report().paths.len();
        assert_eq!(paths > 1, at > 1, "{at}: {paths} paths");
        net.close(0, client);
        net.run(5);
        net.close(1, server);
    }
    net.run(20);
    for (host, id) in
        net.events.iter().enumerate().flat_map(|(host, all)| all.iter().map(move |(id, _)| (host, *id)))
    {
        assert!(net.closed(host, id) || id == udp || id == server, "{host} {id:?}");
    }
}

#[test]
fn connect_fails_without_a_free_port() {
    let mut net = Net::with(&Limits { ephemeral_ports: 50_000..=50_003, ..Limits::default() });
    net.listen(tcp(), 80);
    let first: Vec<_> = (0..4).map(|_| net.pair(&tcp(), 80)).collect();
    assert_eq!(net.hosts[0].connect(net.now, &tcp(), (&[ip(2, 1)], 80)), Err(HostError::NoPort));
    assert!(
        net.hosts[0].connect(net.now, &tcp(), (&[ip(2, 1)], 81)).is_ok(),
        "every local port is free for another destination"
    );
    for ends in first {
        net.exchange(ends, 10);
    }
    let taken = Ends {
        local: vec![Address::new(ip(1, 1), 1500)],
        local_port: 50_001,
        remote: vec![ip(2, 1)],
        remote_port: 80,
    };
    assert_eq!(net.hosts[0].connect_from(net.now, &tcp(), taken), Err(HostError::PortInUse(50_001)));
    let again = Listening { protocol: tcp(), port: 80, backlog: Backlog::default() };
    assert_eq!(net.hosts[1].listen(again), Err(HostError::PortInUse(80)));
}

/// Closes a connection from the listener's side, so that the listener's host keeps the TIME-WAIT.
fn close_at_listener(net: &mut Net, [client, server]: [ConnectionId; 2]) {
    net.close(1, server);
    net.run(5);
    net.close(0, client);
    net.run(5);
    net.hosts[0].forget(net.now, client);
    net.hosts[1].forget(net.now, server);
}

#[test]
fn same_ports_reconnect_during_time_wait() {
    for timestamps in [true, false] {
        let mut net = Net::new();
        let protocol = Protocol::Tcp(tcp::Config::default().timestamps(timestamps));
        net.listen(protocol.clone(), 80);
        let ends = || Ends {
            local: vec![Address::new(ip(1, 1), 1500)],
            local_port: 40_000,
            remote: vec![ip(2, 1)],
            remote_port: 80,
        };
        for _ in 0..3 {
            let client = net.hosts[0].connect_from(net.now, &protocol, ends()).expect("free again");
            net.drive(0);
            net.run(10);
            let server = net.hosts[1].accept(Transport::Tcp, 80).expect("RFC 6191");
            net.exchange([client, server], 5_000);
            close_at_listener(&mut net, [client, server]);
            assert_eq!(net.hosts[1].entries(), (0, 1), "only the TIME-WAIT remains");
            assert_eq!(net.hosts[0].entries(), (0, 0));
        }
        net.pass(Duration::from_secs(61));
        assert_eq!(net.hosts[1].entries(), (0, 0));
    }
}

#[test]
fn closed_connection_stays_readable_until_forgotten() {
    let mut net = Net::new();
    net.listen(tcp(), 80);
    let [client, server] = net.pair(&tcp(), 80);
    net.write(0, client, 100);
    net.close(0, client);
    net.run(5);
    net.close(1, server);
    net.run(5);
    assert!(net.closed(0, client) && net.closed(1, server));
    assert_eq!(net.read(1, server), 100);
    net.hosts[1].forget(net.now, server);
    assert!(net.hosts[1].endpoint(server).is_none());
    let [_, another] = net.pair(&tcp(), 80);
    assert!(
        another != server && net.hosts[1].endpoint(server).is_none(),
        "an identifier is never used again"
    );
}

#[test]
fn token_identifies_one_connection() {
    let token =
        |id, host: &Host| host.connections.get(id).and_then(|slot| slot.registered.token).expect("a token");
    let mut net = Net::new();
    net.listen(mptcp(), 80);
    let [client, server] = net.pair(&mptcp(), 80);
    let tokens = [token(client, &net.hosts[0]), token(server, &net.hosts[1])];
    let port = net.hosts[0].endpoint(client).expect("the connection exists").report().paths[0].local.port();

    // The host opens the same connection again; both tokens that it can derive are in use.
    let other = ConnectionId { slot: 99, generation: core::num::NonZeroU32::MIN };
    let mut net = Net::new();
    for (host, token) in net.hosts.iter_mut().zip(tokens) {
        assert!(host.names.add_token(token, other));
    }
    net.listen(mptcp(), 80);
    let client = net.connect(&mptcp(), 80);
    let report = net.hosts[0].endpoint(client).expect("the connection exists").report();
    assert_ne!(report.paths[0].local.port(), port, "with another port the client derives another key");
    assert_ne!(token(client, &net.hosts[0]), tokens[0]);
    net.hosts[0].forget(net.now, client);
    net.drive(0);
    net.flying.clear();

    let mut net = Net::new();
    assert!(net.hosts[1].names.add_token(tokens[1], other));
    net.listen(mptcp(), 80);
    let client = net.connect(&mptcp(), 80);
    net.drive(0);
    net.run(20);
    assert_eq!(net.hosts[1].accept(Transport::Tcp, 80), None, "the SYN whose token is in use gets no answer");
    assert_eq!(net.hosts[1].entries().0, 0);
    net.pass(Duration::from_millis(1_500));
    let server = net.hosts[1].accept(Transport::Tcp, 80).expect("the retransmitted SYN is answered");
    assert_ne!(token(server, &net.hosts[1]), tokens[1]);
    net.exchange([client, server], 1_000);
}

#[test]
fn answers_to_unknown_ports_are_rate_limited() {
    let mut net = Net::with(&Limits { answers_per_second: 10, ..Limits::default() });
    for protocol in [tcp(), mptcp(), sctp()] {
        let id = net.connect(&protocol, 9);
        net.drive(0);
        net.run(10);
        assert!(net.closed(0, id), "{protocol:?} is refused");
    }
    let id = net.connect(&Protocol::Udp, 9);
    net.write(0, id, 10);
    net.run(5);
    let own = &net.own[1];
    let Body::Icmp(message) = &own[3].body else { panic!("{own:?}") };
    assert!(matches!(**message, Message::Unreachable { what: Unreachable::Port, .. }));
    assert!(matches!(&own[2].body, Body::Sctp(_)));
    for _ in 0..100 {
        net.write(0, id, 10);
    }
    net.run(2);
    assert_eq!(net.own[1].len(), 10, "at most 10 answers a second");
    net.run(1_000);
    net.write(0, id, 10);
    net.run(2);
    assert_eq!(net.own[1].len(), 11);
}

#[test]
fn icmp_error_finds_the_quoted_connection() {
    let mut net = Net::new();
    net.listen(tcp(), 80);
    net.listen(sctp(), 80);
    let all = [net.pair(&tcp(), 80), net.pair(&sctp(), 80), net.pair(&tcp(), 80)];
    for [client, _] in all {
        net.write(0, client, 10);
        let packet = net.flying.pop_front().expect("a packet").1;
        let quoted = anabranch_wire::icmp::Quote::of(&packet).parse().expect("a quote");
        assert_eq!(net.hosts[0].quoted_connection(&quoted), Some(client));
        assert_eq!(net.hosts[1].quoted_connection(&quoted), None);
    }
}

#[test]
fn echo_requests_are_answered() {
    let mut net = Net::new();
    let echo = anabranch_wire::icmp::Echo { identifier: 1, sequence: 2, data: vec![3; 56] };
    let (source, destination) = (ip(1, 1), ip(2, 2));
    let body = Body::Icmp(Box::new(Message::EchoRequest(echo.clone())));
    net.deliver(1, Packet { source, destination, ecn: anabranch_wire::Ecn::NotEct, body });
    let answer = net.own[1].pop().expect("an answer");
    assert_eq!((answer.source, answer.destination), (destination, source));
    assert_eq!(answer.body, Body::Icmp(Box::new(Message::EchoReply(echo))));
}

#[test]
fn listener_survives_vanished_clients() {
    let mut net = Net::new();
    for (protocol, port) in [(tcp(), 80), (mptcp(), 81)] {
        net.listen(protocol.clone(), port);
        let client = net.connect(&protocol, port);
        net.drive(0);
        // The client disappears after its SYN has arrived.
        let syn = net.flying.pop_front().expect("a SYN").1;
        net.deliver(1, syn);
        net.hosts[0].forget(net.now, client);
        net.drive(0);
        assert_eq!(net.hosts[1].entries().0, 1);
        net.run(20);
        assert_eq!(net.hosts[1].entries().0, 0, "an RST has answered the SYN/ACK");
        let ends = net.pair(&protocol, port);
        net.exchange(ends, 1_000);
        net.hosts[1].forget(net.now, ends[1]);
        net.drive(1);
        net.run(20);
    }
}

#[test]
fn stopped_listener_aborts_waiting_connections() {
    let mut net = Net::new();
    net.listen(tcp(), 80);
    let waiting = net.connect(&tcp(), 80);
    net.drive(0);
    net.run(10);
    net.hosts[1].stop_listening(net.now, Transport::Tcp, 80);
    net.drive(1);
    net.run(10);
    assert!(net.closed(0, waiting));
    assert_eq!(net.hosts[1].entries(), (0, 0));
}

#[test]
fn full_accept_queue_delays_clients() {
    let mut net = Net::new();
    let backlog = Backlog { complete: 2, incomplete: 8 };
    net.hosts[1].listen(Listening { protocol: tcp(), port: 80, backlog }).expect("free");
    let clients: Vec<_> = (0..3)
        .map(|_| {
            let id = net.connect(&tcp(), 80);
            net.drive(0);
            net.run(10);
            id
        })
        .collect();
    let up = |net: &Net, id| net.events[0].contains(&(id, Event::Connected));
    assert!(up(&net, clients[0]) && up(&net, clients[1]) && !up(&net, clients[2]));
    assert!(net.hosts[1].accept(Transport::Tcp, 80).is_some());
    net.pass(Duration::from_millis(1_100));
    assert!(up(&net, clients[2]), "the client's retransmitted SYN was accepted");
}

#[test]
fn address_changes_reach_the_connection() {
    let mut net = Net::new();
    net.listen(mptcp(), 80);
    let [client, server] = net.pair(&mptcp(), 80);
    net.exchange([client, server], 1_000);
    net.hosts[0].remove_address(net.now, ip(1, 2));
    net.drive(0);
    net.run(20);
    let usable = |net: &Net| {
        let report = net.hosts[0].endpoint(client).expect("the connection exists").report();
        report.paths.iter().filter(|path| path.usable).map(|path| path.local.ip()).collect::<Vec<_>>()
    };
    assert!(!usable(&net).contains(&ip(1, 2)) && !usable(&net).is_empty());
    net.exchange([client, server], 1_000);
    net.hosts[0].add_address(net.now, Address::new(ip(1, 2), 1500));
    net.drive(0);
    net.run(50);
    assert!(usable(&net).contains(&ip(1, 2)));
    net.exchange([client, server], 1_000);
}

#[test]
fn join_is_matched_only_by_its_token() {
    let mut net = Net::new();
    net.listen(mptcp(), 80);
    net.pair(&mptcp(), 80);
    let [_, server] = net.pair(&mptcp(), 80);
    let token = net.hosts[1].connections.get(server).and_then(|slot| slot.registered.token).expect("a token");
    let join = |source_port, token| {
        let mut segment = anabranch_wire::tcp::Segment {
            source_port,
            destination_port: 80,
            flags: Flags::SYN,
            ..Default::default()
        };
        let join = anabranch_wire::tcp::mptcp::Join::Syn { backup: false, address_id: 1, token, nonce: 5 };
        segment.options.mptcp.others.push(Control::Join(join));
        Packet {
            source: ip(1, 2),
            destination: ip(2, 1),
            ecn: anabranch_wire::Ecn::NotEct,
            body: Body::Tcp(segment),
        }
    };
    net.flying.clear();
    net.deliver(1, join(7, token));
    let Some((_, Packet { body: Body::Tcp(answer), .. })) = net.flying.pop_front() else {
        panic!("an answer")
    };
    assert_eq!(answer.flags, Flags::SYN | Flags::ACK);
    net.deliver(1, join(8, token ^ 1));
    let Some((_, Packet { body: Body::Tcp(answer), .. })) = net.flying.pop_front() else {
        panic!("an answer")
    };
    assert_eq!(answer.flags, Flags::RST | Flags::ACK);
}
