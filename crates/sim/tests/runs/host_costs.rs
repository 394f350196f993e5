//! Hosts that need time for packets.

use super::cases::text::read;
use anabranch_sim::scenario::Scenario;
use anabranch_sim::scenario::result::{HostResult, RunResult};
use anabranch_sim::{RunOptions, run};
use anabranch_testkit::scenario_text::{LazyText, ScenarioText};
use proptest::prelude::*;

/// Two directions of 100 datagrams a second, of 1028 bytes with their headers, over 100 Mbit/s and 10 ms.
static DATAGRAMS: LazyText = LazyText::new(|| {
    ScenarioText::new("duration = '21 s', warmup = '1 s'")
        .link("a", ["S", "D"], "rate = '100 Mbit/s', delay = '10 ms'")
        .table("[[host]]", "name = 'D'")
        .flow("in", ["S", "D"], "protocol = 'udp'")
        .keys("workload = { kind = 'rate', rate = '0.8 Mbit/s', message = '1000 B' }")
        .flow("out", ["D", "S"], "protocol = 'udp', start = '5 ms'")
        .keys("workload = { kind = 'rate', rate = '0.8 Mbit/s', message = '1000 B' }")
});

/// Two paths of 8 and 2 Mbit/s, 10 and 100 ms.
static TWO_PATHS: LazyText = LazyText::new(|| {
    ScenarioText::new("duration = '20 s'")
        .link_defaults("queue = { kind = 'fifo', limit = '50 packets' }")
        .link("a", ["S", "D"], "rate = '8 Mbit/s', delay = '10 ms'")
        .link(
            "b",
            ["S", "D"],
            "rate = '2 Mbit/s', delay = '100 ms', loss = { model = 'bernoulli', rate = 0.01 }",
        )
        .table("[[host]]", "name = 'D'")
        .table("[[host]]", "name = 'S'")
        .flow("F", ["S", "D"], "protocol = 'mptcp', workload = { kind = 'file', size = '1 MB' }")
});

/// The result of a run, which is the same with encoded packets and for a second run.
fn result(scenario: &Scenario) -> RunResult {
    let plain = run(scenario, &RunOptions::default()).unwrap();
    let checked = RunOptions { in_order: true, check_wire: true, ..RunOptions::default() };
    assert_eq!(run(scenario, &checked).unwrap().digest, plain.digest);
    plain
}

fn close(value: f64, expected: f64, within: f64) -> bool {
    (value - expected).abs() <= within
}

fn mean_delay(result: &RunResult, flow: usize) -> f64 {
    result.flows[flow].delivery_delay_s.expect("datagrams arrived").mean
}

