//! Runs whose results can be computed by hand.

use anabranch_base::time::{Duration, Time};
use anabranch_netem::loss::bernoulli::Bernoulli;
use anabranch_netem::loss::none;
use anabranch_sim::presets::{link, mptcp, saturated, scenario, sctp, tcp, udp, wire};
use anabranch_sim::scenario::Scenario;
use anabranch_sim::scenario::model::{
    Change, Directions, Event, Flow, Link, LinkModel, Loss, MessageSize, Protocol, Reorder, Workload,
};
use anabranch_sim::{RunError, RunOptions, RunResult};
use std::path::PathBuf;

fn run(scenario: &Scenario) -> RunResult {
    anabranch_sim::run(scenario, &RunOptions::default()).expect("the run succeeds")
}

fn close(value: f64, expected: f64, within: f64) -> bool {
    (value / expected - 1.0).abs() <= within
}

#[test]
fn datagrams_over_two_links_match_numbers() {
    // 1000 bytes and 28 of headers take 0.8224 ms at 10 Mbit/s and 0.08224 ms at 100; 5 and 10 ms of
    // propagation.
    let links = vec![link("a", ["S", "R"], wire(10, 5, 10)), link("b", ["R", "D"], wire(100, 10, 10))];
    let result = run(&scenario(10, links, vec![udp("F", ["S", "D"], 8)]));
    let flow = &result.flows[0];
    // One datagram per millisecond from 0 on; the last ones are in flight at the end.
    assert_eq!((flow.written_bytes, flow.delivered_bytes), (10_000_000, 9_985_000));
    let delay = flow.delivery_delay_s.expect("datagrams arrived");
    assert!(close(delay.mean, 0.015_904_64, 1e-9) && close(delay.p99, 0.015_904_64, 0.01), "{delay:?}");
    assert_eq!(
        (flow.paths[0].name.as_str(), flow.paths[0].links.clone()),
        ("a>b", vec!["a".into(), "b".into()])
    );
    assert!(close(flow.goodput_bps, 7.988e6, 1e-9), "{}", flow.goodput_bps);
    let first = &result.links[0];
    assert_eq!((first.packets, first.bytes, first.drops, first.occupancy.max), (10_000, 10_280_000, 0, 0));
    assert!(close(first.utilisation, 0.8224, 1e-9), "{}", first.utilisation);
    assert_eq!(result.links[1].packets, 0, "no packet in the reverse direction");
    // A wake-up for each datagram, its arrival at R and its arrival at D; the last ones are in flight.
    assert_eq!(result.events, Some(10_000 + 9_995 + 9_985));
}

#[test]
fn overloaded_queue_drops_the_excess() {
    // 16 Mbit/s of payload into 10 Mbit/s: 1216 packets a second leave, ten wait.
    let links = vec![link("a", ["S", "D"], wire(10, 5, 10))];
    let base = scenario(20, links, vec![udp("F", ["S", "D"], 16)]);
    let result = run(&Scenario { warmup: Duration::from_secs(10), ..base });
    let link = &result.links[0];
    assert!(close(link.utilisation, 1.0, 1e-6));
    assert!(close(result.flows[0].goodput_bps, 10e6 * 1000.0 / 1028.0, 1e-3));
    let waiting = 40_000 - link.packets - link.drops;
    assert!((9..=10).contains(&waiting), "{waiting}");
    assert!(link.occupancy.mean > 9.0 && link.occupancy.max == 10, "{:?}", link.occupancy);
    assert_eq!(link.drops, link.drops_by_cause["queue"]);
    // A full queue of ten and on average half a packet in transmission, then 5 ms.
    let delay = result.flows[0].delivery_delay_s.expect("datagrams arrived").mean;
    assert!(close(delay, 0.005 + 0.000_822_4 * 10.7, 0.05), "{delay}");
}

