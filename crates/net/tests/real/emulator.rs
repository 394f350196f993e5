//! The kernel's sockets over an emulated network, each host in its own namespace.

use anabranch_base::time::Time;
use anabranch_net::emulator::Outcome;
use anabranch_net::meter::{self, Meter};
use anabranch_net::{Clock, Namespace};
use anabranch_scenario::Scenario;
use anabranch_scenario::result::FlowResult;
use anabranch_testkit::bed::Hosts;
use anabranch_testkit::machine::skip;
use anabranch_testkit::namespace::{Need, machine_has, within};
use std::sync::Arc;

const NEEDS: [Need; 2] = [Need::Namespaces, Need::Tun];

/// Two hosts with two links between them.
const TEXT: &str = r#"
title = "Two links"
duration = "3 s"
warmup = "1 s"
[[link]]
name = "one"
between = ["A", "B"]
rate = "6 Mbit/s"
delay = "10 ms"
queue = { kind = "fifo", limit = "30 packets" }
[[link]]
name = "two"
between = ["A", "B"]
rate = "4 Mbit/s"
delay = "15 ms"
queue = { kind = "fifo", limit = "30 packets" }
"#;

/// Runs the flows of a scenario over the kernel's sockets.
fn run(purpose: &str, flows: &str) -> (Vec<FlowResult>, Outcome) {
    let scenario = anabranch_scenario::parse(&format!("{TEXT}{flows}"), "test", &[]).expect("a scenario");
    let scenario: Arc<Scenario> = Arc::new(scenario);
    let (hosts, emulator) = Hosts::new(purpose, &scenario);
    let meter = Meter::new(
        Arc::clone(&scenario),
        scenario.seed,
        &hosts.namespaces(),
        (&meter::Settings::default(), Vec::new()),
    )
    .expect("sockets");
    let clock = Clock::new();
    let running = emulator.start(clock, Time::ZERO + scenario.duration);
    let flows = meter.start(clock).finish().expect("received data equals sent data");
    (flows, running.finish(false).expect("the interfaces stay"))
}

#[test]
fn tcp_fills_a_link_and_delivers_a_file() {
    if !machine_has(&NEEDS) {
        return;
    }
    let (flows, outcome) = run(
        "emulated-tcp",
        r#"
[[flow]]
name = "all"
from = "A"
to = "B"
protocol = "tcp"
workload = { kind = "saturated" }
[[flow]]
name = "file"
from = "B"
to = "A"
protocol = "tcp"
workload = { kind = "file", size = "200 kB" }
"#,
    );
    let [all, file] = flows.as_slice() else { panic!("two flows") };
    // A busy machine reduces it; data that arrived before the measured time and was read within it may
    // increase it slightly.
    assert!((3.0e6..6.5e6).contains(&all.goodput_bps), "{all:?}");
    assert_eq!((file.state.as_str(), file.delivered_bytes), ("closed", 200_000), "{file:?}");
    assert!(file.completion_s.is_some_and(|seconds| seconds > 0.27), "{file:?}");
    let [path] = all.paths.as_slice() else { panic!("one path: {all:?}") };
    assert_eq!((path.name.as_str(), path.links.as_slice()), ("one", ["one".to_owned()].as_slice()));
    assert!(path.srtt_s.is_some_and(|srtt| srtt > 0.02) && path.cwnd_mean_bytes > 0.0, "{path:?}");
    let forward = &outcome.links[0];
    assert!(forward.bytes > all.delivered_bytes, "{forward:?}");
    assert!(outcome.lateness.packets > 100 && outcome.unreachable == 0);
}

#[test]
fn mptcp_uses_both_links_and_datagrams_have_delays() {
    if !machine_has(&NEEDS) || !machine_has(&[Need::Mptcp]) {
        return;
    }
    let (flows, _) = run(
        "emulated-mptcp",
        r#"
[[flow]]
name = "both"
from = "A"
to = "B"
protocol = "mptcp"
congestion = "reno"
workload = { kind = "saturated" }
[[flow]]
name = "datagrams"
from = "A"
to = "B"
protocol = "udp"
workload = { kind = "rate", rate = "200 kbit/s", message = "500 B" }
"#,
    );
    let [both, datagrams] = flows.as_slice() else { panic!("two flows") };
    assert!(!both.fallback, "{both:?}");
    let used = both.paths.iter().filter(|path| path.goodput_bps > 0.5e6);
    let mut used: Vec<_> = used.map(|path| path.name.as_str()).collect();
    used.sort_unstable();
    assert_eq!(used, ["one", "two"], "{both:?}");
    let delay = datagrams.delivery_delay_s.expect("some datagrams arrived");
    assert!(delay.p50 > 0.01, "{delay:?}");
    assert!(datagrams.delivered_bytes > 20_000, "{datagrams:?}");
}

/// An unconnected MPTCP socket accepts any name silently.
#[test]
fn missing_congestion_control_is_detected() {
    if !machine_has(&NEEDS) || !machine_has(&[Need::Mptcp]) {
        return;
    }
    let error = std::panic::catch_unwind(|| {
        run(
            "emulated-control",
            r#"
[[flow]]
name = "coupled"
from = "A"
to = "B"
protocol = "mptcp"
congestion = "wvegas"
workload = { kind = "saturated" }
"#,
        )
    });
    let Err(panic) = error else { return skip("this kernel has wvegas") };
    let message = panic.downcast_ref::<String>().expect("a sentence");
    assert!(message.contains("and not wvegas"), "{message}");
}

#[test]
fn namespace_of_another_kind_is_refused() {
    if !machine_has(&NEEDS) {
        return;
    }
    within("emulated-none", || {
        assert!(Namespace::open("/run/netns/anabranch-nobody-made-it".as_ref()).is_err());
        let file = Namespace::open("/proc/self/ns/uts".as_ref()).expect("the file exists");
        assert!(file.run(|| Ok(())).is_err(), "the file is not a network namespace");
    });
}
