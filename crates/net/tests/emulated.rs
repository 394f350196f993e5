//! Packets of the simulator, sent again through the emulator's network: every packet arrives at the same
//! time, with the same marks, or is dropped for the same reason.
#![cfg(target_os = "linux")]

use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};
use anabranch_base::units::Rate;
use anabranch_net::emulator::{Arrived, EmulatedNetwork};
use anabranch_netem::queue::{self, QueueLimit};
use anabranch_netem::{Change, Interface, IpVersion, Reorder};
use anabranch_scenario::Scenario;
use anabranch_scenario::model::{Directions, Event};
use anabranch_scenario::result::{LinkResult, MiddleboxResult};
use anabranch_wire::{Body, Checksum, Ecn, Packet, Payload, udp};
use core::net::IpAddr;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::path::Path;

/// A packet at an end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    at: Time,
    interface: Interface,
    bytes: Vec<u8>,
}

/// Results of the links and of the middleboxes.
type Nodes = (Vec<LinkResult>, Vec<MiddleboxResult>);

/// The packets of a capture: its enhanced packet blocks.
fn packets(file: &Path) -> Vec<Seen> {
    let content = std::fs::read(file).expect("the capture was written");
    let word = |at: usize| u32::from_le_bytes(content[at..at + 4].try_into().expect("four bytes"));
    let (mut at, mut seen) = (0, Vec::new());
    while at < content.len() {
        if word(at) == 6 {
            let time = Time::from_nanos(u64::from(word(at + 12)) << 32 | u64::from(word(at + 16)));
            let bytes = content[at + 28..at + 28 + word(at + 20) as usize].to_vec();
            seen.push(Seen { at: time, interface: Interface(word(at + 8)), bytes });
        }
        at += word(at + 4) as usize;
    }
    seen
}

/// Runs a scenario in the simulator; returns packets sent by hosts, packets that arrived there, and the
/// results of the network.
fn simulated(name: &str, scenario: &Scenario) -> (Vec<Seen>, Vec<Seen>, Nodes) {
    let pcap = std::env::temp_dir().join(format!("anabranch-{name}-{}.pcapng", std::process::id()));
    let options =
        anabranch_sim::RunOptions { pcap: Some(pcap.clone().into()), ..anabranch_sim::RunOptions::default() };
    let result = anabranch_sim::run(scenario, &options).expect("the run succeeds");
    let all = packets(&pcap);
    std::fs::remove_file(&pcap).expect("the capture exists");
    let mut network = EmulatedNetwork::new(scenario, scenario.seed).expect("the same network");
    let network = network.network();
    // The interfaces that follow those of the link ends are for dropped packets.
    let at_host = |seen: &Seen| {
        seen.interface.index() < 2 * scenario.links.len()
            && network.nodes()[network.owner(seen.interface)].host
    };
    let own = |seen: &Seen| {
        let packet = anabranch_net::emulator::RawPacket::new(seen.bytes.clone()).expect("a packet");
        Interface::of_address(packet.source()) == Some(seen.interface)
    };
    let (sent, arrived) = all.into_iter().filter(at_host).partition(own);
    (sent, arrived, (result.links, result.middleboxes))
}

/// Sends the same packets at the same times through the emulated network.
fn emulated(scenario: &Scenario, sent: &[Seen]) -> (Vec<Seen>, Nodes) {
    let mut network = EmulatedNetwork::new(scenario, scenario.seed).expect("a network");
    let mut arrived = Vec::new();
    let mut deliver = |Arrived { at, to, packet }| {
        arrived.push(Seen { at, interface: to, bytes: packet.into_bytes() });
    };
    for Seen { at, interface, bytes } in sent {
        network.advance(*at, &mut deliver);
        network.send(*at, *interface, bytes.clone());
    }
    let end = Time::ZERO + scenario.duration;
    // Events exactly at the end do not belong to the run.
    network.advance(Time::from_nanos(end.as_nanos() - 1), &mut deliver);
    assert_eq!(network.unreachable(), 0);
    (arrived, (network.links(end, scenario), network.middleboxes()))
}