#[test]
fn file_takes_the_computed_time() {
    // 10 segments of 1448 bytes fit the initial window: one round trip for the handshake, half a one for the
    // data.
    let links = vec![link("a", ["S", "D"], wire(1000, 50, 100))];
    let mut flow = saturated("F", ["S", "D"], Protocol::Tcp(tcp()), "reno");
    flow.workload = Workload::File { size: MessageSize::Constant(14_480), message: None, arrivals: None };
    flow.start = Time::ZERO + Duration::from_secs(1);
    let result = run(&scenario(5, links, vec![flow]));
    let completion = result.flows[0].completion_s.expect("the file arrives");
    // Transmission of a SYN in each direction and of ten full packets, at 8 ns per byte.
    let sending = 8e-9 * (2.0 * 60.0 + 10.0 * 1500.0);
    assert!((0.150..0.150 + 2.0 * sending).contains(&completion), "{completion}");
    assert_eq!(result.flows[0].state, "closed");
    assert_eq!(result.flows[0].paths[0].retransmissions, 0);
}

#[test]
fn goodput_excludes_the_warm_up() {
    let links = vec![link("a", ["S", "D"], wire(10, 1, 100))];
    let mut flow = udp("F", ["S", "D"], 4);
    flow.stop = Some(Time::ZERO + Duration::from_secs(6));
    let base = scenario(10, links, vec![flow]);
    let result = run(&Scenario { warmup: Duration::from_secs(2), ..base });
    // The goodput covers 4 of the measured 8 seconds; the bytes cover all 6 seconds.
    assert!(close(result.flows[0].goodput_bps, 2e6, 0.01), "{}", result.flows[0].goodput_bps);
    assert!(close(result.flows[0].delivered_bytes as f64, 3e6, 1e-9));
    assert!(close(result.links[0].utilisation, 0.5 * 0.4 * 1.028, 0.01), "{}", result.links[0].utilisation);
}

#[test]
fn events_change_a_link() {
    let links = vec![link("a", ["S", "D"], wire(10, 1, 100))];
    let at = |second, directions, change| {
        Event::link(Time::ZERO + Duration::from_secs(second), (0, directions), vec![change])
    };
    let events = vec![
        at(2, Directions::Forward, Change::Loss(Loss::Bernoulli(Bernoulli { rate: 1.0 }))),
        at(3, Directions::Both, Change::Loss(Loss::None(none::None))),
        at(4, Directions::Both, Change::State { up: false }),
        at(5, Directions::Both, Change::State { up: true }),
        at(6, Directions::Reverse, Change::State { up: false }),
        at(7, Directions::Forward, Change::Delay(Duration::from_millis(500))),
    ];
    let base = scenario(10, links, vec![udp("F", ["S", "D"], 8)]);
    let result = run(&Scenario { events, ..base });
    let drops = &result.links[0].drops_by_cause;
    // The link loses 1000 datagrams in the second with losses. In the second without the link, 1000 are
    // dropped, and one that was in flight at 4 s.
    assert_eq!((drops["loss"], drops["down"]), (1000, 1001));
    assert!(result.flows[0].delivered_bytes < 10_000_000 - 2_000_000 - 500_000);
    assert!(result.flows[0].delivery_delay_s.expect("datagrams arrived").p99 > 0.49);
}

#[test]
fn too_large_packets_are_dropped_and_counted() {
    let narrow = LinkModel { mtu: 600, ..wire(10, 1, 100) };
    let links = vec![link("a", ["S", "R"], wire(10, 1, 100)), link("b", ["R", "D"], narrow)];
    // By default a flow takes its packet size from its links: 572 and 428 bytes.
    let fits = run(&scenario(2, links.clone(), vec![udp("F", ["S", "D"], 4)]));
    assert_eq!((fits.links[2].drops, fits.links[2].packets), (0, 2000));
    // A larger packet size can be set.
    let mut flow = udp("F", ["S", "D"], 4);
    flow.mtu = Some(1500);
    let blocked = run(&scenario(2, links, vec![flow]));
    assert_eq!((blocked.links[2].drops_by_cause["mtu"], blocked.flows[0].delivered_bytes), (1000, 0));
}

