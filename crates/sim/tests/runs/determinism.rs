//! Equal seeds give equal runs, independently of observation and of other parts of the scenario.

use anabranch_base::time::{Duration, Time};
use anabranch_netem::loss::bernoulli::Bernoulli;
use anabranch_netem::loss::none;
use anabranch_netem::queue::{codel, fifo, fq_codel, red};
use anabranch_sim::presets::{dumbbell, link, mptcp, saturated, scenario, sctp, tcp, wire};
use anabranch_sim::scenario::Scenario;
use anabranch_sim::scenario::model::{
    Change, Directions, Event, LinkModel, LinkRate, Loss, Protocol, Queue, QueueLimit, RateTrace, Reorder,
};
use anabranch_sim::{Progress, RunError, RunOptions, RunResult};
use std::path::Path;

const RED: Queue = Queue::Red(red::Settings {
    limit: QueueLimit::Packets(60),
    min: 10.0,
    max: 50.0,
    max_p: 0.1,
    weight: 0.01,
    gentle: false,
    ecn: true,
});

fn fair_queue() -> Queue {
    let law =
        codel::Law { target: Duration::from_millis(5), interval: Duration::from_millis(100), ecn: true };
    Queue::FqCodel(fq_codel::Settings { limit: QueueLimit::Packets(40), law, flows: 64, quantum: 1514 })
}

/// Every protocol, loss, reordering, jitter, RED, a flap and a warm-up in one scenario.
fn everything() -> Scenario {
    let noisy = LinkModel {
        loss: Loss::Bernoulli(Bernoulli { rate: 0.01 }),
        jitter: Duration::from_millis(2),
        reorder: Some(Reorder { rate: 0.01, delay: Duration::from_millis(10) }),
        ..wire(8, 10, 50)
    };
    let links = vec![
        link("near", ["S", "R"], wire(100, 1, 100)),
        link("red", ["R", "D"], LinkModel { queue: RED, ..wire(10, 5, 50) }),
        link("noisy", ["S", "D"], noisy),
    ];
    let between = ["S", "D"];
    let flows = vec![
        saturated("tcp", between, Protocol::Tcp(tcp()), "cubic"),
        saturated("mptcp", between, mptcp(), "olia"),
        saturated("sctp", between, sctp(true), "cmt-rpv2"),
        anabranch_sim::presets::udp("udp", between, 1),
    ];
    let flap = |at, up| {
        Event::link(Time::ZERO + Duration::from_secs(at), (2, Directions::Both), vec![Change::State { up }])
    };
    let base = scenario(12, links, flows);
    Scenario { warmup: Duration::from_secs(2), events: vec![flap(4, false), flap(6, true)], ..base }
}

fn run(options: &RunOptions) -> RunResult {
    anabranch_sim::run(&everything(), options).expect("the run succeeds")
}

/// The result without the duration of the run.
fn without_wall_time(result: RunResult) -> RunResult {
    RunResult { wall_s: 0.0, ..result }
}

#[test]
fn observation_does_not_change_the_run() {
    let plain = without_wall_time(run(&RunOptions::default()));
    assert_eq!(without_wall_time(run(&RunOptions::default())), plain, "twice");
    assert_eq!(
        without_wall_time(run(&RunOptions { check_wire: true, ..RunOptions::default() })),
        plain,
        "check_wire"
    );
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("determinism");
    std::fs::create_dir_all(&folder).expect("a folder for the capture");
    let pcap = Some(folder.join("run.pcapng").into());
    assert_eq!(without_wall_time(run(&RunOptions { pcap, ..RunOptions::default() })), plain, "pcap");
    let trace = Some(folder.join("trace"));
    assert_eq!(without_wall_time(run(&RunOptions { trace, ..RunOptions::default() })), plain, "trace");
    let other = run(&RunOptions { seed: Some(2), ..RunOptions::default() });
    assert_ne!(other.digest, plain.digest, "another seed changes the run");
}