/// Like [`emulated`], with every second node on another machine: two networks, whose machines have the same time and a
/// network without delay between them.
fn emulated_on_two_machines(scenario: &Scenario, sent: &[Seen]) -> Vec<Seen> {
    let new = || EmulatedNetwork::new(scenario, scenario.seed).expect("a network");
    let mut networks = [new(), new()];
    let interfaces: Vec<_> = (0..2 * scenario.links.len() as u32).map(Interface).collect();
    let machines: Vec<_> = interfaces.iter().map(|at| networks[0].network().owner(*at) % 2).collect();
    let departs = |at: &Interface| machines[at.index()] != machines[at.opposite().index()];
    for network in &mut networks {
        network.set_departures(interfaces.iter().map(departs).collect());
    }
    let mut arrived = Vec::new();
    let mut deliver = |networks: &mut [EmulatedNetwork; 2], until: Time| {
        let next = |networks: &[EmulatedNetwork; 2]| {
            let timeouts =
                networks.each_ref().map(|network| network.next_timeout().filter(|due| *due <= until));
            (0..2).filter_map(|machine| Some((timeouts[machine]?, machine))).min()
        };
        while let Some((due, machine)) = next(networks) {
            let mut ended = VecDeque::new();
            networks[machine].advance(due, &mut |packet| ended.push_back((machine, packet)));
            while let Some((machine, Arrived { at, to, packet })) = ended.pop_front() {
                let there = machines[to.index()];
                let bytes = packet.into_bytes();
                if there == machine {
                    arrived.push(Seen { at, interface: to, bytes });
                } else {
                    networks[there].advance(at, &mut |packet| ended.push_back((there, packet)));
                    networks[there]
                        .arrive(at, to.opposite(), bytes, &mut |packet| ended.push_back((there, packet)));
                }
            }
        }
    };
    for Seen { at, interface, bytes } in sent {
        deliver(&mut networks, *at);
        networks[machines[interface.index()]].send(*at, *interface, bytes.clone());
    }
    deliver(&mut networks, Time::from_nanos((Time::ZERO + scenario.duration).as_nanos() - 1));
    arrived
}

/// Checks that both results are equal; returns the links.
fn compare_with_simulator(name: &str, text: &str) -> Vec<LinkResult> {
    compare_networks(name, text, (1000, true)).0
}

/// Checks that both results are equal, with more than `fewest` arrivals, and if `on_two`, on two machines as well; returns
/// the results of the network. On two machines, simultaneous arrivals at a router may have another order.
fn compare_networks(name: &str, text: &str, (fewest, on_two): (usize, bool)) -> Nodes {
    let scenario = anabranch_scenario::parse(text, name, &[]).expect("a scenario");
    let (sent, expected, theirs) = simulated(name, &scenario);
    let (arrived, ours) = emulated(&scenario, &sent);
    assert!(expected.len() > fewest, "{} packets arrived", expected.len());
    let mut sorted = vec![expected, arrived];
    sorted.extend(on_two.then(|| emulated_on_two_machines(&scenario, &sent)));
    // Simultaneous arrivals at several hosts have no order.
    for seen in &mut sorted {
        seen.sort_by_key(|seen| (seen.at, seen.interface));
    }
    let expected = &sorted[0];
    for other in &sorted[1..] {
        for (arrived, expected) in other.iter().zip(expected) {
            assert_eq!((arrived.at, arrived.interface), (expected.at, expected.interface), "{text}");
            assert_eq!(arrived.bytes, expected.bytes, "at {:?}: {text}", arrived.at);
        }
        assert_eq!(other.len(), expected.len(), "{text}");
    }
    assert_eq!(ours, theirs);
    theirs
}

fn dropped(links: &[LinkResult], cause: &str) -> u64 {
    links.iter().map(|link| link.drops_by_cause[cause]).sum()
}