#[test]
fn errors_name_the_problem() {
    let links = vec![link("a", ["S", "D"], wire(10, 1, 100))];
    let mut flow = udp("F", ["S", "D"], 4);
    flow.workload = Workload::Saturated { message: Some(MessageSize::Constant(1000)) };
    let error =
        anabranch_sim::run(&scenario(1, links.clone(), vec![flow]), &RunOptions::default()).unwrap_err();
    assert!(error.to_string().starts_with("flow \"F\": UDP gives no feedback"), "{error}");
    let pcap = Some(PathBuf::from("/nowhere/at/all.pcapng").into());
    let options = RunOptions { pcap, ..RunOptions::default() };
    let error = anabranch_sim::run(&scenario(1, links, vec![udp("F", ["S", "D"], 4)]), &options).unwrap_err();
    assert!(matches!(error, RunError::File { .. }) && error.to_string().contains("/nowhere/at/all.pcapng"));
}

/// Nine addresses at each end make 81 pairs: a flow must not silently use fewer of them than configured.
#[test]
fn too_many_paths_are_refused() {
    let links = |count: usize| -> Vec<Link> {
        (0..count).map(|number| link(&format!("l{number}"), ["S", "R"], wire(10, 1, 10))).collect()
    };
    let meshed = |count: usize, flow: Flow| {
        let far = links(count).into_iter().map(|near| Link {
            name: format!("far-{}", near.name),
            between: ["R", "D"].map(String::from),
            ..near
        });
        anabranch_sim::run(
            &scenario(1, links(count).into_iter().chain(far).collect(), vec![flow]),
            &RunOptions::default(),
        )
    };
    let mut full = sctp(true);
    full.set("paths", "fullmesh").unwrap();
    for protocol in [mptcp(), full] {
        let flow = saturated("F", ["S", "D"], protocol, "lia");
        let error = meshed(9, flow.clone()).unwrap_err().to_string();
        let expected = "flow \"F\": its hosts' addresses make 81 paths, and a connection has at most 64; remove \
                    links or addresses, or set paths to a value with fewer";
        assert_eq!(error, expected);
        assert_eq!(meshed(8, flow).unwrap().flows[0].paths.len(), 64);
    }
}

/// The link goes down after a second: the timeout doubles until it reaches its upper bound.
#[test]
fn timeout_backs_off_to_its_upper_bound() {
    let down = Event::link(
        Time::ZERO + Duration::from_secs(1),
        (0, Directions::Forward),
        vec![Change::Loss(Loss::Bernoulli(Bernoulli { rate: 1.0 }))],
    );
    for protocol in [Protocol::Tcp(tcp()), mptcp(), sctp(false), sctp(true)] {
        for rto_max in [3_u64, 7] {
            let mut flow = saturated("F", ["S", "D"], protocol.clone(), "lia");
            flow.protocol.set("rto_max", &format!("{rto_max} s")).unwrap();
            let base = scenario(30, vec![link("a", ["S", "D"], wire(10, 10, 50))], vec![flow]);
            let result = run(&Scenario { events: vec![down.clone()], ..base });
            let path = &result.flows[0].paths[0];
            assert!(close(path.rto_s, rto_max as f64, 1e-9), "{}: {path:#?}", result.flows[0].protocol);
        }
    }
}

#[test]
fn mapping_checksums_are_sent_if_requested() {
    let capture = std::env::temp_dir().join(format!("anabranch-checksums-{}.pcapng", std::process::id()));
    let options =
        RunOptions { pcap: Some(capture.clone().into()), check_wire: true, ..RunOptions::default() };
    let captured = ["false", "true"].map(|dss_checksum| {
        let mut protocol = mptcp();
        protocol.set("dss_checksum", dss_checksum).unwrap();
        let links = vec![link("a", ["S", "D"], wire(10, 10, 50))];
        let flow = saturated("F", ["S", "D"], protocol, "lia");
        let result = anabranch_sim::run(&scenario(2, links, vec![flow]), &options).expect("the run succeeds");
        assert_eq!(result.flows[0].counters["checksum_failures"], 0);
        std::fs::read(&capture).expect("the capture")
    });
    std::fs::remove_file(&capture).expect("the capture exists");
    // The first option of the first packet is MP_CAPABLE, version 1: 0x80 requests checksums (RFC 8684 §3.1).
    let asks = captured.map(|bytes| {
        let at = bytes.windows(3).position(|three| three[..2] == [30, 4] && three[2] == 0x01);
        bytes[at.expect("MP_CAPABLE") + 3] & 0x80 != 0
    });
    assert_eq!(asks, [false, true]);
}

