//! The scheduler `nca` in whole runs, over the disjoint paths of the bench of Becke2014 §7.1.2: `WiFi` and 3G.

use super::cases::text::read;
use anabranch_sim::{RunOptions, run};
use anabranch_testkit::scenario_text::{LazyText, ScenarioText};

/// Paths of 8 Mbit/s with 20 ms and of 2 Mbit/s with 150 ms.
static TWO_PATHS: LazyText = LazyText::new(|| {
    ScenarioText::new("duration = '70 s', warmup = '10 s'")
        .link(
            "wifi",
            ["A", "B"],
            "rate = '8 Mbit/s', delay = '20 ms', queue = { kind = 'fifo', limit = '100 packets' }",
        )
        .link(
            "3g",
            ["A", "B"],
            "rate = '2 Mbit/s', delay = '150 ms', queue = { kind = 'fifo', limit = '35 packets' }",
        )
        .flow("F", ["A", "B"], "send_buffer = '10 MB'")
});

/// Goodput in Mbit/s of a flow with these keys.
fn goodput(keys: &str, buffer_kb: u32) -> f64 {
    let text = format!("{TWO_PATHS}{keys}\nreceive_buffer = \"{buffer_kb} kB\"\n");
    run(&read(&text, &[]), &RunOptions::default()).unwrap().flows[0].goodput_bps / 1e6
}

/// Compares `nca` with the strongest path alone and with other schedulers. Returns the failures.
fn compare(protocol: &str, paths: &str, alone: &str, others: &[&str]) -> Vec<String> {
    let mut failures = Vec::new();
    for buffer_kb in [30, 43, 60, 100, 200, 300, 389, 400, 500, 600, 750, 1000, 2000, 3000] {
        let of = |name: &str| {
            goodput(&format!("protocol = \"{protocol}\"\n{paths}\nscheduler = \"{name}\""), buffer_kb)
        };
        let (alone, nca) = (goodput(alone, buffer_kb), of("nca"));
        let best = others.iter().map(|name| of(name)).fold(0.0, f64::max);
        let row = format!(
            "{protocol}, {buffer_kb} kB: alone {alone:.3}, nca {nca:.3}, best other {best:.3} Mbit/s"
        );
        println!("{row}: {:.3} of alone, {:.3} of the best", nca / alone, nca / best);
        if nca < 0.99 * alone || buffer_kb >= 400 && nca < 0.97 * best {
            failures.push(row);
        }
    }
    failures
}

#[test]
fn mptcp_uses_the_paths_that_fit_the_buffer() {
    let alone = "protocol = \"mptcp\"\npaths = \"default\"\ninitial_path = \"wifi\"";
    let failures = compare("mptcp", "paths = \"disjoint\"", alone, &["lowest-rtt", "otias", "consn"]);
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn cmt_sctp_uses_the_paths_that_fit_the_buffer() {
    let alone = "protocol = \"sctp\"\ninitial_path = \"wifi\"";
    let failures = compare("cmt-sctp", "", alone, &["lowest-rtt", "round-robin"]);
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn event_changes_the_paths_in_use() {
    // The delay of 3G falls, so that both paths fit a buffer of 200 kB.
    let event = "[[event]]\nat = \"30 s\"\nlink = \"3g\"\nset = { delay = \"20 ms\" }\n";
    for protocol in ["mptcp", "cmt-sctp"] {
        let flow = format!("protocol = \"{protocol}\"\nscheduler = \"nca\"\nreceive_buffer = \"200 kB\"\n");
        let sent = |event: &str, duration: &str| {
            let text = format!("{TWO_PATHS}{flow}{event}");
            let result = run(&read(&text, &[("duration", duration)]), &RunOptions::default()).unwrap();
            let paths = &result.flows[0].paths;
            let mobile = paths.iter().find(|path| path.links == ["3g"]).unwrap();
            mobile.data_packets
        };
        let before = sent("", "29 s");
        assert!(before < 200, "{protocol}: {before} packets over 3G before the event");
        assert!(sent(event, "60 s") > 2_000 + before, "{protocol}: 3G is used after the event");
    }
}

#[test]
fn records_of_routers_inform_the_scheduler() {
    // Routers in front of both links; the hosts' own links have no records.
    let text = &TWO_PATHS
        .replace("between = [\"A\", \"B\"]\nrate = \"8", "between = [\"W\", \"B\"]\nrate = \"8")
        .replace("between = [\"A\", \"B\"]\nrate = \"2", "between = [\"M\", \"B\"]\nrate = \"2");
    let access = "[[link]]\nname = \"NAME\"\nbetween = [\"A\", \"NODE\"]\nrate = \"100 Mbit/s\"\n\
                  [[router]]\nname = \"NODE\"\nnetwork_control = true\n";
    let access = [("to-wifi", "W"), ("to-3g", "M")]
        .map(|(name, node)| access.replace("NAME", name).replace("NODE", node))
        .concat();
    let flow = "protocol = \"cmt-sctp\"\nscheduler = \"nca\"\nreceive_buffer = \"200 kB\"\nnetwork_control = \"200 ms\"\n";
    let share = |information: &str| {
        let text = format!("{text}{flow}information = \"{information}\"\n{access}");
        let result = run(&read(&text, &[]), &RunOptions::default()).unwrap();
        let paths = &result.flows[0].paths;
        let mobile = paths.iter().find(|path| path.links.contains(&"3g".to_owned())).unwrap();
        if information == "chunk" {
            let record = &mobile.network_control[0];
            assert_eq!((record.rate_bps, record.delay_s), (2e6, 0.15));
        }
        mobile.data_packets as f64 / paths.iter().map(|path| path.data_packets).sum::<u64>() as f64
    };
    assert!(share("scenario") < 0.02);
    assert!(share("chunk") < 0.02);
}