/// Flows of every protocol, each with its own hosts and access links, over two bottlenecks that change in
/// every possible way: with much lookahead.
pub fn ahead(queue: &Queue, loss: &Loss) -> Scenario {
    let bottleneck = || LinkModel { queue: queue.clone(), loss: loss.clone(), ..wire(20, 10, 60) };
    let mut links = vec![
        link("one", ["R1", "R2"], bottleneck()),
        link("two", ["Q1", "Q2"], LinkModel { jitter: Duration::from_millis(1), ..wire(8, 25, 40) }),
    ];
    let mut flows = Vec::new();
    let mut join = |name: &str, protocol: Protocol, congestion: &str, paths: &[[&str; 2]]| {
        let [source, sink] = [format!("{name}-source"), format!("{name}-sink")];
        for (number, [near, far]) in paths.iter().enumerate() {
            links.push(link(&format!("{name}-up{number}"), [&source, near], wire(100, 1, 100)));
            links.push(link(&format!("{name}-down{number}"), [far, &sink], wire(15, 2, 100)));
        }
        flows.push(saturated(name, [&source, &sink], protocol, congestion));
    };
    let (one, two) = (["R1", "R2"], ["Q1", "Q2"]);
    join("tcp", Protocol::Tcp(tcp()), "cubic", &[one]);
    join("back", Protocol::Tcp(tcp()), "reno", &[["R2", "R1"]]);
    join("mptcp", mptcp(), "olia", &[one, two]);
    join("cmt", sctp(true), "cmt-rpv2", &[one, two]);
    join("udp", Protocol::Udp, "reno", &[one]);
    let udp = anabranch_sim::presets::udp("udp", ["udp-source", "udp-sink"], 3);
    *flows.last_mut().expect("a flow was just added") = udp;
    let at = |at, link, changes| {
        Event::link(Time::ZERO + Duration::from_millis(at), (link, Directions::Both), changes)
    };
    let rate = |mbit: u64| Change::Rate(anabranch_base::units::Rate::from_bits_per_second(mbit * 1_000_000));
    let events = vec![
        at(1500, 0, vec![Change::Delay(Duration::from_millis(4))]),
        at(1800, 2, vec![Change::Jitter(Duration::from_millis(3))]),
        at(2003, 1, vec![Change::State { up: false }]),
        at(2500, 0, vec![rate(6)]),
        at(3000, 0, vec![rate(0)]),
        at(3400, 0, vec![rate(25)]),
        at(
            3500,
            1,
            vec![Change::State { up: true }, Change::Loss(Loss::Bernoulli(Bernoulli { rate: 0.01 }))],
        ),
        at(4000, 0, vec![Change::State { up: false }]),
        at(4300, 0, vec![Change::State { up: true }, Change::Delay(Duration::from_millis(30))]),
        at(4600, 0, vec![Change::Jitter(Duration::from_millis(2))]),
        at(5000, 0, vec![Change::Queue(fair_queue()), Change::Jitter(Duration::ZERO)]),
        at(5500, 1, vec![Change::Queue(RED), Change::Jitter(Duration::ZERO)]),
        at(6000, 0, vec![Change::Queue(queue.clone())]),
    ];
    Scenario { warmup: Duration::from_millis(700), events, ..scenario(8, links, flows) }
}

#[test]
fn lookahead_does_not_change_the_run() {
    let fifo = Queue::Fifo(fifo::Settings { limit: QueueLimit::Packets(60) });
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ahead");
    for (queue, loss) in [(&fifo, 0.0), (&RED, 0.0), (&fifo, 0.005)] {
        let loss =
            if loss > 0.0 { Loss::Bernoulli(Bernoulli { rate: loss }) } else { Loss::None(none::None) };
        let scenario = ahead(queue, &loss);
        let run = |options: &RunOptions| {
            without_wall_time(anabranch_sim::run(&scenario, options).expect("the run succeeds"))
        };
        let plain = run(&RunOptions::default());
        assert!(plain.flows.iter().all(|flow| flow.delivered_bytes > 100_000), "{:#?}", plain.flows);
        assert_eq!(
            run(&RunOptions { in_order: true, ..RunOptions::default() }),
            plain,
            "{queue:?}, {loss:?}"
        );
        // Traces sample every ten milliseconds, which limits lookahead.
        let trace = Some(folder.clone());
        assert_eq!(run(&RunOptions { trace, ..RunOptions::default() }), plain, "{queue:?}, {loss:?}");
    }
}