#[test]
fn emulated_queues_equal_simulated_ones() {
    for (queue, cause) in [
        ("{ kind = \"fifo\", limit = \"20 packets\" }", "queue"),
        ("{ kind = \"red\", limit = \"40 packets\", ecn = true }", "aqm"),
        ("{ kind = \"codel\", limit = \"200 packets\" }", "aqm"),
        ("{ kind = \"fq-codel\", limit = \"200 packets\" }", "aqm"),
    ] {
        let text = format!(
            r#"
title = "Queues"
duration = "6 s"
warmup = "1 s"
[link_defaults]
rate = "100 Mbit/s"
[[link]]
between = ["A", "R"]
[[link]]
between = ["B", "R"]
[[link]]
name = "slow"
between = ["R", "S"]
rate = "8 Mbit/s"
delay = "15 ms"
queue = {queue}
[[link]]
between = ["S", "C"]
[[flow]]
from = "A"
to = "C"
protocol = "tcp"
ecn = true
workload = {{ kind = "saturated" }}
[[flow]]
from = "B"
to = "C"
protocol = "tcp"
workload = {{ kind = "saturated" }}
[[flow]]
name = "datagrams"
from = "B"
to = "C"
protocol = "udp"
workload = {{ kind = "rate", rate = "2 Mbit/s", message = "900 B" }}
"#
        );
        let links = compare_with_simulator("queues", &text);
        assert!(dropped(&links, cause) > 0, "{queue}");
        if queue.contains("ecn") {
            assert!(links.iter().any(|link| link.marks > 0));
        }
    }
}

#[test]
fn emulated_impairments_equal_simulated_ones() {
    let links = compare_with_simulator(
        "impairments",
        r#"
title = "Impairments"
duration = "8 s"
warmup = "1 s"
ip = "v6"
[[link]]
name = "one"
between = ["A", "B"]
rate = "10 Mbit/s"
delay = "10 ms"
jitter = "3 ms"
loss = { model = "bernoulli", rate = 0.005 }
reorder = { rate = 0.01, delay = "4 ms" }
[[link]]
name = "two"
between = ["A", "B"]
rate = "6 Mbit/s"
delay = "25 ms"
loss = { model = "gilbert-elliott", to_bad = 0.01, to_good = 0.3, loss_bad = 0.5 }
[[flow]]
from = "A"
to = "B"
protocol = "mptcp"
congestion = "lia"
workload = { kind = "saturated" }
[[event]]
at = "2 s"
link = "one"
set = { rate = "4 Mbit/s", delay = "20 ms" }
[[event]]
at = "3 s"
link = "two"
set = { state = "down" }
[[event]]
at = "5 s"
link = "two"
set = { state = "up" }
[[event]]
at = "6 s"
link = "one"
set = { loss = { model = "bernoulli", rate = 0.02 } }
"#,
    );
    assert!(dropped(&links, "loss") > 0 && dropped(&links, "down") > 0);
}

#[test]
fn emulated_routers_choose_like_simulated_ones() {
    let mut text = r#"
title = "Equally short paths"
duration = "3 s"
[link_defaults]
rate = "20 Mbit/s"
delay = "3 ms"
[[link]]
between = ["A", "R"]
[[link]]
name = "p"
between = ["R", "S"]
loss = { model = "list", packets = [9, 20], data_only = true }
[[link]]
name = "q"
between = ["R", "S"]
duplicate = { rate = 0.05 }
[[link]]
between = ["R", "T"]
[[link]]
between = ["T", "S"]
[[link]]
between = ["S", "C"]
"#
    .to_owned();
    for (protocol, rest) in [
        ("tcp", ""),
        ("mptcp", "paths = \"ndiffports:4\""),
        ("sctp", ""),
        ("sctp", "udp_encapsulation = true"),
        ("udp", "workload = { kind = \"rate\", rate = \"1 Mbit/s\" }"),
        ("tcp", "congestion = \"cubic\""),
    ] {
        let number = text.matches("[[flow]]").count();
        let _ = write!(
            text,
            "[[flow]]\nname = \"F{number}\"\nfrom = \"A\"\nto = \"C\"\nprotocol = \"{protocol}\"\n{rest}\n"
        );
    }
    let mptcp = text.replace("\"cmt-sctp\"", "\"mptcp\"\npaths = \"disjoint\"");
    for (ip, text) in [("v4", &text), ("v6", &text), ("v4", &mptcp), ("v6", &mptcp)] {
        let text = text.replace("duration", &format!("ip = \"{ip}\"\nduration"));
        let (links, _) = compare_networks("ecmp", &text, (1000, false));
        assert!(
            links.iter().filter(|link| ["p", "q"].contains(&link.name.as_str())).all(|link| link.packets > 0)
        );
        assert!(dropped(&links, "loss") > 0);
    }
}

