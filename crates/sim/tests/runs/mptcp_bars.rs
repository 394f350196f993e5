//! Minimum performance of Multipath TCP in whole runs: with a failing path, and with pairs of addresses
//! without a route.

use anabranch_sim::RunOptions;
use anabranch_sim::scenario::{self, result::FlowResult};
use anabranch_testkit::scenario_text::{LazyText, ScenarioText};

const PAYLOAD_RATIO: f64 = 1424.0 / 1500.0;

/// Two paths between two hosts, and one flow of Multipath TCP over both of them.
fn two_paths(links: [&str; 2], flow: &str, (warmup, duration): (f64, f64), events: &str) -> FlowResult {
    let [first, second] = links;
    let text = format!(
        "title = \"two paths\"\nduration = \"{duration} s\"\nwarmup = \"{warmup} s\"\n\
         [[link]]\nname = \"one\"\nbetween = [\"A\", \"B\"]\n{first}\n\
         [[link]]\nname = \"two\"\nbetween = [\"A\", \"B\"]\n{second}\n\
         [[flow]]\nname = \"F\"\nfrom = \"A\"\nto = \"B\"\n{flow}\n{events}"
    );
    let scenario = scenario::parse(&text, "bars.toml", &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
    anabranch_sim::run(&scenario, &RunOptions::default()).unwrap().flows.remove(0)
}

fn mbps(flow: &FlowResult) -> f64 {
    flow.goodput_bps / 1e6
}

fn buffers(bytes: u64) -> String {
    format!("send_buffer = \"{bytes} B\"\nreceive_buffer = \"{bytes} B\"\n")
}

#[test]
fn failed_path_costs_only_its_own_share() {
    for buffer in [500_000, 1_000_000, 4_000_000] {
        for delays in [("10 ms", "10 ms"), ("10 ms", "40 ms"), ("40 ms", "10 ms")] {
            let link = |delay| format!("rate = \"10 Mbit/s\"\ndelay = \"{delay}\"");
            let (one, two) = (link(delays.0), link(delays.1));
            let flow = format!("protocol = \"mptcp\"\npaths = \"disjoint\"\n{}", buffers(buffer));
            let events = "[[event]]\nat = \"10 s\"\nlink = \"two\"\nset = { state = \"down\" }\n";
            let run = two_paths([&one, &two], &flow, (11.0, 21.0), events);
            assert!(
                mbps(&run) >= 0.9 * 10.0 * PAYLOAD_RATIO,
                "{buffer} B, {delays:?}: {} Mbit/s",
                mbps(&run)
            );
        }
    }
}

#[test]
fn recovered_path_is_used_within_three_seconds() {
    for buffer in [500_000, 4_000_000] {
        for back in [13.0, 25.0, 55.0] {
            let link = "rate = \"10 Mbit/s\"\ndelay = \"20 ms\"";
            let flow = format!("protocol = \"mptcp\"\npaths = \"disjoint\"\n{}", buffers(buffer));
            let events = format!(
                "[[event]]\nat = \"10 s\"\nlink = \"two\"\nset = {{ state = \"down\" }}\n\
                 [[event]]\nat = \"{back} s\"\nlink = \"two\"\nset = {{ state = \"up\" }}\n"
            );
            let run = two_paths([link, link], &flow, (back + 2.5, back + 4.5), &events);
            assert!(mbps(&run) > 13.0, "{buffer} B, back at {back} s: {} Mbit/s", mbps(&run));
        }
    }
}

#[test]
fn data_assigned_ahead_waits_for_a_slow_path() {
    // From the tenth second on the second path has 100 kbit/s. By then, a scheduler that assigns data ahead has
    // assigned about 0.5 MB to it. At 12.5 kB/s the connection waits for that data for 40 s.
    // Schedulers that assign only sendable data avoid the wait.
    let link = "rate = \"10 Mbit/s\"\ndelay = \"10 ms\"\nqueue = { kind = \"fifo\", limit = \"10 packets\" }";
    let events = "[[event]]\nat = \"10 s\"\nlink = \"two\"\nset = { rate = \"100 kbit/s\" }\n";
    let with = |scheduler: &str| {
        let flow = format!(
            "protocol = \"mptcp\"\npaths = \"disjoint\"\nscheduler = \"{scheduler}\"\n\
             opportunistic_retransmission = false\npenalisation = false\n{}",
            buffers(1_000_000)
        );
        let both = mbps(&two_paths([link, link], &flow, (2.0, 10.0), ""));
        assert!(both > 0.9 * 20.0 * PAYLOAD_RATIO, "{scheduler}: {both} Mbit/s of both");
        mbps(&two_paths([link, link], &flow, (12.0, 20.0), events))
    };
    let (here, ahead) = (with("linux"), with("linux-ahead"));
    assert!(here > 7.0 && ahead < 2.0, "{here} and {ahead} Mbit/s");
}

#[test]
fn fullmesh_omits_pairs_without_a_route() {
    // Two links between the hosts: an address at one end of a link reaches only the other end of that link.
    let link = "rate = \"10 Mbit/s\"\ndelay = \"20 ms\"";
    let run = two_paths([link, link], "protocol = \"mptcp\"\npaths = \"fullmesh\"", (0.0, 10.0), "");
    assert_eq!(run.paths.len(), 2, "{:?}", run.paths.iter().map(|path| &path.links).collect::<Vec<_>>());
    assert!(run.paths.iter().all(|path| path.timeouts == Some(0)));
}

/// Slow start ends in a window of losses and a timeout, while acknowledgements of later data still arrive.
static WINDOW_OF_LOSSES: LazyText = LazyText::new(|| {
    ScenarioText::new("title = 'a window of losses', duration = '2.2417 s', warmup = '0.8526 s'")
        .keys("seed = 2490106848")
        .link("slow", ["A", "B"], "rate = '3 Mbit/s', delay = '17.525 ms'")
        .keys("queue = { kind = 'red', limit = '53 packets', min = '5 packets', max = '20 packets', max_p = 0.1 }")
        .keys("reverse = { rate = '11 Mbit/s' }, loss = { model = 'bernoulli', rate = 0.0115 }")
        .link("fast", ["A", "B"], "rate = '7 Mbit/s', delay = '4.243 ms'")
        .keys("queue = { kind = 'red', limit = '47 packets', min = '5 packets', max = '20 packets', max_p = 0.1 }")
        .keys("reverse = { rate = '4 Mbit/s' }, loss = { model = 'bernoulli', rate = 0.0161 }")
        .flow("F0", ["A", "B"], "protocol = 'mptcp', recovery = 'sack'")
        .keys("start = { uniform = ['0 s', '0.529 s'] }")
});

#[test]
fn data_in_flight_causes_no_second_timeout() {
    for seed in 2_490_106_840..2_490_106_860_u64 {
        let scenario =
            scenario::parse(&WINDOW_OF_LOSSES, "losses.toml", &[("seed".into(), seed.to_string())]).unwrap();
        let flow = anabranch_sim::run(&scenario, &RunOptions::default()).unwrap().flows.remove(0);
        assert!(flow.paths.iter().all(|path| path.timeouts < Some(6)), "{seed}: {:#?}", flow.paths);
    }
}
