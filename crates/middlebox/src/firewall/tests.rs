use super::*;
use crate::fixture::{CLIENT, ROUTER, SERVER, at, back, data, join, out, pass, segment_of, tcp};
use crate::{Middlebox, Outcome};
use anabranch_wire::icmp::Echo;
use anabranch_wire::udp;

const SETTINGS: Settings = Settings {
    tcp_timeout: Duration::from_millis(1_000),
    udp_timeout: Duration::from_millis(100),
    answer: Answer::Drop,
    limit: 2,
};

fn firewall(settings: Settings) -> Middlebox<u32> {
    Middlebox::new(&crate::Settings::Firewall(settings))
}

/// A packet in the opposite direction to `packet`, with its addresses and ports exchanged.
fn answer(packet: &Packet) -> Packet {
    let mut answer = packet.clone();
    (answer.source, answer.destination) = (packet.destination, packet.source);
    match &mut answer.body {
        Body::Tcp(segment) => core::mem::swap(&mut segment.source_port, &mut segment.destination_port),
        Body::Udp(datagram) => core::mem::swap(&mut datagram.source_port, &mut datagram.destination_port),
        other => panic!("{other:?}"),
    }
    answer
}

fn datagram(source_port: u16) -> Packet {
    let body = Body::Udp(udp::Datagram { source_port, destination_port: 53, ..udp::Datagram::default() });
    Packet { body, ..data(0, 0) }
}

/// True if a packet passes unchanged.
fn passes(firewall: &mut Middlebox<u32>, ms: u64, transit: Transit<u32>) -> bool {
    let expected = transit.packet.clone();
    let outcome = pass(firewall, at(ms), transit);
    let sent: Vec<_> = outcome.sent.iter().map(|(packet, _)| packet).collect();
    let is_dropped = !outcome.dropped.is_empty();
    assert!(is_dropped || (sent == [&expected] && outcome.changed == 0), "{outcome:?}");
    !is_dropped
}

#[test]
fn syn_from_inside_lets_answers_pass() {
    let mut firewall = firewall(SETTINGS);
    assert!(!passes(&mut firewall, 0, back(answer(&data(0, 10)), 1)), "no state");
    assert!(passes(&mut firewall, 1, out(data(0, 10), 1)));
    assert!(!passes(&mut firewall, 2, back(answer(&data(0, 10)), 1)), "data makes no state");
    assert!(passes(&mut firewall, 3, out(join(), 1)));
    assert!(passes(&mut firewall, 4, back(answer(&data(0, 10)), 1)));
    let mut other = answer(&data(0, 10));
    other.source = IpAddr::from([10, 0, 0, 30]);
    assert!(!passes(&mut firewall, 5, back(other, 1)), "another host");
}

#[test]
fn syn_from_outside_is_refused() {
    let mut firewall = firewall(SETTINGS);
    assert!(!passes(&mut firewall, 0, back(answer(&join()), 1)));
    let reply = tcp(Segment { flags: Flags::SYN | Flags::ACK, ..Segment::default() });
    assert!(passes(&mut firewall, 1, out(reply, 1)));
    assert!(!passes(&mut firewall, 2, back(answer(&join()), 1)), "a SYN with ACK makes no state");
}

#[test]
fn packets_of_both_directions_renew_state() {
    let mut firewall = firewall(SETTINGS);
    passes(&mut firewall, 0, out(join(), 1));
    assert!(passes(&mut firewall, 1_000, back(answer(&data(0, 10)), 1)));
    assert!(passes(&mut firewall, 2_000, out(data(0, 10), 1)));
    assert!(passes(&mut firewall, 3_000, back(answer(&data(0, 10)), 1)));
    assert!(!passes(&mut firewall, 4_001, back(answer(&data(0, 10)), 1)), "expired");
    passes(&mut firewall, 5_000, out(datagram(7), 1));
    assert!(passes(&mut firewall, 5_100, back(answer(&datagram(7)), 1)));
    assert!(!passes(&mut firewall, 5_201, back(answer(&datagram(7)), 1)), "datagrams have a shorter timeout");
}