/// A client with two routes to a server, each through a middlebox.
const TWO_WAYS: &str = r#"
title = "two ways"
duration = "4 s"
[link_defaults]
rate = "10 Mbit/s"
delay = "5 ms"
[[link]]
name = "wifi"
between = ["C", "N1"]
[[link]]
name = "cell"
between = ["C", "N2"]
[[link]]
name = "north"
between = ["N1", "R"]
[[link]]
name = "south"
between = ["N2", "R"]
[[link]]
name = "last"
between = ["R", "S"]
rate = "100 Mbit/s"
"#;

#[test]
fn emulated_middleboxes_equal_simulated_ones() {
    let kinds = [
        "kind = \"strip-options\", timestamps = true",
        "kind = \"strip-options\", syn = false",
        "kind = \"drop-syn\", capable = false",
        "kind = \"drop-syn\"",
        "kind = \"split\", size = 300",
        "kind = \"merge\", size = 1400, wait = \"5 ms\"",
        "kind = \"nat\"",
        "kind = \"shaper\", rate = \"3 Mbit/s\", limit = \"30 packets\"",
        "kind = \"firewall\", answer = \"icmp\"",
        "kind = \"firewall\", answer = \"reset\", tcp_timeout = \"1 s\", limit = 2",
    ];
    let from = |sides: [&str; 2]| sides.map(|link| format!("from = [\"{link}\"]\n"));
    // The inner side of each translator is the client's, unless a firewall protects the server's side of one
    // route.
    let (client, server) = (from(["wifi", "cell"]), from(["wifi", "south"]));
    for does in kinds {
        let has_inside = does.contains("nat") || does.contains("firewall");
        let sides = if does.contains("icmp") || does.contains("reset") { &server } else { &client };
        for flow in [
            "protocol = \"mptcp\"\nmtu = 600",
            "protocol = \"mptcp\"\nmtu = 600\ndss_checksum = true\ndirection = \"reverse\"",
            "protocol = \"sctp\"",
            "protocol = \"udp\"\nworkload = { kind = \"rate\", rate = \"5 Mbit/s\" }",
        ] {
            if flow.contains("sctp") && does.contains("nat") {
                continue; // No packet arrives.
            }
            let mut text = TWO_WAYS.to_owned();
            for (node, side) in ["N1", "N2"].into_iter().zip(sides) {
                let side = if has_inside { side } else { "" };
                write!(text, "[[middlebox]]\nnode = \"{node}\"\n{side}does = {{ {does} }}\n")
                    .expect("memory");
            }
            write!(text, "[[flow]]\nfrom = \"C\"\nto = \"S\"\n{flow}\n").expect("memory");
            let (_, boxes) = compare_networks("middleboxes", &text, (100, false));
            assert!(boxes[0].packets > 0, "{does}, {flow}: {boxes:?}");
            // In other cases an effect is not certain: the shaper's queue may hold all packets, and a single firewall
            // refuses only packets of protocols with several paths.
            let is_certain = flow.contains("mptcp") && !does.contains("shaper");
            let has_effect = boxes.iter().any(|found| found.changed + found.dropped > 0);
            assert!(has_effect || !is_certain, "{does}, {flow}: {boxes:?}");
        }
    }
}

