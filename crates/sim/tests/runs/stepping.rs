//! Runs in steps: pauses, samples and changes of links.

use super::cases::text::read;
use super::cases::{self, Case, case};
use super::determinism;
use anabranch_base::time::{Duration, Time};
use anabranch_base::units::Rate;
use anabranch_netem::loss::none;
use anabranch_netem::queue::fifo;
use anabranch_sim::scenario::model::{
    Change, Directions, Event, Loss, Protocol, Queue, QueueLimit, Scenario,
};
use anabranch_sim::scenario::{self, result};
use anabranch_sim::{RunOptions, RunResult, Simulation};
use anabranch_testkit::scenario_text::{LazyText, ScenarioText};
use core::mem::discriminant;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

const STEP: Duration = Duration::from_millis(20);

fn open(scenario: &Scenario) -> Simulation {
    Simulation::new(scenario.clone(), &RunOptions::default()).expect("a valid scenario")
}

fn run(scenario: &Scenario) -> RunResult {
    anabranch_sim::run(scenario, &RunOptions::default()).expect("the run succeeds")
}

/// Steps to the end, and samples after each step.
fn step(run: &mut Simulation, step: Duration) {
    while !run.is_over() {
        run.step_until(run.now() + step).expect("the run goes on");
        let sample = run.sample();
        assert_eq!(sample.now_ns, run.now().as_nanos());
    }
}

/// Random scenarios of all protocols with faults, the same ones each time, shortened to the time with faults.
fn random_cases(each: u32) -> Vec<Scenario> {
    let mut runner = TestRunner::deterministic();
    let mut draw = |protocol: BoxedStrategy<Protocol>| {
        let strategy = case(protocol);
        let mut one = || {
            let Case { scenario, .. } = strategy.new_tree(&mut runner).expect("a case").current();
            Scenario { duration: Duration::from_secs(31), ..scenario }
        };
        (0..each).map(|_| one()).collect::<Vec<_>>()
    };
    [cases::tcp().boxed(), cases::mptcp().boxed(), cases::sctp().boxed()].map(&mut draw).concat()
}

/// A scenario with much lookahead, and with a change of every kind.
fn much_lookahead() -> Scenario {
    let queue = Queue::Fifo(fifo::Settings { limit: QueueLimit::Packets(60) });
    determinism::ahead(&queue, &Loss::None(none::None))
}

#[test]
fn pauses_and_samples_do_not_change_runs() {
    let mut scenarios = random_cases(20);
    scenarios.push(much_lookahead());
    for scenario in &scenarios {
        let mut stepped = open(scenario);
        step(&mut stepped, STEP);
        assert_eq!(stepped.result(), run(scenario), "{scenario:#?}");
    }
}

#[test]
fn reading_the_digest_does_not_change_the_run() {
    let scenario = much_lookahead();
    let mut stepped = open(&scenario);
    let mut digests = Vec::new();
    while !stepped.is_over() {
        stepped.step_until(stepped.now() + Duration::from_millis(100)).expect("the run goes on");
        digests.push(stepped.digest());
    }
    assert_eq!(Some(format!("{:016x}", stepped.digest())), run(&scenario).digest);
    assert!(digests.windows(2).all(|pair| pair[0] != pair[1]), "packets arrive in each interval");
}

/// Runs a scenario without its events, which the test orders at their times instead.
fn run_with_orders(scenario: &Scenario) -> Simulation {
    let mut run = open(&Scenario { events: Vec::new(), ..scenario.clone() });
    for event in &scenario.events {
        run.step_until(event.at).expect("the run goes on");
        let event = event.of_link().expect("the event changes a link");
        for change in &event.changes {
            run.order(event.link, event.directions, change.clone()).expect("a valid order");
        }
    }
    run.step_until(Time::MAX).expect("the run goes on");
    run
}

/// A scenario whose events have one change each. Of several changes of a value at the same time, only the first remains.
fn separated(scenario: &Scenario) -> Scenario {
    let mut events: Vec<Event> = Vec::new();
    for event in &scenario.events {
        let link = event.of_link().expect("the event changes a link");
        for change in &link.changes {
            let same = |other: &Event| {
                let known = other.of_link().expect("the event changes a link");
                (other.at, known.link) == (event.at, link.link)
                    && discriminant(&known.changes[0]) == discriminant(change)
            };
            if !events.iter().any(same) {
                events.push(Event::link(event.at, (link.link, link.directions), vec![change.clone()]));
            }
        }
    }
    Scenario { events, ..scenario.clone() }
}

