//! Scenarios of one flow from `S` to `D` each, with all causes of retransmissions.

use anabranch_testkit::scenario_text::{LazyText, ScenarioText};

/// Two links between the hosts, both with loss and reordering.
static TWO_LINKS: LazyText = LazyText::new(|| {
    ScenarioText::new("duration = '200 s'")
        .link_defaults("queue = { limit = '40 packets' }")
        .link("left", ["S", "D"], "rate = '6 Mbit/s', delay = '15 ms'")
        .keys("loss = { model = 'bernoulli', rate = 0.004 }")
        .link("right", ["S", "D"], "rate = '4 Mbit/s', delay = '35 ms'")
        .keys("loss = { model = 'gilbert-elliott', to_bad = 0.001, to_good = 0.3, loss_bad = 0.7 }")
        .keys("reorder = { rate = 0.004, delay = '30 ms' }")
        .table("[[flow]]", "from = 'S', to = 'D'")
});

/// One link with a bottleneck that marks, drops, loses and reorders.
static ONE_LINK: LazyText = LazyText::new(|| {
    ScenarioText::new("duration = '200 s'")
        .link("link", ["S", "D"], "rate = '8 Mbit/s', delay = '20 ms'")
        .keys("queue = { kind = 'red', limit = '60 packets', ecn = true }")
        .keys("loss = { model = 'bernoulli', rate = 0.004 }")
        .keys("reorder = { rate = 0.004, delay = '15 ms' }")
        .event("4 s", "link = 'link'")
        .keys("set = { loss = { model = 'gilbert-elliott', to_bad = 0.003, to_good = 0.3, loss_bad = 0.8 } }")
        .event("9 s", "every = '20 s', link = 'link', direction = 'reverse'")
        .keys("set = { loss = { model = 'bernoulli', rate = 0.05 } }")
        .table("[[flow]]", "from = 'S', to = 'D'")
});

/// The left link fails twice for three seconds.
const LINK_FAILURES: &str = r#"
[[event]]
at = "3 s"
every = "12 s"
link = "left"
set = { state = "down" }

[[event]]
at = "6 s"
every = "12 s"
link = "left"
set = { state = "up" }
"#;

fn one_link(settings: &str) -> String {
    format!("{ONE_LINK}{settings}\n")
}

fn two_links(settings: &str) -> String {
    format!("{TWO_LINKS}{settings}\n{LINK_FAILURES}")
}

/// Name and text of every TCP scenario.
pub fn tcp() -> Vec<(&'static str, String)> {
    let file = r#"protocol = "tcp"
workload = { kind = "file", size = "13 MB" }"#;
    let small = r#"protocol = "tcp"
workload = { kind = "file", size = "4 MB", message = { uniform = ["1 B", "900 B"] } }"#;
    vec![
        ("tcp-sack", one_link(&format!("{file}\nrecovery = \"sack\""))),
        ("tcp-prr-ecn", one_link(&format!("{file}\nrecovery = \"prr\"\necn = true\ncongestion = \"cubic\""))),
        ("tcp-rack-ecn", one_link(&format!("{file}\nrecovery = \"rack\"\necn = true"))),
        (
            "tcp-small",
            one_link(&format!("{small}\nmtu = 576\nrecovery = \"rack\"\ntimestamps = false\nnagle = true")),
        ),
        (
            "tcp-narrow",
            one_link(&format!(
                "{small}\nreceive_buffer = \"20 kB\"\ndelayed_ack = false\nrecovery = \"sack\""
            )),
        ),
    ]
}

/// Name and text of every Multipath TCP scenario.
pub fn mptcp() -> Vec<(&'static str, String)> {
    let file = r#"protocol = "mptcp"
workload = { kind = "file", size = "13 MB" }"#;
    vec![
        ("mptcp-lia", two_links(file)),
        (
            "mptcp-rack",
            two_links(&format!("{file}\nrecovery = \"rack\"\ncongestion = \"olia\"\npaths = \"disjoint\"")),
        ),
        (
            "mptcp-narrow",
            two_links(&format!("{file}\nscheduler = \"round-robin\"\nreceive_buffer = \"60 kB\"")),
        ),
        ("mptcp-ports", two_links(&format!("{file}\npaths = \"ndiffports:3\"\nrecovery = \"prr\""))),
        ("mptcp-backup", two_links(&format!("{file}\nbackup = [\"left\"]\npaths = \"disjoint\""))),
    ]
}

/// Name and text of every SCTP scenario.
pub fn sctp() -> Vec<(&'static str, String)> {
    let file = r#"workload = { kind = "file", size = "21 MB", message = "1452 B" }"#;
    let mixed =
        r#"workload = { kind = "file", size = "13 MB", message = { uniform = ["100 B", "4000 B"] } }"#;
    vec![
        ("sctp", one_link(&format!("protocol = \"sctp\"\n{file}"))),
        ("cmt", two_links(&format!("protocol = \"cmt-sctp\"\n{file}"))),
        ("cmt-renegable", two_links(&format!("protocol = \"cmt-sctp\"\nnr_sack = false\n{mixed}"))),
        ("cmt-mixed", two_links(&format!("protocol = \"cmt-sctp\"\nordered = false\nstreams = 3\n{mixed}"))),
        ("cmt-narrow", two_links(&format!("protocol = \"cmt-sctp\"\nreceive_buffer = \"60 kB\"\n{file}"))),
    ]
}