/// Three flows over a bottleneck that follows a trace and has no delay; their own links are equal. Many events have
/// equal times, and arrivals at the bottleneck come from links before and behind it in the order of components.
fn trace_driven(seed: u64) -> Scenario {
    let opportunities = |every: u64, number: u64| LinkRate::Trace {
        file: "by hand".into(),
        content: RateTrace::Opportunities((1..=number).map(|n| n * every).collect()),
        offset: Duration::ZERO,
        offset_spread: Duration::ZERO,
    };
    let along = |every| LinkModel { rate: opportunities(every, 7), ..wire(1, 0, 20) };
    let mut links = Vec::new();
    let mut flows = Vec::new();
    for name in ["b", "a", "c"] {
        let [source, sink] = [format!("{name}-source"), format!("{name}-sink")];
        links.push(link(&format!("{name}-up"), [&source, "R1"], along(1)));
        if name == "a" {
            links.push(link("bottleneck", ["R1", "R2"], along(2)));
        }
        links.push(link(&format!("{name}-down"), ["R2", &sink], along(1)));
        flows.push(saturated(name, [&source, &sink], Protocol::Tcp(tcp()), "reno"));
    }
    links.rotate_left(seed as usize % 7);
    Scenario { seed, ..scenario(5, links, flows) }
}

/// A scenario with losses until its end.
fn lossy(seed: u64) -> Scenario {
    let lossy = LinkModel { loss: Loss::Bernoulli(Bernoulli { rate: 0.1 }), ..wire(5, 20, 50) };
    let mut links = vec![link("bottleneck", ["R1", "R2"], lossy.clone())];
    let mut flows = Vec::new();
    for name in ["a", "b"] {
        let [source, sink] = [format!("{name}-source"), format!("{name}-sink")];
        links.push(link(&format!("{name}-up"), [&source, "R1"], wire(100, 1, 100)));
        links.push(link(&format!("{name}-down"), ["R2", &sink], lossy.clone()));
        flows.push(saturated(name, [&source, &sink], Protocol::Tcp(tcp()), "reno"));
    }
    Scenario { seed, ..scenario(2, links, flows) }
}

#[test]
fn ties_and_late_losses_are_equal_with_lookahead() {
    for seed in 1..=40 {
        for scenario in [trace_driven(seed), lossy(seed)] {
            let run = |in_order| {
                let options = RunOptions { in_order, ..RunOptions::default() };
                without_wall_time(anabranch_sim::run(&scenario, &options).expect("the run succeeds"))
            };
            assert_eq!(run(false), run(true), "seed {seed}");
        }
    }
}

#[test]
fn result_round_trips_through_json() {
    let result = run(&RunOptions::default());
    let text = serde_json::to_string(&result).expect("a result is JSON");
    assert_eq!(serde_json::from_str::<RunResult>(&text).expect("and back"), result);
}

#[test]
fn added_component_does_not_shift_other_draws() {
    let lossy = LinkModel { loss: Loss::Bernoulli(Bernoulli { rate: 0.02 }), ..wire(10, 10, 50) };
    let pair = |number: usize| {
        let hosts = [format!("S{number}"), format!("D{number}")];
        let between = [&*hosts[0], &*hosts[1]];
        let flow = saturated(&format!("F{number}"), between, Protocol::Tcp(tcp()), "reno");
        (link(&format!("link{number}"), between, lossy.clone()), flow)
    };
    let run = |pairs: &[usize]| {
        let (links, flows) = pairs.iter().copied().map(pair).unzip();
        anabranch_sim::run(&scenario(10, links, flows), &RunOptions::default()).expect("the run succeeds")
    };
    let alone = run(&[1]);
    for crowd in [run(&[1, 2, 3]), run(&[1, 7])] {
        assert_eq!(crowd.flows[0], alone.flows[0]);
        assert_eq!(crowd.links[..2], alone.links[..2]);
    }
}

#[test]
fn run_can_be_stopped() {
    let scenario = dumbbell(20, 2, 10, 50);
    let mut seen = Vec::new();
    let outcome = anabranch_sim::run_with(&scenario, &RunOptions::default(), &mut |progress: Progress| {
        seen.push(progress.now);
        progress.now < Time::ZERO + Duration::from_secs(5)
    });
    assert!(matches!(outcome, Err(RunError::Interrupted { .. })), "{outcome:?}");
    let seconds: Vec<Time> = (0..=5).map(|second| Time::ZERO + Duration::from_secs(second)).collect();
    assert_eq!(seen, seconds);
}
