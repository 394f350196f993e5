//! Messages that are not worth waiting for, in whole runs: what is given up, and what that does to the others.

use anabranch_sim::RunOptions;
use anabranch_sim::scenario;
use anabranch_sim::scenario::result::FlowResult;

/// Messages of 1 kB every 20 ms over a link that loses every tenth packet, with these settings of the workload and the flow.
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

/// Given up after being sent in part, and before.
fn given_up(flow: &FlowResult) -> [u64; 2] {
    ["messages_abandoned_sent", "messages_abandoned_unsent"].map(|name| flow.counters[name])
}

/// A lost message of one packet is given up at once, and so one in ten, give or take three standard deviations; nothing
/// waits for it longer than it takes to notice.
#[test]
fn without_retransmissions_as_many_messages_are_given_up_as_the_network_loses() {
    for settings in ["", "ordered = false", "i_data = true\nstreams = 3", "nr_sack = false"] {
        let flow = run(", max_retransmissions = 0", settings, "rate = \"2 Mbit/s\"");
        let [sent, unsent] = given_up(&flow);
        assert!((150..=250).contains(&sent), "{sent} of 2000 given up with {settings:?}");
        assert_eq!(unsent, 0);
        assert_eq!(flow.state, "closed");
        let all = flow.delivered_bytes + 1_000 * sent;
        assert!(all >= 2_000_000, "{} of 2000 delivered with {settings:?}", flow.delivered_bytes / 1_000);
    }
}

/// What is delivered is younger than its lifetime and the way there, where nothing before it can hold it up.
#[test]
fn a_lifetime_bounds_the_age_of_what_is_delivered() {
    let slow = "rate = \"2 Mbit/s\"\nqueue = { kind = \"fifo\", limit = \"20 packets\" }\n";
    let limited = run(", lifetime = \"150 ms\"", "ordered = false", slow);
    let [sent, _] = given_up(&limited);
    assert!(sent > 0);
    let age = limited.delivery_delay_s.as_ref().map(|delay| delay.p99).expect("messages were delivered");
    // Sent again at the latest when it is 150 ms old, and then 20 packets of 6 ms and 50 ms on the way.
    assert!(age < 0.330, "{age} s");
    let patient = run("", "ordered = false", slow);
    let age = patient.delivery_delay_s.as_ref().map(|delay| delay.p99).expect("messages were delivered");
    assert!(age > 0.33, "{age} s");
    assert_eq!(given_up(&patient), [0, 0]);
}

/// Behind a path that carries next to nothing, what is too old leaves the queue without ever having left the host.
#[test]
fn what_waits_too_long_is_given_up_unsent() {
    let flow = run(", lifetime = \"1 s\"", "", "rate = \"100 kbit/s\"");
    let [sent, unsent] = given_up(&flow);
    // A quarter of the 400 kbit/s fits at most.
    assert!(unsent > 1_000, "{sent} and {unsent}");
    assert_eq!(flow.state, "closed");
}