#[test]
fn packet_and_bytes_take_their_time() {
    let result = result(&read(&DATAGRAMS, &[("host.D.cost", r#"{ packet = "2 ms", byte = "1 us" }"#)]));
    let [HostResult { name, utilisation: Some(utilisation), drops: Some(drops), .. }] = &*result.hosts else {
        panic!("one host has a cost: {:?}", result.hosts)
    };
    // 3.028 ms for each of 200 packets a second, and nothing waits: the two directions alternate every 5 ms.
    assert!((name, *drops) == (&"D".to_owned(), 0) && close(*utilisation, 0.6056, 1e-6), "{utilisation}");
    let on_the_way = 1028.0 * 8.0 / 100e6 + 0.01 + 0.003_028;
    for flow in [0, 1] {
        assert!(close(mean_delay(&result, flow), on_the_way, 1e-9), "{}", mean_delay(&result, flow));
    }
}

#[test]
fn both_directions_share_a_processor() {
    let result =
        result(&read(&DATAGRAMS, &[("host.D.cost", r#"{ packet = "8 ms", backlog = "10 packets" }"#)]));
    // 200 packets a second, and 125 are served.
    let host = &result.hosts[0];
    assert!(close(host.utilisation.unwrap(), 1.0, 1e-9));
    let served: u64 = result.flows.iter().map(|flow| flow.delivered_bytes / 1000).sum();
    assert!((2610..=2625).contains(&served), "125 a second in 21 s, without those on the way: {served}");
    let dropped = host.drops.unwrap();
    assert!((4180 - served..=4200 - served).contains(&dropped), "{dropped} dropped, {served} served");
    // A packet finds at most ten, and leaves after its own service.
    let longest = result.flows[0].delivery_delay_s.unwrap().p99;
    assert!((0.07..=0.091).contains(&longest), "{longest}");
    assert!(result.links[1].packets < 2100, "packets dropped at the host do not reach its link");
}

#[test]
fn backlog_of_one_drops_what_finds_a_packet() {
    let cost = r#"{ packet = "6 ms", backlog = "1 packets" }"#;
    let result = result(&read(&DATAGRAMS, &[("host.D.cost", cost)]));
    // Every 5 ms a packet of the other direction arrives while the previous one is in service.
    let delivered: u64 = result.flows.iter().map(|flow| flow.delivered_bytes / 1000).sum();
    let host = &result.hosts[0];
    assert!((2090..=2100).contains(&delivered), "{delivered}");
    assert!(close(host.drops.unwrap() as f64, 2100.0, 10.0), "{:?}", host.drops);
    assert!(close(host.utilisation.unwrap(), 0.6, 1e-6), "{:?}", host.utilisation);
}

#[test]
fn cost_of_zero_keeps_the_digest() {
    for protocol in ["mptcp", "cmt-sctp"] {
        let set = [("flow.F.protocol", protocol)];
        let without = result(&read(&TWO_PATHS, &set));
        let zero = r#"{ packet = "0 us", byte = "0 ns", gap = "0 s", backlog = "1 packets" }"#;
        let with = result(&read(&TWO_PATHS, &[set[0], ("host.D.cost", zero)]));
        assert_eq!((&with.digest, with.hosts.len()), (&without.digest, 0), "{protocol}");
    }
}

#[test]
fn hosts_without_cost_take_no_time() {
    let result = result(&read(&TWO_PATHS, &[("host.D.cost.packet", "100 us")]));
    let names: Vec<_> = result.hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(names, ["D"]);
}

#[test]
fn list_entries_cost_processor_time() {
    // Without a loss, TCP has no gaps; paths of different delay have some.
    let unlimited = [
        ("host.D.cost.gap", "1 us"),
        ("link.a.queue.limit", "2000 packets"),
        ("link.b.queue.limit", "2000 packets"),
        ("link.b.loss", "{ model = \"none\" }"),
    ];
    for (protocol, entries) in [("tcp", false), ("mptcp", true), ("cmt-sctp", true)] {
        let result = result(&read(&TWO_PATHS, &[&unlimited[..], &[("flow.F.protocol", protocol)]].concat()));
        let flow = &result.flows[0];
        assert_eq!(flow.delivered_bytes, 1_000_000, "{protocol}");
        let utilisation = result.hosts[0].utilisation.unwrap();
        println!("{protocol}: {utilisation}");
        assert_eq!(utilisation > 0.0, entries, "{protocol}: {utilisation}");
    }
}

#[test]
fn list_entries_of_arrivals_cost_processor_time() {
    let gap = ("host.D.cost.gap", "1 us");
    let arrival = ("flow.F.workload.arrivals", r#"{ mean_interval = "1 s", count = 1 }"#);
    let utilisation = |set: &[(&str, &str)]| result(&read(&TWO_PATHS, set)).hosts[0].utilisation.unwrap();
    let single = utilisation(&[gap]);
    assert!(single > 0.0 && close(utilisation(&[gap, arrival]), single, 1e-9), "{single}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// With any cost, each protocol delivers its data, unless the processors are too slow for it.
    #[test]
    fn data_arrives_whatever_packets_cost(
        protocol in prop::sample::select(vec!["tcp", "mptcp", "sctp", "cmt-sctp"]),
        [packet, byte, gap] in [0_u32..400, 0_u32..200, 0_u32..2_000],
        backlog in 1_u32..200,
        seed in 1_u64..1_000_000,
    ) {
        let cost = format!(
            "{{ packet = \"{packet} us\", byte = \"{byte} ns\", gap = \"{gap} ns\", backlog = \"{backlog} packets\" }}"
        );
        let set = [("flow.F.protocol", protocol), ("host.D.cost", cost.as_str()), ("host.S.cost", cost.as_str()), ("duration", "120 s")];
        let scenario = Scenario { seed, ..read(&TWO_PATHS, &set) };
        let result = result(&scenario);
        let flow = &result.flows[0];
        prop_assert!(flow.delivered_bytes <= flow.written_bytes);
        // The smallest backlogs drop most packets of a window that arrives at once.
        prop_assert!(backlog < 8 || flow.delivered_bytes == 1_000_000, "{} of {}", flow.delivered_bytes, flow.written_bytes);
        for host in &result.hosts {
            prop_assert!((0.0..=1.0).contains(&host.utilisation.unwrap()), "{host:?}");
        }
    }
}