/// Packets of 1000 bytes from the first host of a flow to the second.
fn datagram(network: &mut EmulatedNetwork, version: IpVersion) -> (Interface, Vec<u8>) {
    let [from, to] = [0, 1].map(|end| network.network().interfaces(0, end)[0]);
    let payload = Payload::new(0, 972);
    let body = Body::Udp(udp::Datagram { source_port: 1, destination_port: 2, payload });
    let [source, destination] = [from, to].map(|interface| interface.address(version));
    let mut bytes = Vec::new();
    Packet { source, destination, ecn: Ecn::NotEct, body }.emit(&mut bytes);
    (from, bytes)
}

#[test]
fn a_thousand_changes_lose_only_dropped_packets() {
    let text = "duration = \"60 s\"\n[[link]]\nbetween = [\"A\", \"B\"]\nrate = \"10 Mbit/s\"\n\
                [[flow]]\nfrom = \"A\"\nto = \"B\"\nprotocol = \"tcp\"\n";
    let scenario = anabranch_scenario::parse(text, "changes", &[]).expect("a scenario");
    let mut network = EmulatedNetwork::new(&scenario, 1).expect("a network");
    let (from, bytes) = datagram(&mut network, IpVersion::V4);
    let fifo = |packets| {
        let limit = QueueLimit::Packets(packets);
        Change::Queue(queue::Settings::Fifo(queue::fifo::Settings { limit }))
    };
    let (mut sent, mut arrived) = (0, 0);
    for round in 0..1000_u64 {
        // About 16 Mbit/s, the mean rate of the link, so that its queue overflows at times.
        let now = Time::from_nanos(round * 4_000_000);
        network.advance(now, &mut |_| arrived += 1);
        let change = match round % 6 {
            0 => Change::Rate(Rate::from_bits_per_second(round / 6 % 4 * 10_000_000)),
            1 => Change::Delay(Duration::from_millis(round % 20)),
            2 => Change::Jitter(Duration::from_millis(round % 8)),
            3 => fifo(1 + round % 30),
            4 => Change::Reorder(
                (round % 4 == 0).then_some(Reorder { rate: 0.3, delay: Duration::from_millis(5) }),
            ),
            _ => fifo(40),
        };
        network.apply(now, &Event::link(now, (0, Directions::Both), vec![change]));
        for _ in 0..8 {
            network.send(now, from, bytes.clone());
            sent += 1;
        }
    }
    let end = Time::from_nanos(4_000_000_000);
    network.advance(end, &mut |_| arrived += 1);
    network.apply(
        end,
        &Event::link(end, (0, Directions::Both), vec![Change::Rate(Rate::from_bits_per_second(10_000_000))]),
    );
    let end = Time::from_nanos(30_000_000_000);
    network.advance(end, &mut |_| arrived += 1);
    let links = network.links(end, &scenario);
    let [queue, changed] = ["queue", "changed"].map(|cause| dropped(&links, cause));
    assert!(queue > 100 && changed > 100 && arrived > 1000, "{queue} {changed} {arrived}");
    assert_eq!(sent, arrived + queue + changed);
}

/// An IPv4 packet with a TCP segment of these bytes, with the right checksums.
fn tcp_packet([source, destination]: [[u8; 4]; 2], segment: &[u8]) -> Vec<u8> {
    let len = (20 + segment.len()) as u16;
    let mut bytes = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0];
    bytes[2..4].copy_from_slice(&len.to_be_bytes());
    bytes.extend(source.into_iter().chain(destination));
    let sum = Checksum::new().bytes(&bytes).finish();
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes.extend_from_slice(segment);
    bytes[36..38].fill(0);
    let tail = [[0, 6], (segment.len() as u16).to_be_bytes()].concat();
    let sum = Checksum::new().bytes(&bytes[12..20]).bytes(&tail).bytes(&bytes[20..]).finish();
    bytes[36..38].copy_from_slice(&sum.to_be_bytes());
    bytes
}

