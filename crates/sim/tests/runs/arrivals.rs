//! Flows whose connections arrive during the run.

use anabranch_base::time::{Duration, Time};
use anabranch_sim::scenario::result::{FlowResult, Quantiles};
use anabranch_sim::scenario::{self, Scenario};
use anabranch_sim::{RunOptions, RunResult, Simulation};

/// Runs a scenario three times: with lookahead, in order of time, and with every packet checked. The results
/// must be equal.
fn run(scenario: &Scenario) -> RunResult {
    let run = |options| anabranch_sim::run(scenario, &options).expect("the run succeeds");
    let result = run(RunOptions::default());
    assert_eq!(run(RunOptions { in_order: true, ..RunOptions::default() }), result, "in order");
    assert_eq!(run(RunOptions { check_wire: true, ..RunOptions::default() }), result, "with packets checked");
    result
}

fn parse(text: &str) -> Scenario {
    scenario::parse(text, "arrivals.toml", &[]).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// A link of 10 Mbit/s and 20 ms with this flow.
fn on_a_link(head: &str, flow: &str) -> Scenario {
    parse(&format!(
        "duration = \"20 s\"\n{head}\n[[link]]\nname = \"L\"\nbetween = [\"C\", \"S\"]\nrate = \"10 Mbit/s\"\n\
         delay = \"20 ms\"\nqueue = {{ kind = \"fifo\", limit = \"100 packets\" }}\n[[flow]]\nfrom = \"S\"\nto = \"C\"\n\
         protocol = \"tcp\"\n{flow}"
    ))
}

fn only(result: &RunResult) -> &FlowResult {
    &result.flows[0]
}

/// The numbers of arrivals, unfinished and refused connections.
fn counts(flow: &FlowResult) -> [u64; 3] {
    [flow.arrived, flow.unfinished, flow.refused].map(|count| count.expect("a flow with arrivals"))
}

#[test]
fn files_that_do_not_overlap_take_equal_time() {
    let file = "workload = { kind = \"file\", size = \"100 kB\"";
    let single = run(&on_a_link("", &format!("{file} }}")));
    let alone = only(&single).completion_s.expect("the file is complete");
    assert_eq!(only(&single).arrived, None);
    let every = "arrivals = { mean_interval = \"1 s\", distribution = \"constant\", count = 5 }";
    let result = run(&on_a_link("", &format!("start = \"500 ms\"\n{file}, {every} }}")));
    let flow = only(&result);
    assert_eq!((counts(flow), flow.state.as_str(), flow.start_s), ([5, 0, 0], "closed", 0.5));
    assert_eq!((flow.delivered_bytes, flow.written_bytes), (500_000, 500_000));
    assert!((flow.goodput_bps - 8.0 * 500_000.0 / 20.0).abs() < 1e-6, "{}", flow.goodput_bps);
    let times = flow.completion_time_s.expect("all finish");
    assert!((times.mean - alone).abs() < 1e-9 && times.p99 - times.p50 < 1e-9, "{times:?} for {alone}");
    assert_eq!(flow.slowdown, Some(Quantiles { mean: 1.0, p50: 1.0, p95: 1.0, p99: 1.0 }));
}

#[test]
fn arrivals_beyond_the_limit_are_refused() {
    // A file takes 0.26 s, its connection a round trip of 0.04 s longer: of the arrivals every 0.1 s, the
    // first, fourth, seventh and tenth find the only slot free.
    let every =
        "arrivals = { mean_interval = \"100 ms\", distribution = \"constant\", count = 10, max_open = 1 }";
    let file = format!("workload = {{ kind = \"file\", size = \"150 kB\", {every} }}");
    let result = run(&on_a_link("", &file));
    let flow = only(&result);
    let [arrived, unfinished, refused] = counts(flow);
    assert_eq!((arrived, unfinished), (10, 0));
    let time = flow.completion_time_s.expect("some finish").mean;
    let places = 1 + 9 / ((time + 0.04) / 0.1).ceil() as u64;
    assert_eq!(refused, 10 - places, "{time}");
    assert_eq!(flow.delivered_bytes, places * 150_000);
}

#[test]
fn overlapping_files_slow_each_other_down() {
    let every = "arrivals = { mean_interval = \"1 ms\", distribution = \"constant\", count = 4 }";
    let result = run(&on_a_link("", &format!("workload = {{ kind = \"file\", size = \"1 MB\", {every} }}")));
    let slowdown = only(&result).slowdown.expect("files are complete");
    // Four files share the link: the last one takes at least the transmission time of all, 3.3 s instead of 0.9 s.
    assert!(slowdown.p99 > 3.0 && slowdown.p99 < 5.0 && slowdown.p50 > 1.5, "{slowdown:?}");
}

#[test]
fn file_that_does_not_end_in_time_is_unfinished() {
    let every = "arrivals = { mean_interval = \"15 s\", distribution = \"constant\" }";
    let result = run(&on_a_link("", &format!("workload = {{ kind = \"file\", size = \"10 MB\", {every} }}")));
    let flow = only(&result);
    assert_eq!((counts(flow), flow.state.as_str()), ([2, 1, 0], "open"));
    assert!(flow.delivered_bytes > 10_000_000 && flow.written_bytes > flow.delivered_bytes);
}

#[test]
fn every_protocol_carries_random_arrivals() {
    let protocols = [
        "protocol = \"tcp\"",
        "protocol = \"tcp\"\ndirection = \"reverse\"",
        "protocol = \"mptcp\"\npaths = \"fullmesh\"",
        "protocol = \"sctp\"",
        "protocol = \"cmt-sctp\"\ncongestion = \"cmt-rpv2\"",
    ];
    for protocol in protocols {
        let scenario = parse(&format!(
            "duration = \"30 s\"\nwarmup = \"5 s\"\n[link_defaults]\nrate = \"10 Mbit/s\"\ndelay = \"10 ms\"\n\
             loss = {{ model = \"bernoulli\", rate = 0.02 }}\nreorder = {{ rate = 0.01, delay = \"5 ms\" }}\nduplicate = {{ rate = 0.01 }}\n\
             [[link]]\nname = \"a\"\nbetween = [\"C\", \"S\"]\n[[link]]\nname = \"b\"\nbetween = [\"C\", \"S\"]\n\
             [[flow]]\nfrom = \"S\"\nto = \"C\"\n{protocol}\nworkload = {{ kind = \"file\", size = {{ pareto = {{ min = \"5 kB\", \
             shape = 1.3, max = \"500 kB\" }} }}, arrivals = {{ mean_interval = \"50 ms\", count = 400, max_open = 20 }} }}"
        ));
        let result = run(&scenario);
        let flow = only(&result);
        let [arrived, unfinished, refused] = counts(flow);
        assert_eq!((arrived, unfinished, flow.state.as_str()), (400, 0, "closed"), "{protocol}");
        assert!(refused < 200, "{protocol}: {refused}");
        assert_eq!(flow.delivered_bytes, flow.written_bytes, "{protocol}");
        let slowdown = flow.slowdown.expect("files are complete");
        assert!(slowdown.mean > 1.0 && slowdown.p50 > 0.9, "{protocol}: {slowdown:?}");
    }
}

#[test]
fn events_apply_to_open_and_later_connections() {
    let down = "[[event]]\nat = \"5 s\"\nlink = \"L\"\nset = { state = \"down\" }\n[[event]]\nat = \"8 s\"\nlink = \"L\"\n\
                set = { state = \"up\", address = \"new\" }\n";
    let every = "arrivals = { mean_interval = \"100 ms\", count = 100, max_open = 10 }";
    let flow = format!(
        "user_timeout = \"2 s\"\nworkload = {{ kind = \"file\", size = \"20 kB\", {every} }}\n{down}"
    );
    let result = run(&on_a_link("", &flow));
    let flow = only(&result);
    let [arrived, unfinished, refused] = counts(flow);
    assert_eq!(arrived, 100);
    assert!(unfinished > 0 && refused > 0, "{unfinished} {refused}: connections of the outage");
    assert!(
        arrived - unfinished - refused > 40,
        "{unfinished} {refused}: files before and after the event are complete"
    );
}

#[test]
fn memory_depends_on_open_connections() {
    let entries = |count: u64| {
        let every = format!("arrivals = {{ mean_interval = \"5 ms\", count = {count}, max_open = 50 }}");
        let flow = format!("workload = {{ kind = \"file\", size = \"2 kB\", {every} }}");
        let mut scenario = on_a_link("", &flow);
        scenario.duration = Duration::from_secs(200);
        let mut run = Simulation::new(scenario, &RunOptions::default()).expect("a simulation");
        run.step_until(Time::ZERO + Duration::from_millis(5 * count + 2_000)).expect("no error");
        (run.flows().len(), run.host_entries().iter().map(|(connections, _)| *connections).sum::<usize>())
    };
    let (few, many) = (entries(200), entries(5_000));
    assert_eq!((few.0, many.0), (50, 50), "places");
    assert!(few.1 <= 100 && many.1 <= 100, "{few:?} {many:?}: endpoints");
}

#[test]
fn events_between_arrivals_have_no_values() {
    // The counters of the present connection are smaller than those of the one before the event.
    let files = "workload = { kind = \"file\", size = \"100 kB\", arrivals = { mean_interval = \"500 ms\", count = 30 } }";
    let event = |at| format!("\n[[event]]\nat = \"{at} ms\"\nlink = \"L\"\nset = {{ rate = \"9 Mbit/s\" }}");
    let events: String = (1..20).map(|number| event(number * 777)).collect();
    let result = run(&on_a_link("", &format!("{files}{events}")));
    assert_eq!(counts(only(&result))[0], 30);
    assert_eq!(only(&result).repeated_share, None);
}
