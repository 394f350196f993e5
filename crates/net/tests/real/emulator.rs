//! The kernel's sockets over an emulated network, each host in a namespace of its own.

use super::bed::Hosts;
use super::namespace::{Need, machine_has, within};
use anabranch_base::time::Time;
use anabranch_net::emulator::Outcome;
use anabranch_net::meter::{self, Meter};
use anabranch_net::{Clock, Namespace};
use anabranch_scenario::Scenario;
use anabranch_scenario::result::FlowResult;
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
    let meter =
        Meter::new(Arc::clone(&scenario), scenario.seed, &hosts.namespaces(), &meter::Settings::default())
            .expect("sockets");
    let clock = Clock::new();
    let running = emulator.start(clock, Time::ZERO + scenario.duration);
    let flows = meter.start(clock).finish().expect("what arrives is what was sent");
    (flows, running.finish(false).expect("the interfaces stay"))
}

#[test]
fn tcp_fills_a_link_and_a_file_arrives_whole() {
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
    // A busy machine makes it less; more by what arrived before the measured time and was read in it, a late moment's worth.
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
fn multipath_tcp_uses_both_links_and_datagrams_keep_their_age() {
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
    let delay = datagrams.delivery_delay_s.expect("some arrived");
    assert!(delay.p50 > 0.01, "{delay:?}");
    assert!(datagrams.delivered_bytes > 20_000, "{datagrams:?}");
}

/// Before it connects, an MPTCP socket takes any name without a word.
#[test]
fn a_congestion_control_that_the_kernel_has_not_is_noticed() {
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
    let Err(panic) = error else { return eprintln!("skipped: this kernel has wvegas") };
    let said = panic.downcast_ref::<String>().expect("a sentence");
    assert!(said.contains("and not wvegas"), "{said}");
}

#[test]
fn a_namespace_without_the_right_file_is_an_error() {
    if !machine_has(&NEEDS) {
        return;
    }
    within("emulated-none", || {
        assert!(Namespace::open("/run/netns/anabranch-nobody-made-it".as_ref()).is_err());
        let file = Namespace::open("/proc/self/ns/uts".as_ref()).expect("it is there");
        assert!(file.run(|| Ok(())).is_err(), "that is no network");
    });
}
