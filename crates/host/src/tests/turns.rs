//! Drivers that drive single connections, and listeners and ports with special settings.

use super::*;
use anabranch_endpoint::drive::Collected;

/// A segment from a port of the first host to port 80 of the second.
fn segment(source_port: u16, flags: Flags) -> Packet {
    let segment =
        anabranch_wire::tcp::Segment { source_port, destination_port: 80, flags, ..Default::default() };
    Packet {
        source: ip(1, 1),
        destination: ip(2, 1),
        ecn: anabranch_wire::Ecn::NotEct,
        body: Body::Tcp(segment),
    }
}

#[test]
fn single_connection_is_driven_without_its_host() {
    let mut net = Net::new();
    net.listen(tcp(), 80);
    let now = net.now;
    let syn = segment(7, Flags::SYN);
    let [one, other] = [7, 8].map(|port| {
        let syn = segment(port, Flags::SYN);
        net.hosts[1]
            .handle_packet(now, syn, &anabranch_wire::Pattern)
            .expect("a connection accepts the packet")
    });
    assert_eq!(net.hosts[1].connection_of(&syn), Some(one));
    assert_eq!(net.hosts[1].connection_of(&segment(9, Flags::SYN)), None);
    let mut output = Collected::default();
    let host = &mut net.hosts[1];
    let news = host.connection_ref(one).expect("the connection exists").drive(now, &mut output);
    assert!(!news.concerns_host(), "the host created the connection, so nothing is new to it: {news:?}");
    let [Packet { body: Body::Tcp(answer), .. }] = output.packets.as_slice() else { panic!("{output:?}") };
    assert_eq!(
        (answer.destination_port, answer.flags),
        (7, Flags::SYN | Flags::ACK),
        "the driven connection sends only its own SYN/ACK"
    );
    let third = anabranch_wire::tcp::Segment {
        ack: answer.seq.add(1),
        seq: anabranch_wire::seq::Serial(1),
        ..answer.clone()
    };
    let third =
        anabranch_wire::tcp::Segment { source_port: 7, destination_port: 80, flags: Flags::ACK, ..third };
    let mut output = Collected::default();
    let packet = Packet { body: Body::Tcp(third), ..syn };
    let host = &mut net.hosts[1];
    let mut reference = host.connection_ref(one).expect("the connection exists");
    reference.endpoint().handle_packet(now, packet, &anabranch_wire::Pattern);
    let news = reference.drive(now, &mut output);
    assert_eq!(output.events.first(), Some(&Event::Connected), "{output:?}");
    assert!(news.concerns_host() && news.connected() && !news.closed(), "{news:?}");
    host.note(now, one, news);
    host.accept_one(one);
    assert_eq!(host.accept(Transport::Tcp, 80), None, "the accepted connection no longer waits");
    assert!(host.endpoint(other).is_some());
}

#[test]
fn forgotten_connection_releases_its_backlog_slot() {
    let mut net = Net::new();
    let backlog = Backlog { complete: 1, incomplete: 1 };
    net.hosts[1].listen(Listening { protocol: tcp(), port: 80, backlog }).expect("a free port");
    for port in 7..20 {
        let id = net.hosts[1].handle_packet(net.now, segment(port, Flags::SYN), &anabranch_wire::Pattern);
        let id = id.expect("the backlog has room, so no cookie is needed");
        net.hosts[1].forget(net.now, id);
        net.drive(1);
        assert!(net.hosts[1].endpoint(id).is_none());
    }
    net.flying.clear();
    // A connection forgotten after its handshake releases its slot in the accept queue as well.
    let client = net.connect(&tcp(), 80);
    net.drive(0);
    net.run(5);
    let up = net.events[1]
        .iter()
        .rfind(|(_, event)| *event == Event::Connected)
        .expect("the server is connected")
        .0;
    net.hosts[1].forget(net.now, up);
    net.run(5);
    assert!(net.closed(0, client));
    net.pair(&tcp(), 80);
}

#[test]
fn listener_limits_its_addresses_and_mtu() {
    let mut net = Net::new();
    let backlog = Backlog::default();
    let narrow = vec![Address::new(ip(2, 1), 1000)];
    net.hosts[1].listen_on(Listening { protocol: tcp(), port: 80, backlog }, narrow).expect("a free port");
    let [_, server] = net.pair(&tcp(), 80);
    let path = net.hosts[1].endpoint(server).expect("the connection exists").report().paths[0];
    assert_eq!(path.mss, 1000 - 40 - 12, "headers and timestamps");
    let elsewhere = net.hosts[0].connect(net.now, &tcp(), (&[ip(2, 2)], 80)).expect("a port");
    net.drive(0);
    net.run(20);
    assert!(
        !net.events[0].contains(&(elsewhere, Event::Connected)),
        "no listener is bound to the other address"
    );
}

