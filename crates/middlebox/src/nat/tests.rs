use super::*;
use crate::fixture::{CLIENT, ROUTER, SERVER, at, back, data, join, out, pass, segment_of};
use crate::{Middlebox, Outcome};
use anabranch_wire::icmp::{Message, Quote};
use anabranch_wire::sctp;
use anabranch_wire::{Ecn, udp};
use core::net::Ipv4Addr;

fn nat(timeout_ms: u64) -> Middlebox<u32> {
    Middlebox::new(&crate::Settings::Nat(Settings { timeout: Duration::from_millis(timeout_ms) }))
}

/// The only packet of an outcome, and its destination.
fn one(outcome: &Outcome<u32>) -> (&Packet, Onward<u32>) {
    let [(packet, onward)] = &outcome.sent[..] else { panic!("{outcome:?}") };
    (packet, *onward)
}

/// The server's answer to a packet that has left the translator.
fn answer(packet: &Packet) -> Packet {
    let mut answer = packet.clone();
    (answer.source, answer.destination) = (packet.destination, packet.source);
    let Body::Tcp(segment) = &mut answer.body else { panic!("{answer:?}") };
    core::mem::swap(&mut segment.source_port, &mut segment.destination_port);
    answer
}

#[test]
fn leaving_packet_is_translated_and_answered() {
    let mut nat = nat(1_000);
    let outcome = pass(&mut nat, at(0), out(data(0, 100), 7));
    let (left, onward) = one(&outcome);
    assert_eq!((left.source, left.destination, onward), (ROUTER, SERVER, Onward::As(7)));
    assert_eq!((segment_of(left).source_port, segment_of(left).destination_port), (1000, 80));
    let behind = nat.inner_address(protocol::TCP, (ROUTER, 1000).into());
    assert_eq!(
        (behind, nat.inner_address(protocol::UDP, (ROUTER, 1000).into())),
        (Some((CLIENT, 1000).into()), None)
    );
    let outcome = pass(&mut nat, at(10), back(answer(left), 9));
    let (returned, onward) = one(&outcome);
    assert_eq!((returned.source, returned.destination, onward), (SERVER, CLIENT, Onward::Back(7)));
    assert_eq!(segment_of(returned).destination_port, 1000);
    // The translator recomputes the checksum over the mapping's pseudo-header; all other options are unchanged.
    assert_eq!(segment_of(returned).options, segment_of(&answer(left)).options);
}

#[test]
fn two_hosts_with_equal_port_get_two_ports() {
    let mut nat = nat(1_000);
    let mut second = data(0, 100);
    second.source = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9));
    let first = pass(&mut nat, at(0), out(data(0, 100), 1));
    let second = pass(&mut nat, at(0), out(second, 2));
    assert_eq!(segment_of(one(&first).0).source_port, 1000);
    assert_eq!(segment_of(one(&second).0).source_port, FIRST_PORT);
    let outcome = pass(&mut nat, at(1), back(answer(one(&second).0), 0));
    assert_eq!(one(&outcome).1, Onward::Back(2));
}

#[test]
fn unsolicited_packets_are_dropped() {
    let mut nat = nat(1_000);
    let mut stranger = answer(&data(0, 10));
    assert_eq!(pass(&mut nat, at(0), back(stranger.clone(), 0)).dropped.len(), 1, "to an inside address");
    let outcome = pass(&mut nat, at(0), out(data(0, 100), 7));
    stranger = answer(one(&outcome).0);
    stranger.source = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 30));
    assert_eq!(
        pass(&mut nat, at(1), back(stranger, 0)).dropped.len(),
        1,
        "from a host to which nothing was sent"
    );
    let mut elsewhere = answer(one(&outcome).0);
    let Body::Tcp(segment) = &mut elsewhere.body else { panic!("{elsewhere:?}") };
    segment.destination_port = 4_000;
    assert_eq!(pass(&mut nat, at(1), back(elsewhere, 0)).dropped.len(), 1, "to an unused port");
}

#[test]
fn mapping_expires_without_leaving_packets() {
    let mut nat = nat(100);
    let outcome = pass(&mut nat, at(0), out(join(), 7));
    let reply = answer(one(&outcome).0);
    assert_eq!(pass(&mut nat, at(100), back(reply.clone(), 0)).sent.len(), 1);
    assert_eq!(
        pass(&mut nat, at(101), back(reply.clone(), 0)).dropped.len(),
        1,
        "packets from outside do not renew the mapping"
    );
    pass(&mut nat, at(200), out(join(), 8));
    assert_eq!(one(&pass(&mut nat, at(201), back(reply, 0))).1, Onward::Back(8));
}

#[test]
fn errors_are_translated_with_their_quotes() {
    let mut nat = nat(1_000);
    let outcome = pass(&mut nat, at(0), out(data(0, 100), 7));
    let left = one(&outcome).0.clone();
    let error = |about: &Packet, to| Packet {
        source: SERVER,
        destination: to,
        ecn: Ecn::NotEct,
        body: Body::Icmp(Box::new(Message::PacketTooBig { mtu: 1_400, quote: Quote::of(about) })),
    };
    let outcome = pass(&mut nat, at(1), back(error(&left, ROUTER), 0));
    let (packet, onward) = one(&outcome);
    assert_eq!((packet.destination, onward), (CLIENT, Onward::Back(7)));
    let Body::Icmp(message) = &packet.body else { panic!("{packet:?}") };
    assert_eq!(
        message.quote(),
        Some(&Quote::of(&data(0, 100))),
        "the quote contains the packet before its translation"
    );
    // The client's link cannot carry a packet that came from outside: the client reports that as an ICMP error.
    let came = answer(&data(0, 100));
    let mut inner = error(&came, SERVER);
    inner.source = CLIENT;
    let outcome = pass(&mut nat, at(2), out(inner, 3));
    let (packet, _) = one(&outcome);
    let Body::Icmp(message) = &packet.body else { panic!("{packet:?}") };
    assert_eq!((packet.source, message.quote()), (ROUTER, Some(&Quote::of(&answer(&left)))));
}

#[test]
fn plain_sctp_is_dropped() {
    let mut nat = nat(1_000);
    let body = |udp| {
        Body::Sctp(sctp::Packet {
            source_port: 5,
            destination_port: 6,
            verification_tag: 7,
            chunks: sctp::Chunks::new(),
            udp,
            may_fragment: false,
            zero_checksum: false,
        })
    };
    let bare = Packet { body: body(None), ..data(0, 0) };
    assert_eq!(pass(&mut nat, at(0), out(bare, 1)).dropped.len(), 1);
    let ports = sctp::encapsulation::Ports { source: 9899, destination: 9899 };
    let around = Packet { body: body(Some(ports)), ..data(0, 0) };
    assert_eq!(one(&pass(&mut nat, at(0), out(around, 1))).0.source, ROUTER);
    let datagram = udp::Datagram { source_port: 5, destination_port: 6, ..udp::Datagram::default() };
    assert_eq!(
        one(&pass(&mut nat, at(0), out(Packet { body: Body::Udp(datagram), ..data(0, 0) }, 1))).0.source,
        ROUTER
    );
}

#[test]
fn packets_within_one_side_are_not_translated() {
    let mut nat = nat(1_000);
    let inner = Transit { crosses: false, ..out(data(0, 10), 4) };
    let outcome = pass(&mut nat, at(0), inner);
    assert_eq!((one(&outcome).0.source, outcome.changed), (CLIENT, 0));
}