#[test]
fn longest_idle_state_leaves_at_the_limit() {
    let mut firewall = firewall(SETTINGS);
    for (ms, port) in [(0, 1), (1, 2), (2, 1), (3, 3)] {
        passes(&mut firewall, ms, out(datagram(port), 1));
    }
    let known: Vec<_> =
        (1..4).map(|port| passes(&mut firewall, 4, back(answer(&datagram(port)), 1))).collect();
    assert_eq!(known, [true, false, true]);
}

#[test]
fn errors_about_known_flows_pass() {
    let mut firewall = firewall(SETTINGS);
    let error = |about: &Packet| Packet {
        source: SERVER,
        destination: CLIENT,
        ecn: Ecn::NotEct,
        body: Body::Icmp(Box::new(Message::PacketTooBig { mtu: 1_400, quote: Quote::of(about) })),
    };
    assert!(!passes(&mut firewall, 0, back(error(&data(0, 10)), 1)));
    passes(&mut firewall, 1, out(join(), 1));
    assert!(passes(&mut firewall, 2, back(error(&data(0, 10)), 1)));
}

#[test]
fn echo_reply_passes_after_its_request() {
    let mut firewall = firewall(SETTINGS);
    let echo = |reply: bool, identifier: u16| {
        let echo = Echo { identifier, ..Echo::default() };
        let message = if reply { Message::EchoReply(echo) } else { Message::EchoRequest(echo) };
        let (source, destination) = if reply { (SERVER, CLIENT) } else { (CLIENT, SERVER) };
        Packet { source, destination, ecn: Ecn::NotEct, body: Body::Icmp(Box::new(message)) }
    };
    assert!(!passes(&mut firewall, 0, back(echo(true, 5), 1)));
    passes(&mut firewall, 1, out(echo(false, 5), 1));
    assert!(passes(&mut firewall, 2, back(echo(true, 5), 1)));
    assert!(!passes(&mut firewall, 2, back(echo(true, 6), 1)));
}

/// The answer to a refused SYN with sequence number 0, and its destination.
fn refusal(answer_with: Answer) -> Option<(Packet, Onward<u32>)> {
    let mut firewall = firewall(Settings { answer: answer_with, ..SETTINGS });
    let outcome = pass(&mut firewall, at(0), back(answer(&join()), 9));
    assert_eq!(outcome.dropped.len(), 1);
    let Outcome { mut sent, .. } = outcome;
    assert!(sent.len() <= 1);
    sent.pop()
}

#[test]
fn refused_syn_is_answered_as_set() {
    assert_eq!(refusal(Answer::Drop), None);
    let (packet, onward) = refusal(Answer::Reset).expect("a reset");
    let segment = segment_of(&packet);
    assert_eq!((packet.source, packet.destination, onward), (CLIENT, SERVER, Onward::Back(9)));
    assert_eq!((segment.source_port, segment.destination_port), (1000, 80));
    // The acknowledgement covers the SYN.
    assert_eq!((segment.flags, segment.ack), (Flags::RST | Flags::ACK, Serial(1)));
    let (packet, onward) = refusal(Answer::Icmp).expect("an error");
    assert_eq!((packet.source, packet.destination, onward), (ROUTER, SERVER, Onward::Back(9)));
    let Body::Icmp(message) = &packet.body else { panic!("{packet:?}") };
    let quote = Quote::of(&answer(&join()));
    assert_eq!(**message, Message::Unreachable { what: Unreachable::Prohibited, quote });
}

#[test]
fn resets_and_errors_are_not_answered() {
    let reset = answer(&tcp(Segment { flags: Flags::RST, ..Segment::default() }));
    let quote = Quote::of(&data(0, 10));
    let error = Message::Unreachable { what: Unreachable::Port, quote };
    let error =
        Packet { source: SERVER, destination: CLIENT, ecn: Ecn::NotEct, body: Body::Icmp(Box::new(error)) };
    for (with, packet) in
        [(Answer::Reset, reset), (Answer::Icmp, error), (Answer::Reset, answer(&datagram(1)))]
    {
        let mut firewall = firewall(Settings { answer: with, ..SETTINGS });
        let outcome = pass(&mut firewall, at(0), back(packet, 1));
        assert_eq!((outcome.sent.len(), outcome.dropped.len()), (0, 1), "{with:?}");
    }
}

#[test]
fn packets_within_one_side_pass() {
    let mut firewall = firewall(SETTINGS);
    assert!(passes(&mut firewall, 0, Transit { crosses: false, ..back(answer(&data(0, 10)), 1) }));
}
