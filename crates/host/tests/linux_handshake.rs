//! Compares our handshakes with those of Linux: every segment by which a peer recognises Multipath TCP must have the
//! same options in the same order, with the same lengths, versions and flags.

use anabranch_base::time::Time;
use anabranch_endpoint::drive::Collected;
use anabranch_endpoint::{Address, Endpoint, Ends, Secrets, Write};
use anabranch_multipath::congestion::Choice;
use anabranch_multipath::{path_manager, scheduler};
use anabranch_settings::policy::Penalisation;
use anabranch_tcp::{mptcp, tcp};
use anabranch_wire::{Body, Packet};
use core::net::{IpAddr, Ipv4Addr};

/// Packets that Linux sent, in hexadecimal.
const LINUX_PACKETS: &str = include_str!("../../../vectors/wire/linux.hex");
const NOP_KIND: u8 = 1;
const MPTCP_KIND: u8 = 30;
const JOIN_SUBTYPE: u8 = 1;

/// Kind and length of an option, and for Multipath TCP the two bytes with subtype, version and flags. In `MP_JOIN` the
/// second of them is an address identifier and is replaced by 0.
type OptionLayout = (u8, usize, [u8; 2]);

/// Flags (less PSH) and options of an IPv4 packet with TCP.
fn flags_and_options(packet: &[u8]) -> (u8, Vec<OptionLayout>) {
    let header = usize::from(packet[32] >> 4) * 4;
    let mut options = &packet[40..20 + header];
    let mut shapes = Vec::new();
    while let Some(&kind) = options.first() {
        if kind <= NOP_KIND {
            options = &options[1..];
            continue;
        }
        let len = usize::from(options[1]);
        let mptcp = match (kind, options.get(2).map(|byte| byte >> 4)) {
            (MPTCP_KIND, Some(JOIN_SUBTYPE)) => [options[2], 0],
            (MPTCP_KIND, _) => [options[2], options[3]],
            _ => [0; 2],
        };
        shapes.push((kind, len, mptcp));
        options = &options[len..];
    }
    (packet[33] & !0x08, shapes)
}

/// Flags and option layout of a packet that Linux sent.
fn linux(name: &str) -> (u8, Vec<OptionLayout>) {
    let line =
        LINUX_PACKETS.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).expect("a vector");
    let byte = |at: usize| u8::from_str_radix(&line[at..at + 2], 16).expect("hexadecimal digits");
    flags_and_options(&(0..line.len()).step_by(2).map(byte).collect::<Vec<_>>())
}

/// Flags and option layout of a packet of this project.
fn ours(packet: &Packet) -> (u8, Vec<OptionLayout>) {
    let mut bytes = Vec::new();
    packet.emit(&mut bytes);
    flags_and_options(&bytes)
}

fn ip(end: u8, path: u8) -> IpAddr {
    Ipv4Addr::new(10, path, 0, end).into()
}

/// All packets of a connection over two paths, in order. The client writes before the third segment of the handshake
/// if `at_once`, otherwise after it.
fn connection(at_once: bool) -> Vec<Packet> {
    let config = mptcp::Config::default()
        .tcp(tcp::Config::default().congestion(Choice::find("lia").expect("listed")))
        .scheduler(scheduler::find("lowest-rtt").expect("listed"))
        .path_manager(path_manager::parse("disjoint").expect("listed"))
        .opportunistic_retransmission(false)
        .penalisation(Penalisation::Never)
        .mechanisms_in_start_up(true)
        .checksum(false);
    let addresses = |end| [1, 2].map(|path| Address::new(ip(end, path), 1500)).to_vec();
    let (local, remote) = (addresses(1), vec![ip(2, 1)]);
    let client = Ends { local, local_port: 40_000, remote, remote_port: 5001 };
    let client = mptcp::Connection::connecting(config.clone(), &client, Secrets::new([1; 32]));
    let server = Ends::listening(addresses(2), 5001);
    let server = mptcp::Connection::listening(config, &server, Secrets::new([2; 32]));
    let mut ends = [client, server];
    ends[0].connect(Time::ZERO);
    let mut packets = Vec::new();
    for round in 0..10 {
        for from in [0, 1] {
            let mut sent = Vec::new();
            if round == 1 && from == 0 {
                sent.extend((!at_once).then(|| ends[0].poll_transmit(Time::ZERO)).flatten());
                ends[0].write(Time::ZERO, Write::bytes(15));
            }
            sent.extend(Collected::from(&mut ends[from], Time::ZERO).packets);
            for packet in sent {
                packets.push(packet.clone());
                ends[1 - from].handle_packet(Time::ZERO, packet, &anabranch_wire::Pattern);
            }
        }
    }
    packets
}

#[test]
fn handshakes_carry_the_options_of_linux() {
    // If the client already has data to send, its first data segment is the third segment of the handshake (RFC 8684
    // §3.1).
    for at_once in [false, true] {
        let packets = connection(at_once);
        let mut shapes = packets.iter().map(ours);
        let third = [&["tcp4-A-ts-capable20", "tcp4-A-ts-capable22-data"][..], &["tcp4-A-ts-capable22-data"]];
        let opening = ["tcp4-S-mss-sackok-ts-ws-capable4", "tcp4-SA-mss-sackok-ts-ws-capable12"];
        let joining =
            ["tcp4-S-mss-sackok-ts-ws-join12", "tcp4-SA-mss-sackok-ts-ws-join16", "tcp4-A-ts-join24"];
        for name in opening.iter().chain(third[usize::from(at_once)]).chain(&joining) {
            let wanted = linux(name);
            assert!(shapes.any(|shape| shape == wanted), "{name} {wanted:x?}: {packets:#?}");
        }
    }
}

#[test]
fn data_waits_until_the_join_is_confirmed() {
    // RFC 8684 §3.2: the fourth segment, from the listening side, comes before data on a joined subflow.
    let packets = connection(false);
    let on_second = |packet: &&Packet| packet.source == ip(1, 2) || packet.source == ip(2, 2);
    let lengths: Vec<_> =
        packets.iter().filter(on_second).take(4).map(|packet| packet.body.clone()).collect();
    assert_eq!(lengths.len(), 4);
    assert!(lengths.iter().all(|body| matches!(body, Body::Tcp(segment) if segment.payload.is_empty())));
}
