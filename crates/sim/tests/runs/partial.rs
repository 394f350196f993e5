//! Partial reliability in whole runs: abandoned messages, and their effect on others.

use anabranch_sim::RunOptions;
use anabranch_sim::scenario;
use anabranch_sim::scenario::result::FlowResult;

/// Messages of 1 kB every 20 ms over a link that loses one in ten packets, with these settings of the
/// workload and the flow.
fn run(limit: &str, settings: &str, link: &str) -> FlowResult {
    let text = format!(
        r#"
duration = "60 s"
[[link]]
name = "path"
between = ["S", "D"]
delay = "50 ms"
loss = {{ model = "bernoulli", rate = 0.1 }}
{link}
[[flow]]
name = "F"
from = "S"
to = "D"
protocol = "sctp"
{settings}
workload = {{ kind = "messages", message = "1 kB", interval = "20 ms", count = 2000{limit} }}
"#
    );
    let scenario = scenario::parse(&text, "scenario", &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let options = RunOptions { check_wire: true, ..RunOptions::default() };
    anabranch_sim::run(&scenario, &options).unwrap().flows.swap_remove(0)
}

/// Messages abandoned after and before they were sent in part.
fn given_up(flow: &FlowResult) -> [u64; 2] {
    ["messages_abandoned_sent", "messages_abandoned_unsent"].map(|name| flow.counters[name])
}

/// A lost message of one packet is abandoned at once. So one message in ten is abandoned, within three standard
/// deviations, and other messages wait only until the loss is detected.
#[test]
fn lost_messages_are_abandoned_at_once() {
    for settings in ["", "ordered = false", "i_data = true\nstreams = 3", "nr_sack = false"] {
        let flow = run(", max_retransmissions = 0", settings, "rate = \"2 Mbit/s\"");
        let [sent, unsent] = given_up(&flow);
        assert!((150..=250).contains(&sent), "{sent} of 2000 abandoned with {settings:?}");
        assert_eq!(unsent, 0);
        assert_eq!(flow.state, "closed");
        let all = flow.delivered_bytes + 1_000 * sent;
        assert!(all >= 2_000_000, "{} of 2000 delivered with {settings:?}", flow.delivered_bytes / 1_000);
    }
}

/// Delivered data is younger than its lifetime and the delay, if no earlier data can block it.
#[test]
fn lifetime_limits_the_age_of_delivered_data() {
    let slow = "rate = \"2 Mbit/s\"\nqueue = { kind = \"fifo\", limit = \"20 packets\" }\n";
    let limited = run(", lifetime = \"150 ms\"", "ordered = false", slow);
    let [sent, _] = given_up(&limited);
    assert!(sent > 0);
    let age = limited.delivery_delay_s.as_ref().map(|delay| delay.p99).expect("messages were delivered");
    // Retransmitted when at most 150 ms old, followed by 20 packets of 6 ms and 50 ms of propagation.
    assert!(age < 0.330, "{age} s");
    let patient = run("", "ordered = false", slow);
    let age = patient.delivery_delay_s.as_ref().map(|delay| delay.p99).expect("messages were delivered");
    assert!(age > 0.33, "{age} s");
    assert_eq!(given_up(&patient), [0, 0]);
}

/// With a very slow path, data that exceeds its lifetime leaves the queue without having been sent.
#[test]
fn expired_data_is_abandoned_unsent() {
    let flow = run(", lifetime = \"1 s\"", "", "rate = \"100 kbit/s\"");
    let [sent, unsent] = given_up(&flow);
    // The link carries at most a quarter of the 400 kbit/s that the application writes.
    assert!(unsent > 1_000, "{sent} and {unsent}");
    assert_eq!(flow.state, "closed");
}
