//! Tunnels between addresses of this machine.

use super::*;
use anabranch_base::rng::Rng;
use std::net::UdpSocket;

const WAIT: Duration = Duration::from_millis(20);

/// A scenario whose machines have two addresses of the loopback interface.
fn scenario(own: &str, peer: &str) -> Scenario {
    let text = format!(
        "duration = \"1 s\"\n[[link]]\nname = \"wan\"\nbetween = [\"A\", \"B\"]\nrate = \"1 Mbit/s\"\n\
         tunnel = {{ kind = \"udp\", local = \"{own}\", remote = \"{peer}\", key = 7 }}\n\
         [[flow]]\nfrom = \"A\"\nto = \"B\"\nprotocol = \"tcp\"\n\
         [testbed.machines]\na = [\"A\"]\nb = [\"B\"]\n"
    );
    anabranch_scenario::parse(&text, "two.toml", &[]).expect("a scenario")
}

fn meet(part: &mut Part) -> Clock {
    loop {
        if let Some(clock) = part.meet(WAIT).expect("the machines agree") {
            return clock;
        }
    }
}

/// Packets that have arrived within a second, until there are `count`.
fn received(part: &mut Part, count: usize) -> Vec<(Interface, Vec<u8>)> {
    let mut all = Vec::new();
    for _ in 0..100 {
        part.exchange(|at, bytes| all.push((at, bytes.to_vec()))).expect("the machines are connected");
        if all.len() >= count {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    all
}

fn packet(len: usize) -> Vec<u8> {
    let mut packet = vec![0; len];
    packet[0] = 0x45;
    packet
}

#[test]
fn tunnel_ends_connect_and_carry_packets() {
    let scenario = scenario("127.77.0.1", "127.77.0.2");
    let mut parts = [0, 1].map(|machine| Part::open(&scenario, machine).expect("a part"));
    assert!(parts[0].has("A") && !parts[0].has("B") && parts[1].has("B"));
    assert_eq!(parts[1].outgoing(), [false, true]);
    let [a, b] = &mut parts;
    let clocks = std::thread::scope(|scope| {
        let other = scope.spawn(|| meet(b));
        [meet(a), other.join().expect("the other part")]
    });
    let difference_ns = clocks[0].zero_ns().abs_diff(clocks[1].zero_ns());
    assert!(difference_ns < 20_000_000, "{difference_ns} ns");
    let [here, there] = [0, 1].map(|end| Interface::new(0, end));
    a.send(here, 4, |out| out.extend(packet(1500)));
    a.send(here, 4, |out| out.extend(packet(1501)));
    a.send(here, 4, |out| out.extend(packet(20)));
    // An interface without a tunnel.
    a.send(there, 4, |out| out.extend(packet(20)));
    assert_eq!(received(b, 2), [(there, packet(1500)), (there, packet(20))]);
    let count = |part: &Part| part.counters()().remove(0);
    assert_eq!((count(a).sent, count(b).received, count(b).too_long), (3, 2, 1));
    b.end(false);
    let ended = (0..100).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        a.exchange(|_, _| {}).err()
    });
    let ended = ended.expect("a message about the end");
    assert!(matches!(&ended, PartError::PeerDown(text) if text == "machine b was taken down"), "{ended}");
}

#[test]
fn other_datagrams_are_dropped_and_counted() {
    let scenario = scenario("127.77.1.1", "127.77.1.2");
    let mut part = Part::open(&scenario, 0).expect("a part");
    let peer = UdpSocket::bind("127.77.1.2:4754").expect("a socket");
    let to = "127.77.1.1:4754";
    let mut rng = Rng::new(1);
    let mut wrong_key = 0;
    for round in 0..2000_u32 {
        let mut bytes: Vec<u8> = (0..rng.below(200)).map(|_| rng.below(256) as u8).collect();
        if round % 2 == 0 {
            let key = u32::from(round % 4 == 0) + 7;
            wrong_key += u64::from(key != 7);
            let start = [&[0x20, 0, 0x88, 0xb5], key.to_be_bytes().as_slice(), b"ABTM"].concat();
            bytes.splice(0..0, start);
        }
        peer.send_to(&bytes, to).expect("sent");
        if round % 50 == 0 {
            part.meet(Duration::ZERO).expect("no end");
        }
    }
    // Other addresses do not reach the socket.
    let stranger = UdpSocket::bind("127.77.1.3:4754").expect("a socket");
    let before = part.counters()().remove(0);
    stranger.send_to(&[0x20, 0, 8, 0, 0, 0, 0, 9], to).expect("sent");
    for _ in 0..50 {
        part.meet(Duration::ZERO).expect("no end");
    }
    let counted = part.counters()().remove(0);
    assert!(counted.wrong_key >= wrong_key && counted.invalid > 900, "{counted:?}");
    assert!(before.wrong_key <= counted.wrong_key);
    assert_eq!(counted.received, 0);
}

#[test]
fn absent_addresses_are_reported() {
    let error =
        Part::open(&scenario("192.0.2.77", "192.0.2.78"), 0).expect_err("the address belongs to no machine");
    let text = error.to_string();
    assert!(
        text.starts_with("the tunnel of link \"wan\" from 192.0.2.77 to 192.0.2.78 cannot be opened"),
        "{text}"
    );
    let mut without = scenario("127.77.2.1", "127.77.2.2");
    without.machines = None;
    assert!(matches!(Part::open(&without, 0), Err(PartError::NoMachines)));
}