#[test]
fn orders_equal_events_of_the_file() {
    let mut scenarios = random_cases(50);
    scenarios.push(much_lookahead());
    let mut orders = 0;
    for scenario in scenarios.iter().map(separated) {
        let mut ordered = run_with_orders(&scenario);
        assert_eq!(ordered.scenario(), &scenario);
        assert_eq!(Some(format!("{:016x}", ordered.digest())), run(&scenario).digest, "{scenario:#?}");
        orders += scenario.events.len();
    }
    assert!(orders > 300, "{orders} orders");
}

static TEXT: LazyText = LazyText::new(|| {
    ScenarioText::new("duration = '4 s'")
        .link("wlan", ["S", "R"], "rate = '8 Mbit/s', delay = '10 ms'")
        .keys("queue = { kind = 'fifo', limit = '50 packets' }")
        .keys("reverse = { queue = { kind = 'codel', limit = '80 packets' } }")
        .link("far", ["R", "D"], "rate = '20 Mbit/s', delay = '5 ms'")
        .flow("F", ["S", "D"], "protocol = 'tcp', congestion = 'reno'")
});

const fn ms(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

fn stepped_to(millis: u64) -> Simulation {
    let mut run = open(&read(&TEXT, &[]));
    run.step_until(ms(millis)).expect("the run goes on");
    run
}

#[test]
fn exported_scenario_repeats_orders() {
    let mut ordered = stepped_to(500);
    let order = |run: &mut Simulation, text: &str| run.order_json(text).expect("a valid order");
    order(
        &mut ordered,
        r#"{"link": "wlan", "direction": "forward", "set": {"queue": {"kind": "red"}, "jitter": "2 ms"}}"#,
    );
    ordered.step_until(ms(1250)).expect("the run goes on");
    order(
        &mut ordered,
        r#"{"link": "wlan", "set": {"queue": {"limit": "7 packets"}, "loss": {"model": "bernoulli", "rate": 0.01}}}"#,
    );
    ordered.step_until(ms(2000)).expect("the run goes on");
    order(
        &mut ordered,
        r#"{"link": "far", "set": {"queue": {"kind": "fq-codel"}, "rate": "3 Mbit/s", "jitter": "0 ms"}}"#,
    );
    ordered.step_until(Time::MAX).expect("the run goes on");
    let exported = scenario::to_toml(ordered.scenario());
    let replayed = read(&exported, &[]);
    assert_eq!(&replayed, ordered.scenario());
    assert_eq!(Some(format!("{:016x}", ordered.digest())), run(&replayed).digest);
    // A file with the same changes as events; values that a change of the queue omits are completed in the same way.
    let by_hand = format!(
        r#"{TEXT}
[[event]]
at = "2 s"
link = "far"
set = {{ queue = {{ kind = "fq-codel" }}, rate = "3 Mbit/s", jitter = "0 ms" }}

[[event]]
at = "1.25 s"
link = "wlan"
set = {{ queue = {{ limit = "7 packets" }}, loss = {{ model = "bernoulli", rate = 0.01 }} }}

[[event]]
at = "0.5 s"
link = "wlan"
direction = "forward"
set = {{ queue = {{ kind = "red" }}, jitter = "2 ms" }}
"#
    );
    assert_eq!(run(&read(&by_hand, &[])).digest, run(&replayed).digest);
}

#[test]
fn later_order_replaces_one_of_the_same_time() {
    let rate = |mbit: u64| Change::Rate(Rate::from_bits_per_second(mbit * 1_000_000));
    let mut run = stepped_to(300);
    run.order(0, Directions::Both, rate(1)).expect("a valid order");
    run.order(0, Directions::Both, Change::Delay(Duration::from_millis(3))).expect("a valid order");
    run.order(1, Directions::Both, rate(5)).expect("a valid order");
    run.order(0, Directions::Forward, rate(2)).expect("a valid order");
    let event = |link, directions, change| Event::link(ms(300), (link, directions), vec![change]);
    let expected = [
        event(0, Directions::Reverse, rate(1)),
        event(0, Directions::Both, Change::Delay(Duration::from_millis(3))),
        event(1, Directions::Both, rate(5)),
        event(0, Directions::Forward, rate(2)),
    ];
    assert_eq!(run.scenario().events, expected);
    run.order(0, Directions::Both, rate(3)).expect("a valid order");
    let kept = [expected[1].clone(), expected[2].clone(), event(0, Directions::Both, rate(3))];
    assert_eq!(run.scenario().events, kept);
    run.step_until(ms(301)).expect("the run goes on");
    run.order(0, Directions::Both, rate(4)).expect("a valid order");
    assert_eq!(run.scenario().events.len(), 4, "an order that has taken effect stays");
    assert_eq!(
        run.scenario().links_after(run.events_done())[0].forward.delay.min(),
        Duration::from_millis(3)
    );
}

#[test]
fn orders_renumber_links_and_change_flows() {
    let mut ordered = open(&read(&TEXT.replace("\"tcp\"", "\"mptcp\""), &[]));
    ordered.step_until(ms(300)).expect("the run goes on");
    for order in [
        r#"{"link": "wlan", "set": {"state": "up", "address": "new"}}"#,
        r#"{"flow": "F", "set": {"backup": ["wlan"]}}"#,
        r#"{"flow": "F", "set": {"backup": ["far"]}}"#,
    ] {
        ordered.order_json(order).unwrap_or_else(|error| panic!("{error}"));
    }
    let written = scenario::to_toml(ordered.scenario());
    assert_eq!(written.matches("[[event]]").count(), 2, "{written}");
    assert!(written.contains(r#"address = "new""#) && written.contains(r#"backup = ["far"]"#), "{written}");
    ordered.step_until(Time::MAX).expect("the run goes on");
    let replayed = scenario::parse(&written, "replayed.toml", &[]).expect("the text is a scenario");
    assert_eq!(Some(format!("{:016x}", ordered.digest())), run(&replayed).digest);
    let report = ordered.result();
    let names: Vec<_> = report.flows[0].paths.iter().map(|path| path.name.as_str()).collect();
    assert!(names.contains(&"wlan>far#2"), "{names:?}");
}

#[test]
fn invalid_orders_are_refused() {
    let refused =
        |run: &mut Simulation, order: &str| run.order_json(order).expect_err("an invalid order").message;
    let mut run = stepped_to(300);
    for (order, message) in [
        (
            "[]",
            "the order is not a table of values; write for example {\"link\": \"wlan\", \"set\": {\"rate\": \"5 Mbit/s\"}}",
        ),
        (
            r#"{"link": "wln", "set": {"rate": "1 Mbit/s"}}"#,
            "the order: there is no link \"wln\"; did you mean \"wlan\"?",
        ),
        (
            r#"{"link": "wlan", "set": {}}"#,
            "set of the order changes nothing; give at least one of state, address, rate, delay, jitter, loss, queue, reorder",
        ),
        (
            r#"{"link": "wlan", "set": {"rate": 5}}"#,
            "set.rate of the order is 5, which has no unit; write for example \"5 Mbit/s\" or \"5 bit/s\" (units: bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s)",
        ),
        (
            r#"{"link": "wlan", "set": {"queue": {"limit": "10 B"}}}"#,
            "queue.limit of the order is 10 bytes, less than one packet of its mtu (1500 bytes); increase it",
        ),
        (
            r#"{"link": "wlan", "at": "1 s", "set": {"state": "down"}}"#,
            "the order does not take \"at\"; it belongs to [[event]]",
        ),
    ] {
        assert_eq!(refused(&mut run, order), message);
    }
    assert_eq!(run.scenario().events, []);
    let none = run.order(9, Directions::Both, Change::State { up: false }).expect_err("no such link");
    assert_eq!(none.message, "there is no link with the index 9; the scenario has 2");
    run.step_until(Time::MAX).expect("the run goes on");
    let order = r#"{"link": "wlan", "set": {"state": "down"}}"#;
    assert_eq!(refused(&mut run, order), "the run is over; give orders before its end");
}

#[test]
fn order_against_an_event_of_the_file_is_refused() {
    let text = format!("{TEXT}\n[[event]]\nat = \"1 s\"\nlink = \"wlan\"\nset = {{ delay = \"1 ms\" }}\n");
    let mut run = open(&read(&text, &[]));
    run.step_until(ms(1000)).expect("the run goes on");
    let error = run.order_json(r#"{"link": "wlan", "set": {"delay": "2 ms"}}"#).expect_err("a conflict");
    let message =
        "an event of the scenario sets the same value of link \"wlan\" at this time; go on before the order";
    assert_eq!(error.message, message);
    run.order_json(r#"{"link": "wlan", "set": {"rate": "2 Mbit/s"}}"#).expect("another value");
}

#[test]
fn lower_limit_drops_from_the_tail() {
    let mut run = stepped_to(3000);
    let before = run.sample().links[0].forward.clone();
    assert!(before.queue_packets > 7, "{before:?}");
    let order = r#"{"link": "wlan", "direction": "forward", "set": {"queue": {"limit": "5 packets"}}}"#;
    run.order_json(order).expect("a valid order");
    run.step_until(Time::from_nanos(3_000_000_001)).expect("the run goes on");
    let after = run.sample().links[0].forward.clone();
    assert_eq!(after.queue_packets, 5);
    assert_eq!(after.drops["changed"] - before.drops["changed"], before.queue_packets - 5);
}

#[test]
fn sample_has_windows_queues_and_bytes() {
    let mut run = stepped_to(1000);
    let sample = run.sample();
    let flow = &sample.flows[0];
    let path = &flow.paths[0];
    assert_eq!(
        (path.name.as_str(), &path.links[..]),
        ("wlan>far", &["wlan".to_owned(), "far".to_owned()][..])
    );
    // 8 Mbit/s for less than a second, headers excluded.
    assert!((800_000..1_000_000).contains(&flow.delivered_bytes), "{flow:?}");
    assert_eq!(path.delivered_bytes, flow.delivered_bytes + flow.receive_buffer_bytes);
    assert!(path.in_flight_bytes <= path.cwnd_bytes && path.in_flight_bytes > 50 * 1000, "{path:?}");
    let life: f64 = path.limited_s.values().sum();
    assert!((life - 1.0).abs() < 1e-6, "{life}");
    let queue = sample.links[0].forward.queue_packets;
    assert!(queue > 0 && queue <= 50 && sample.links[0].forward.up, "{queue}");
    assert_eq!((sample.now_ns, sample.over), (1_000_000_000, false));
}

/// A sink in memory.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no thread panicked").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn sinks_get_the_content_of_files() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("stepping");
    let pcap = folder.with_extension("pcapng");
    let scenario = read(&TEXT, &[("duration", "0.3 s")]);
    let options =
        RunOptions { trace: Some(folder.clone()), pcap: Some(pcap.clone().into()), ..RunOptions::default() };
    anabranch_sim::run(&scenario, &options).expect("the run succeeds");
    let mut run = open(&scenario);
    let mut files = Vec::new();
    let mut open = |name: &str| {
        let file = Memory::default();
        files.push((name.to_owned(), file.clone()));
        Ok::<result::Sink, io::Error>(Box::new(file))
    };
    run.trace_into(&mut open).expect("memory is writable");
    let capture = Memory::default();
    run.capture_into(Box::new(capture.clone()), &result::capture::Settings::default())
        .expect("memory is writable");
    step(&mut run, STEP);
    assert_eq!(files.len(), 5);
    files.push(("../stepping.pcapng".to_owned(), capture));
    for (name, file) in files {
        let written = std::fs::read(folder.join(&name)).expect("the file exists");
        assert!(*file.0.lock().expect("no thread panicked") == written && written.len() > 40, "{name}");
    }
}

proptest! {
    #![proptest_config(Config { cases: 40, ..Config::default() })]

    /// For any times of steps, the run is the same.
    #[test]
    fn any_steps_give_the_same_run(stops in prop::collection::vec(0_u64..4_100_000_000, 0..30)) {
        let scenario = read(&TEXT, &[]);
        let mut run = open(&scenario);
        for stop in stops {
            run.step_until(Time::from_nanos(stop)).expect("the run goes on");
        }
        run.step_until(Time::MAX).expect("the run goes on");
        prop_assert_eq!(Some(format!("{:016x}", run.digest())), super::stepping::run(&scenario).digest);
    }
}