#[test]
fn middleboxes_survive_mutated_segments() {
    let mut rng = Rng::new(7);
    for does in [
        "kind = \"strip-options\", timestamps = true, sack = true, window_scale = true",
        "kind = \"split\", size = 7",
        "kind = \"merge\", size = 400, wait = \"3 ms\"",
        "kind = \"nat\"",
        "kind = \"shaper\", rate = \"1 Mbit/s\"",
        "kind = \"firewall\", answer = \"reset\"",
        "kind = \"firewall\", answer = \"icmp\", limit = 3",
    ] {
        let side = if does.contains("nat") || does.contains("firewall") { "from = [\"wifi\"]\n" } else { "" };
        let text = format!(
            "{TWO_WAYS}[[middlebox]]\nnode = \"N1\"\n{side}does = {{ {does} }}\n\
             [[flow]]\nfrom = \"C\"\nto = \"S\"\nprotocol = \"tcp\"\n"
        );
        let scenario = anabranch_scenario::parse(&text, "mutated", &[]).expect("a scenario");
        let mut network = EmulatedNetwork::new(&scenario, 1).expect("a network");
        let [client, server] = [0, 1].map(|end| network.network().interfaces(0, end)[0]);
        let addresses = [client, server].map(|interface| match interface.address(IpVersion::V4) {
            IpAddr::V4(address) => address.octets(),
            IpAddr::V6(address) => panic!("{address}"),
        });
        let (mut seq, mut arrived) = (1_u32, 0);
        for round in 0..5_000_u64 {
            let now = Time::from_nanos(round * 500_000);
            network.advance(now, &mut |_| arrived += 1);
            // Ports, sequence number, a header of up to 60 bytes with random options, and some data.
            let words = 5 + rng.between(0, 10) as usize;
            let mut segment = [&[0, 80, 0, 80][..], &seq.to_be_bytes(), &[0; 4], &[0; 8]].concat();
            segment.resize(4 * words, 0);
            segment[20..]
                .fill_with(|| [1, 2, 4, 5, 8, 10, 30, rng.between(0, 255) as u8][rng.between(0, 7) as usize]);
            segment[12] = (words as u8) << 4;
            segment[13] =
                [0x10, 0x18, 0x02, 0x11, 0x04, rng.between(0, 255) as u8][rng.between(0, 5) as usize];
            segment.extend((0..rng.between(0, 60)).map(|at| at as u8));
            seq = seq.wrapping_add((segment.len() - 4 * words) as u32);
            let forward = rng.chance(0.7);
            let [from, pair] = if forward { [0, 0] } else { [1, 1] };
            let ends = if pair == 0 { addresses } else { [addresses[1], addresses[0]] };
            network.send(now, [client, server][from], tcp_packet(ends, &segment));
        }
        network.advance(Time::from_nanos(20_000_000_000), &mut |_| arrived += 1);
        // A translator and a firewall drop segments whose options they cannot parse.
        assert!(arrived > 300, "{does}: {arrived}");
        let boxes = network.middleboxes();
        assert!(boxes[0].changed + boxes[0].dropped > 0 || does.contains("shaper"), "{boxes:?}");
    }
}

#[test]
fn emulated_network_control_equals_simulated_one() {
    let text = include_str!("../../../examples/network-control.toml")
        .replace("duration = \"30 s\"", "duration = \"9 s\"")
        .replace("warmup = \"10 s\"", "warmup = \"7 s\"");
    for ip in ["v4", "v6"] {
        let text = text.replace("duration", &format!("ip = \"{ip}\"\nduration"));
        let links = compare_with_simulator("network-control", &text);
        let ways = links.iter().filter(|link| ["p", "q", "r"].contains(&link.name.as_str()));
        let mut loads: Vec<f64> =
            ways.filter(|link| link.direction == "forward").map(|link| link.utilisation).collect();
        loads.sort_by(f64::total_cmp);
        assert!(loads[0] > 0.9, "each way carries a path: {loads:?}");
    }
}

/// A client behind a mesh with two gateways, whose flows send source routes.
const GATEWAYS: &str = include_str!("../../../examples/gateways.toml");