/// The peer never answers. The handshake of an association fails after its limit of attempts, and an open
/// association fails after its limit of errors.
#[test]
fn association_aborts_after_its_error_limit() {
    let state = |down_ms: u64, limit: &str, most: &str| {
        let mut protocol = sctp(false);
        protocol.set(limit, most).unwrap();
        protocol.set("rto_max", "1 s").unwrap();
        let flow = saturated("F", ["S", "D"], protocol, "reno");
        let down = Event::link(
            Time::ZERO + Duration::from_millis(down_ms),
            (0, Directions::Forward),
            vec![Change::Loss(Loss::Bernoulli(Bernoulli { rate: 1.0 }))],
        );
        let base = scenario(30, vec![link("a", ["S", "D"], wire(10, 10, 50))], vec![flow]);
        run(&Scenario { events: vec![down], ..base }).flows[0].state.clone()
    };
    for (most, expected) in [("5", "timed-out"), ("100", "opening")] {
        assert_eq!(state(0, "init_max_retrans", most), expected);
    }
    for (most, expected) in [("5", "timed-out"), ("100", "open")] {
        assert_eq!(state(2000, "association_max_retrans", most), expected);
    }
}

/// A datagram flow of 1000-byte messages over one link for `seconds`.
fn datagrams(seconds: u64, model: LinkModel, mbit: u64) -> RunResult {
    run(&scenario(seconds, vec![link("a", ["S", "D"], model)], vec![udp("F", ["S", "D"], mbit)]))
}

#[test]
fn datagram_delay_is_exact_with_long_queues() {
    // 1000 Mbit/s enter a link of 10 Mbit/s: one datagram in a hundred is queued, behind a thousand others.
    let result = datagrams(3, wire(10, 5, 1000), 1000);
    let delay = result.flows[0].delivery_delay_s.expect("datagrams arrived");
    let (transmission, full) = (0.000_822_4, 1001.0 * 0.000_822_4 + 0.005);
    assert!(delay.p99 <= full && delay.p99 > full - 2.0 * transmission, "{delay:?}");
    // The first thousand fill the queue one by one, the others arrive at a full queue.
    let count = result.flows[0].delivered_bytes as f64 / 1000.0;
    let filling = 1000.0 * (0.005 + 501.0 * transmission);
    let mean = (filling + (count - 1000.0) * full) / count;
    assert!(close(delay.mean, mean, 0.005), "{} for {mean}", delay.mean);
}

#[test]
fn long_queue_delays_all_datagrams() {
    // The load is twenty times the rate of the link; the queue grows by 1 - 1/20 of the arrivals, and each datagram waits for all
    // before it.
    let result = datagrams(20, wire(10, 0, 200_000), 200);
    let delay = result.flows[0].delivery_delay_s.expect("datagrams arrived");
    let slowness = 200.0 * 1028.0 / 1000.0 / 10.0;
    // A datagram that arrives after t was sent after t / slowness: on average over the 20 s, half of the
    // rest.
    let mean = 20.0 * (1.0 - 1.0 / slowness) / 2.0;
    assert!(close(delay.mean, mean, 0.001), "{} for {mean}", delay.mean);
}

#[test]
fn held_back_datagrams_have_their_delay() {
    let model = LinkModel {
        reorder: Some(Reorder { rate: 0.05, delay: Duration::from_millis(500) }),
        ..wire(100, 10, 100)
    };
    let result = datagrams(20, model, 80);
    let delay = result.flows[0].delivery_delay_s.expect("datagrams arrived");
    // All datagrams arrive except those that are held back in the last half second.
    let held = 0.05 * 19.49 / (0.95 * 19.99 + 0.05 * 19.49);
    let mean = 0.010_082_24 + held * 0.5;
    assert!(close(delay.mean, mean, 0.01), "{} for {mean}", delay.mean);
    assert!(close(delay.p99, 0.510_082_24, 0.001), "{}", delay.p99);
}
