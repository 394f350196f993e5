//! Flows through proxies: two connections, the second of which carries the data of the first.

use anabranch_sim::RunOptions;
use anabranch_sim::scenario::{self, result::FlowResult};
use anabranch_testkit::scenario_text::{LazyText, ScenarioText};

/// A client with two links to a proxy, and a server behind it.
static PROXIED: LazyText = LazyText::new(|| {
    ScenarioText::new("title = 'proxied', duration = '10 s'")
        .link("wlan", ["A", "P"], "rate = '20 Mbit/s', delay = '10 ms'")
        .link("mobile", ["A", "P"], "rate = '10 Mbit/s', delay = '50 ms'")
        .link("behind", ["P", "B"], "rate = '1 Gbit/s', delay = '5 ms'")
        .flow("F", ["A", "B"], "through = 'P'")
});

/// Runs the scenario with these settings of the flow and these changes; lookahead must not change the result.
fn flow(settings: &str, changes: &[(&str, &str)]) -> FlowResult {
    let changes: Vec<_> = changes.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    let scenario = scenario::parse(&format!("{PROXIED}{settings}"), "proxied.toml", &changes);
    let scenario = scenario.unwrap_or_else(|error| panic!("{error}\n{settings}"));
    let [ahead, in_order] = [false, true].map(|in_order| {
        anabranch_sim::run(&scenario, &RunOptions { check_wire: true, in_order, ..RunOptions::default() })
            .unwrap()
    });
    assert_eq!(ahead.digest, in_order.digest, "{settings}");
    assert_eq!(ahead.flows, in_order.flows, "{settings}");
    ahead.flows.into_iter().next().unwrap()
}

const MPTCP: &str = "protocol = \"mptcp\"\ncongestion = \"cubic\"\npaths = \"disjoint\"";

#[test]
fn proxy_uses_both_links_for_single_homed_server() {
    for direction in ["forward", "reverse", "both"] {
        let found = flow(&format!("{MPTCP}\ndirection = \"{direction}\""), &[]);
        let goodputs = [Some(found.goodput_bps), found.reverse_goodput_bps];
        for goodput in goodputs.into_iter().flatten() {
            assert!(goodput > 22e6 && goodput < 30e6, "{direction}: {goodputs:?}");
        }
        assert_eq!(found.through.as_deref(), Some("P"));
        let mut links: Vec<_> = found.paths.iter().map(|path| path.links.concat()).collect();
        links.sort();
        assert_eq!(links, ["mobile", "wlan"], "the paths are those of the first connection");
        let by_path: f64 = found.paths.iter().map(|path| path.goodput_bps).sum();
        assert!((by_path / found.goodput_bps - 1.0).abs() < 0.02, "{direction}: {by_path}");
    }
}

#[test]
fn file_arrives_through_proxy_and_flow_ends() {
    for protocol in [MPTCP, "protocol = \"tcp\""] {
        for direction in ["forward", "reverse", "both"] {
            let settings = format!("{protocol}\ndirection = \"{direction}\"");
            let found = flow(&format!("{settings}\nworkload = {{ kind = \"file\", size = \"3 MB\" }}"), &[]);
            assert_eq!((found.written_bytes, found.delivered_bytes), (3_000_000, 3_000_000), "{settings}");
            let back = (direction == "both").then_some(3_000_000);
            assert_eq!((found.reverse_written_bytes, found.reverse_delivered_bytes), (back, back));
            assert_eq!(found.state, "closed", "{settings}");
            assert!(found.completion_s.is_some_and(|at| at > 0.8 && at < 3.0), "{:?}", found.completion_s);
        }
    }
}