#[test]
fn source_routes_equal_those_of_the_simulator() {
    let text = GATEWAYS.replace("duration = \"30 s\"\nwarmup = \"5 s\"", "duration = \"4 s\"");
    // With equal delays, packets of two routes arrive at a router at the same time, and their order differs on two
    // machines.
    let delays =
        [("home", 1193), ("mesh-1", 13771), ("mesh-2", 5937), ("uplink-1", 37129), ("uplink-2", 7193)];
    let mut several = text.replace("[\"G1\", \"G2\"]", "[[\"G1\", \"G2\"], \"G2\"]");
    for (link, more_ns) in delays {
        let name = format!("name = \"{link}\"");
        several = several.replace(&name, &format!("{name}\ndelay = \"{} ns\"", 2_000_000 + more_ns));
    }
    let ecmp = text.replace("default_route = \"mesh-1\"\n", "");
    let dropping = text.replacen("name = \"G1\"\nsource_routes = \"forward\"", "name = \"G1\"", 1);
    let narrow = text.replace("name = \"uplink-2\"", "name = \"uplink-2\"\nmtu = 1400");
    for (name, text) in [
        ("gateways", &text),
        ("hops", &several),
        ("mesh", &ecmp),
        ("dropping", &dropping),
        ("narrow", &narrow),
    ] {
        compare_with_simulator(name, text);
    }
}

#[test]
fn hostile_source_routes_are_dropped_and_counted() {
    let text = format!("{GATEWAYS}\n[[router]]\nname = \"internet\"\nsource_routes = \"ignore\"\n");
    let scenario = anabranch_scenario::parse(&text, "gateways", &[]).expect("a scenario");
    let mut network = EmulatedNetwork::new(&scenario, 1).expect("a network");
    let (mut rng, mut arrived, mut sent) = (Rng::new(3), 0, 0);
    for round in 0..20_000u64 {
        let hops = rng.between(0, 9) as usize;
        let mut option = vec![131, 3 + 4 * hops as u8, 4];
        // Addresses of the network's links, and some of no link.
        option.extend((0..hops).flat_map(|_| [10, 0, 0, rng.between(0, 30) as u8]));
        for _ in 0..rng.between(0, 2) {
            let at = rng.between(0, option.len() as u64 - 1) as usize;
            option[at] = [0, 1, 3, 5, 131, 255, rng.between(0, 255) as u8][rng.between(0, 6) as usize];
        }
        option.resize(option.len().next_multiple_of(4), 0);
        // From the client, 10.0.0.1, to an address of a router or host.
        let mut bytes =
            vec![0x45 + (option.len() / 4) as u8, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1];
        bytes.extend_from_slice(&[10, 0, 0, rng.between(1, 22) as u8]);
        bytes.extend_from_slice(&option);
        bytes.extend_from_slice(&[0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0]);
        let len = bytes.len() as u16;
        bytes[2..4].copy_from_slice(&len.to_be_bytes());
        anabranch_wire::ip::ipv4::set_checksum(&mut bytes);
        let now = Time::from_nanos(round * 1_000_000);
        network.advance(now, &mut |Arrived { packet, .. }| {
            assert_eq!(Checksum::new().bytes(&packet.bytes()[..packet.header_len()]).finish(), 0);
            arrived += 1;
        });
        sent += 1;
        network.send(now, Interface(0), bytes);
    }
    network.advance(Time::from_nanos(30_000_000_000), &mut |_| arrived += 1);
    let routers = network.routers();
    let dropped: u64 = routers.iter().map(|router| router.dropped).sum();
    let sum =
        |count: fn(&anabranch_scenario::result::RouterResult) -> u64| routers.iter().map(count).sum::<u64>();
    println!("{arrived} of {sent} arrived, {} without a route; {routers:?}", network.unreachable());
    // A packet in a circle of hops ends, since each hop takes an address of the route.
    assert_eq!(arrived + dropped + network.unreachable(), sent);
    assert!(sum(|router| router.followed) > 1000 && sum(|router| router.invalid) > 1000 && arrived > 1000);
}