#[test]
fn reserved_port_is_not_assigned() {
    let mut net = Net::with(&Limits { ephemeral_ports: 50_000..=50_001, ..Limits::default() });
    net.listen(tcp(), 80);
    net.hosts[0].reserve(Transport::Tcp, 50_000);
    net.pair(&tcp(), 80);
    assert_eq!(net.hosts[0].connect(net.now, &tcp(), (&[ip(2, 1)], 80)), Err(HostError::NoPort));
    let local = vec![Address::new(ip(1, 1), 1500)];
    let ends = Ends { local, local_port: 50_000, remote: vec![ip(2, 1)], remote_port: 80 };
    assert!(net.hosts[0].connect_from(net.now, &tcp(), ends).is_ok());
}

#[test]
fn additional_paths_use_the_following_ports() {
    let mut net = Net::new();
    let Protocol::Mptcp(config) = mptcp() else { unreachable!("Multipath TCP") };
    let path_manager = path_manager::parse("ndiffports:3").expect("listed");
    let protocol = Protocol::Mptcp(config.path_manager(path_manager));
    net.listen(protocol.clone(), 80);
    let local = vec![Address::new(ip(1, 1), 1500)];
    let ends = Ends { local, local_port: 65_534, remote: vec![ip(2, 1)], remote_port: 80 };
    net.hosts[0].reserve(Transport::Tcp, 65_535);
    let client = net.hosts[0].connect_from(net.now, &protocol, ends).expect("a free port");
    net.drive(0);
    net.run(20);
    let server = net.hosts[1].accept(Transport::Tcp, 80).expect("a connection");
    net.exchange([client, server], 1_000);
    let report = net.hosts[0].endpoint(client).expect("the connection exists").report();
    let ports: Vec<_> = report.paths.iter().map(|path| path.local.port()).collect();
    assert_eq!(
        ports,
        [65_534, 49_152, 49_153],
        "the next port is reserved, and the ports wrap around to the first"
    );
}

#[test]
fn restored_path_uses_another_port() {
    let mut net = Net::new();
    net.listen(mptcp(), 80);
    let local = [1, 2].map(|interface| Address::new(ip(1, interface), 1500)).to_vec();
    let ends = Ends { local, local_port: 50_000, remote: vec![ip(2, 1)], remote_port: 80 };
    let client = net.hosts[0].connect_from(net.now, &mptcp(), ends).expect("a port");
    net.drive(0);
    net.run(50);
    let ports = |net: &Net| -> Vec<u16> {
        let report = net.hosts[0].endpoint(client).expect("the connection exists").report();
        let usable = report.paths.iter().filter(|path| path.usable && path.local.ip() == ip(1, 2));
        usable.map(|path| path.local.port()).collect()
    };
    let before = ports(&net);
    assert!(!before.is_empty());
    net.hosts[0].remove_address(net.now, ip(1, 2));
    net.drive(0);
    net.run(50);
    assert_eq!(ports(&net), [], "the paths of the removed address are gone");
    net.hosts[0].add_address(net.now, Address::new(ip(1, 2), 1500));
    net.drive(0);
    net.run(50);
    let after = ports(&net);
    assert_eq!(after.len(), before.len());
    assert!(after.iter().all(|port| !before.contains(port)), "{before:?}, then {after:?}");
}

#[test]
fn connection_avoids_lost_addresses_of_its_host() {
    let mut net = Net::new();
    net.listen(mptcp(), 80);
    net.hosts[0].remove_address(net.now, ip(1, 2));
    let local = [1, 2].map(|interface| Address::new(ip(1, interface), 1500)).to_vec();
    let ends = Ends { local, local_port: 0, remote: vec![ip(2, 1)], remote_port: 80 };
    let client = net.hosts[0].connect_from(net.now, &mptcp(), ends).expect("a port");
    net.drive(0);
    net.run(20);
    let server = net.hosts[1].accept(Transport::Tcp, 80).expect("a connection");
    net.exchange([client, server], 1_000);
    let from_lost = |net: &Net| {
        let report = net.hosts[0].endpoint(client).expect("the connection exists").report();
        report.paths.iter().any(|path| path.local.ip() == ip(1, 2) && path.usable)
    };
    assert!(!from_lost(&net));
    net.hosts[0].add_address(net.now, Address::new(ip(1, 2), 1500));
    net.drive(0);
    net.run(50);
    assert!(from_lost(&net), "the address that came back is used");
}