#[test]
fn delays_cover_the_whole_path() {
    let messages =
        "protocol = \"tcp\"\nworkload = { kind = \"messages\", message = \"100 B\", interval = \"100 ms\" }";
    let found = flow(messages, &[]);
    // Headers of 52 bytes over 20 Mbit/s and over 1 Gbit/s, and 15 ms of propagation.
    let [first, last] = [20e6, 1e9].map(|rate| 152.0 * 8.0 / rate);
    let delays = found.delivery_delay_s.unwrap();
    assert!((delays.p50 - (0.015 + first + last)).abs() < 2e-4, "{delays:?}");
    let asks = "protocol = \"tcp\"\nworkload = { kind = \"request-response\", request = \"100 B\", \
                response = \"100 B\", think = \"50 ms\" }";
    let found = flow(asks, &[]);
    let responses = found.response_time_s.unwrap();
    assert!((responses.p50 - 2.0 * (0.015 + first + last)).abs() < 4e-4, "{responses:?}");
    // A round trip of 30 ms and a think time of 50 ms: 10 s have 124 of them, less the time of the
    // handshakes.
    assert!(found.answers.is_some_and(|answers| (120..=125).contains(&answers)), "{:?}", found.answers);
}

#[test]
fn proxy_holds_at_most_its_buffer() {
    const BUFFER: u64 = 100_000;
    let buffers = format!("send_buffer = \"{BUFFER} B\"\nreceive_buffer = \"{BUFFER} B\"");
    let slow = "1 Mbit/s";
    for (direction, narrow) in [
        ("forward", &[("link.behind.rate", slow)][..]),
        ("reverse", &[("link.wlan.rate", slow), ("link.mobile.rate", slow)]),
    ] {
        let found = flow(&format!("{MPTCP}\n{buffers}\ndirection = \"{direction}\""), narrow);
        let between = found.written_bytes - found.delivered_bytes;
        // Two buffers per connection, and the proxy's 128 KiB.
        assert!(between > 2 * BUFFER && between <= 4 * BUFFER + (128 << 10), "{direction}: {between}");
    }
}

#[test]
fn failed_connection_ends_its_counterpart() {
    let settings = |direction, link| {
        format!(
            "protocol = \"tcp\"\nuser_timeout = \"2 s\"\nkeepalive = \"500 ms\"\ndirection = \"{direction}\"\n\
             [[event]]\nat = \"2 s\"\nlink = \"{link}\"\nset = {{ state = \"down\" }}\n"
        )
    };
    for direction in ["forward", "reverse"] {
        assert_eq!(flow(&settings(direction, "behind"), &[]).state, "reset", "{direction}");
    }
    assert_eq!(flow(&settings("forward", "wlan"), &[]).state, "timed-out");
}

/// The proxy's acknowledgement of all data is not delivery: the client's connection ends like the one behind
/// the proxy.
#[test]
fn flow_closes_only_after_all_data_arrived() {
    let file = |direction| {
        format!(
            "protocol = \"tcp\"\ndirection = \"{direction}\"\nuser_timeout = \"2 s\"\n\
             workload = {{ kind = \"file\", size = \"100 kB\" }}"
        )
    };
    for (direction, far) in [("forward", "behind"), ("reverse", "wlan")] {
        // At 250 kbit/s the file takes 3.2 s, although the proxy has received all data after 0.1 s.
        let rate = format!("link.{far}.rate");
        let at = |duration| flow(&file(direction), &[(&rate, "250 kbit/s"), ("duration", duration)]);
        let (before, after) = (at("2 s"), at("5 s"));
        assert_eq!((before.state.as_str(), before.completion_s), ("open", None), "{direction}");
        assert_eq!((after.state.as_str(), after.delivered_bytes), ("closed", 100_000), "{direction}");
        let dies = format!(
            "{}\n[[event]]\nat = \"2 s\"\nlink = \"{far}\"\nset = {{ state = \"down\" }}",
            file(direction)
        );
        let lost = flow(&dies, &[(&rate, "250 kbit/s")]);
        let state = if direction == "forward" { "reset" } else { "open" };
        assert_eq!((lost.state.as_str(), lost.completion_s), (state, None), "{direction}");
        assert!(lost.delivered_bytes < 100_000);
    }
    // The host behind the proxy does not answer; the proxy's connection times out after 127 s.
    let silent = format!(
        "{}\n[[event]]\nat = \"0 s\"\nlink = \"behind\"\nset = {{ state = \"down\" }}",
        file("forward")
    );
    let silent = flow(&silent, &[("duration", "150 s")]);
    assert_eq!((silent.state.as_str(), silent.delivered_bytes), ("reset", 0));
}
