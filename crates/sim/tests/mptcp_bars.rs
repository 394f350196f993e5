//! What Multipath TCP has to reach in whole runs: beside a path that dies, and over unequal paths with its defaults.

use sim::RunOptions;
use sim::scenario::{self, result::FlowResult};

const HEADERS: f64 = 1424.0 / 1500.0;

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
    sim::run(&scenario, &RunOptions::default()).unwrap().flows.remove(0)
}

fn mbps(flow: &FlowResult) -> f64 {
    flow.goodput_bps / 1e6
}

fn buffers(bytes: u64) -> String {
    format!("send_buffer = \"{bytes} B\"\nreceive_buffer = \"{bytes} B\"\n")
}

#[test]
fn from_the_second_second_on_a_path_that_died_costs_nothing_but_its_own_share() {
    for buffer in [500_000, 1_000_000, 4_000_000] {
        for delays in [("10 ms", "10 ms"), ("10 ms", "40 ms"), ("40 ms", "10 ms")] {
            let link = |delay| format!("rate = \"10 Mbit/s\"\ndelay = \"{delay}\"");
            let (one, two) = (link(delays.0), link(delays.1));
            let flow = format!("protocol = \"mptcp\"\npaths = \"disjoint\"\n{}", buffers(buffer));
            let events = "[[event]]\nat = \"10 s\"\nlink = \"two\"\nset = { state = \"down\" }\n";
            let run = two_paths([&one, &two], &flow, (11.0, 21.0), events);
            assert!(mbps(&run) >= 0.9 * 10.0 * HEADERS, "{buffer} B, {delays:?}: {} Mbit/s", mbps(&run));
        }
    }
}

#[test]
fn a_path_that_comes_back_is_used_within_three_seconds() {
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
fn a_full_mesh_leaves_out_what_no_route_connects() {
    // Two links between the hosts: an address at one end of a link reaches the other end of it alone.
    let link = "rate = \"10 Mbit/s\"\ndelay = \"20 ms\"";
    let run = two_paths([link, link], "protocol = \"mptcp\"\npaths = \"fullmesh\"", (0.0, 10.0), "");
    assert_eq!(run.paths.len(), 2, "{:?}", run.paths.iter().map(|path| &path.links).collect::<Vec<_>>());
    assert!(run.paths.iter().all(|path| path.timeouts == 0));
}

/// Pairs over which the defaults are held to the better path alone: rate of the second in tenths of the first's, one-way
/// delays, buffers.
fn grid(all: bool) -> Vec<([f64; 2], [u64; 2], u64)> {
    let rates = if all { vec![1.0, 2.0, 5.0, 10.0, 20.0] } else { vec![1.0, 20.0] };
    let delays = if all { vec![1, 4, 10, 40] } else { vec![1, 40] };
    let buffers: &[u64] =
        if all { &[100_000, 250_000, 500_000, 1_000_000, 4_000_000] } else { &[100_000, 1_000_000] };
    let mut grid = Vec::new();
    for &rate in &rates {
        for &delay in &delays {
            for &buffer in buffers {
                // The slower path has the longer delay, and the other way round.
                grid.push(([10.0, 10.0 / rate], [5, 5 * delay], buffer));
                if rate > 1.0 && delay > 1 {
                    grid.push(([10.0, 10.0 / rate], [5 * delay, 5], buffer));
                }
            }
        }
    }
    grid
}

/// Goodput over the pairs of a grid, as a share of the better path alone.
fn shares(all: bool, settings: &str) -> Vec<(String, f64)> {
    let link = |rate: f64, delay: u64| format!("rate = \"{rate} Mbit/s\"\ndelay = \"{delay} ms\"");
    let mut shares = Vec::new();
    for (rates, delays, buffer) in grid(all) {
        let links = [0, 1].map(|path| link(rates[path], delays[path]));
        let time = (5.0, 25.0);
        let run = |flow: &str, links: [&str; 2]| {
            let flow = format!("{flow}\n{}", buffers(buffer));
            mbps(&two_paths(links, &flow, time, ""))
        };
        let best = [0, 1]
            .map(|path| run("protocol = \"mptcp\"\npaths = \"default\"", [&links[path], &links[1 - path]]))
            .into_iter()
            .fold(0.0, f64::max);
        let flow = format!("protocol = \"mptcp\"\npaths = \"disjoint\"\n{settings}");
        let ours = run(&flow, [&links[0], &links[1]]);
        shares.push((
            format!("{rates:?} Mbit/s {delays:?} ms {buffer} B: {ours:.2} of {best:.2}"),
            ours / best,
        ));
    }
    shares
}

#[test]
fn with_its_defaults_it_is_no_worse_than_the_better_path_alone() {
    for (what, share) in shares(false, "") {
        assert!(share >= 0.95, "{what}: {share:.3}");
    }
}

#[test]
#[ignore = "it takes a while: all pairs, with every choice of mechanisms; run it with --nocapture"]
fn mechanisms_over_all_pairs() {
    for opportunistic in [false, true] {
        for penalisation in [false, true] {
            for scheduler in ["lowest-rtt", "weighted"] {
                let settings = format!(
                    "opportunistic_retransmission = {opportunistic}\npenalisation = {penalisation}\n\
                     scheduler = \"{scheduler}\""
                );
                let shares = shares(true, &settings);
                let worst = shares.iter().min_by(|a, b| a.1.total_cmp(&b.1)).expect("some");
                let below = shares.iter().filter(|(_, share)| *share < 0.95).count();
                let mean = shares.iter().map(|(_, share)| share).sum::<f64>() / shares.len() as f64;
                println!(
                    "{opportunistic} {penalisation} {scheduler}: mean {mean:.3}, {below} of {} below 0.95, worst {worst:?}",
                    shares.len()
                );
                for (what, share) in shares.iter().filter(|(_, share)| *share < 0.95) {
                    println!("    {what}: {share:.3}");
                }
            }
        }
    }
}
