//! IPv6 compared with IPv4, and errors of routers about packets that are too large.

use super::cases::text::read;
use anabranch_sim::scenario::Scenario;
use anabranch_sim::{RunOptions, RunResult};
use anabranch_testkit::scenario_text::{LazyText, ScenarioText};

/// Two disjoint paths, and an independent pair of hosts.
static PATHS: LazyText = LazyText::new(|| {
    ScenarioText::new("duration = '20 s', warmup = '5 s'")
        .link_defaults("rate = '10 Mbit/s', delay = '5 ms'")
        .keys("queue = { kind = 'fifo', limit = '50 packets' }")
        .link("a1", ["S", "A"], "")
        .link("a2", ["A", "D"], "")
        .link("b1", ["S", "B"], "")
        .link("b2", ["B", "D"], "")
        .flow("F", ["S", "D"], "protocol = 'tcp'")
});

fn run(scenario: &Scenario) -> RunResult {
    let options = RunOptions { check_wire: true, ..RunOptions::default() };
    anabranch_sim::run(scenario, &options).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn ipv6_goodput_differs_by_its_longer_header() {
    // Payload of a packet of 1500 bytes: TCP has a header of 32 with timestamps, MPTCP's mapping takes 20
    // more; a DATA chunk and SCTP's header take 28.
    let protocols = [("tcp", 32.0), ("mptcp", 52.0), ("sctp", 28.0), ("cmt-sctp", 28.0)];
    for (protocol, transport) in protocols {
        let goodput = |ip| {
            let mut sets = vec![("ip", ip), ("flow.F.protocol", protocol)];
            if protocol == "cmt-sctp" {
                // With the default control a loss takes half of both windows from one path and leaves it one packet,
                // so the goodput depends on the few losses of the measured part. Uncoupled windows keep both links
                // full.
                sets.push(("flow.F.congestion", "reno"));
            }
            let result = run(&read(&PATHS, &sets));
            (result.flows[0].goodput_bps, result.flows[0].paths[0].local.clone())
        };
        let ((v4, _), (v6, local)) = (goodput("\"v4\""), goodput("\"v6\""));
        assert!(local.starts_with("[2001:db8::1]:"), "{local}");
        let expected = (1500.0 - 40.0 - transport) / (1500.0 - 20.0 - transport);
        assert!((v6 / v4 - expected).abs() < 0.01, "{protocol}: {v6} of {v4}, not {expected}");
    }
}

#[test]
fn lookahead_does_not_change_ipv6_runs() {
    let scenario = read(&PATHS, &[("ip", "v6"), ("flow.F.protocol", "mptcp")]);
    let digest = |in_order| {
        anabranch_sim::run(&scenario, &RunOptions { in_order, ..RunOptions::default() }).unwrap().digest
    };
    assert_eq!(digest(true), digest(false));
}

/// Datagrams of 1500 bytes, for which the third link of four is too narrow.
static NARROW_LINK: LazyText = LazyText::new(|| {
    ScenarioText::new("duration = '10 s'")
        .link_defaults("rate = '10 Mbit/s', delay = '5 ms'")
        .link("first", ["S", "A"], "")
        .link("second", ["A", "B"], "")
        .link("narrow", ["B", "C"], "mtu = 1300")
        .link("last", ["C", "D"], "")
        .flow("F", ["S", "D"], "protocol = 'udp', mtu = 1500")
        .keys("workload = { kind = 'messages', message = '1400 B', interval = '100 ms' }")
});

#[test]
fn router_answers_too_large_packets() {
    for ip in ["v4", "v6"] {
        let result = run(&read(&NARROW_LINK, &[("ip", ip)]));
        let link = |name: &str, direction: &str| {
            result.links.iter().find(|link| link.name == name && link.direction == direction).unwrap()
        };
        // One datagram every 100 ms, without those of the last 10 ms.
        let dropped = link("narrow", "forward").drops_by_cause["mtu"];
        assert!((98..=100).contains(&dropped), "{dropped}");
        // The errors pass both links before it: an IP and an ICMP header, and 8 bytes behind the quoted IP
        // header.
        let errors = link("second", "reverse");
        assert_eq!(errors.packets, dropped);
        assert_eq!(errors.bytes, dropped * if ip == "v4" { 20 + 8 + 28 } else { 40 + 8 + 48 });
        assert!((dropped - 1..=dropped).contains(&link("first", "reverse").packets));
        assert_eq!(link("narrow", "reverse").packets, 0);
    }
}

#[test]
fn router_limits_its_errors() {
    let often = [("flow.F.workload.interval", "500 us"), ("link_defaults.rate", "100 Mbit/s")];
    let result = run(&read(&NARROW_LINK, &often));
    let dropped = result.links[4].drops_by_cause["mtu"];
    assert!((19_970..=20_000).contains(&dropped), "{dropped}");
    let sent = result.links[3].packets;
    // Fifty at once, and then one per millisecond.
    assert!((50 + 9_970..=50 + 10_000).contains(&sent), "{sent}");
}

#[test]
fn black_hole_sends_no_errors() {
    let result = run(&read(&NARROW_LINK, &[("link.narrow.icmp", "false")]));
    assert!(result.links.iter().all(|link| link.direction == "forward" || link.packets == 0));
    assert!(result.links.iter().any(|link| link.drops_by_cause["mtu"] > 90));
}

/// RFC 8899: an association probes the MTU of the narrow link, and loses no data to it.
#[test]
fn sctp_probes_the_mtu_of_a_black_hole() {
    for (ip, discovery) in [("v4", true), ("v6", true), ("v4", false)] {
        let discovery = if discovery { "true" } else { "false" };
        let scenario =
            NARROW_LINK.replace("\"udp\"", &format!("\"sctp\"\npmtu_discovery = {discovery}")).replace(
                r#"{ kind = "messages", message = "1400 B", interval = "100 ms" }"#,
                r#"{ kind = "saturated" }"#,
            );
        let result = run(&read(&scenario, &[("ip", ip), ("link.narrow.icmp", "false")]));
        let flow = &result.flows[0];
        if discovery == "true" {
            // The narrow link has room for 1,252 bytes of data in 1,300, or 1,232.
            assert!(flow.goodput_bps > 8.5e6, "{} bit/s", flow.goodput_bps);
            let dropped: u64 = result.links.iter().map(|link| link.drops_by_cause["mtu"]).sum();
            assert!(dropped < 30, "only {dropped} probes of both ends are dropped");
        } else {
            assert!(flow.goodput_bps < 1e3, "{} bit/s", flow.goodput_bps);
        }
    }
}
