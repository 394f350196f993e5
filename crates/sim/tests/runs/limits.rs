//! Times by the cause that limits a flow and its paths, in whole runs.

use super::cases::text::read;
use anabranch_sim::RunOptions;
use anabranch_sim::scenario::result::{FlowResult, Times, blocked};
use anabranch_testkit::scenario_text::ScenarioText;
use proptest::prelude::*;

const WARMUP_SECONDS: f64 = 5.0;
/// The measured part of the runs, seconds.
const MEASURED_SECONDS: f64 = 15.0;

/// One flow over two links of 10 Mbit/s between its hosts, with these settings.
fn flow(settings: &[(&str, &str)]) -> FlowResult {
    flow_with("", settings)
}

/// The result of a flow with these settings in a run with events.
fn flow_with(events: &str, settings: &[(&str, &str)]) -> FlowResult {
    let text = ScenarioText::new("duration = '20 s', warmup = '5 s'")
        .link_defaults("rate = '10 Mbit/s', delay = '10 ms', queue = { limit = '50 packets' }")
        .link("first", ["S", "D"], "")
        .link("second", ["S", "D"], "")
        .flow("F", ["S", "D"], "");
    let result = anabranch_sim::run(&read(&format!("{text}{events}"), settings), &RunOptions::default())
        .expect("the run succeeds");
    let flow = result.flows.into_iter().next().expect("the flow");
    check(&flow);
    flow
}

/// A link changes its state at this second.
fn event((link, second, state): (&str, u32, &str)) -> String {
    format!("[[event]]\nat = \"{second} s\"\nlink = \"{link}\"\nset = {{ state = \"{state}\" }}\n")
}

fn sum(times: &Times) -> f64 {
    times.values().map(|time| time.expect("a simulation knows every time")).sum()
}

/// Share of the measured part in which these causes limited a flow or a path.
fn share(times: &Times, causes: &[&str]) -> f64 {
    causes.iter().map(|&cause| times[cause].unwrap_or_default()).sum::<f64>() / MEASURED_SECONDS
}

/// Checks that the times of the flow, and of each path that exists from the start, add up to the measured part of the
/// flow's life, and those of other paths to at most that.
fn check(flow: &FlowResult) {
    let begun = flow.start_s.max(WARMUP_SECONDS);
    if flow.protocol == "udp" {
        return;
    }
    if flow.state == "open" || flow.state == "opening" {
        let life = WARMUP_SECONDS + MEASURED_SECONDS - begun;
        assert!((sum(&flow.limited_s) - life).abs() < 1e-9, "{life} s: {:?}", flow.limited_s);
    }
    let life = sum(&flow.limited_s);
    for (at, path) in flow.paths.iter().enumerate() {
        let own = sum(&path.limited_s);
        let whole = at == 0 || flow.protocol.ends_with("sctp");
        assert!(own < life + 1e-9 && (!whole || own > life - 1e-9), "{own} s of {life} s: {path:#?}");
        assert_eq!(path.limited_s.len(), path.missed_bytes.len());
    }
    for (cause, missed) in &flow.missed_bytes {
        let paths: u64 = flow.paths.iter().filter_map(|path| path.missed_bytes[cause]).sum();
        assert_eq!(Some(paths), *missed, "{cause}");
    }
    assert_eq!(blocked(&flow.limited_s), flow.blocked_s);
    for path in &flow.paths {
        let bytes = &path.bytes_by_kind;
        let repeated: u64 = bytes
            .iter()
            .filter(|(kind, _)| *kind != "new" && *kind != "retransmission")
            .map(|(_, bytes)| bytes)
            .sum();
        assert_eq!(repeated > 0, path.reinjections > Some(0), "{bytes:?}");
        assert!(bytes["new"] <= flow.written_bytes, "{bytes:?}");
        let reductions = &path.reductions_by_cause;
        assert!(reductions["timeout"] <= path.timeouts.unwrap_or_default(), "{reductions:?}");
        assert_eq!(Some(reductions["spurious"]), path.undone);
        assert!(path.srtt_min_s <= path.srtt_s && (path.srtt_s.is_none() || path.srtt_min_s.is_some()));
    }
    let new: u64 = flow.paths.iter().map(|path| path.bytes_by_kind["new"]).sum();
    assert!(new <= flow.written_bytes, "new data leaves once: {new} of {} bytes", flow.written_bytes);
}

const WINDOW_CAUSES: &[&str] = &["congestion-avoidance", "slow-start", "recovery", "timeout"];

#[test]
fn saturated_flow_waits_for_its_windows() {
    for (protocol, paths) in [("tcp", 1), ("mptcp", 2), ("sctp", 1), ("cmt-sctp", 2)] {
        let flow = flow(&[
            ("flow.F.protocol", protocol),
            ("flow.F.send_buffer", "8 MB"),
            ("flow.F.receive_buffer", "8 MB"),
        ]);
        assert!(share(&flow.limited_s, WINDOW_CAUSES) > 0.95, "{protocol}: {:?}", flow.limited_s);
        assert!(flow.blocked_s["congestion-window"] > 0.95 * MEASURED_SECONDS, "{:?}", flow.blocked_s);
        let waited = flow.paths.iter().filter(|path| share(&path.limited_s, WINDOW_CAUSES) > 0.9);
        assert_eq!(waited.count(), paths, "{protocol}: {:#?}", flow.paths);
    }
}

#[test]
fn slow_application_limits_every_path() {
    for protocol in ["tcp", "mptcp", "cmt-sctp"] {
        let flow = flow(&[
            ("flow.F.protocol", protocol),
            ("flow.F.workload", "{ kind = \"rate\", rate = \"200 kbit/s\" }"),
        ]);
        assert!(share(&flow.limited_s, &["application"]) > 0.99, "{protocol}: {:?}", flow.limited_s);
        assert!(flow.blocked_s.values().sum::<f64>() < 0.01 * MEASURED_SECONDS, "{protocol}");
        assert!(flow.missed_bytes["application"].unwrap() > 1_000_000, "{protocol}: {:?}", flow.missed_bytes);
    }
    let udp =
        flow(&[("flow.F.protocol", "udp"), ("flow.F.workload", "{ kind = \"rate\", rate = \"1 Mbit/s\" }")]);
    assert!(udp.limited_s.is_empty() && udp.paths[0].limited_s.is_empty());
}

/// 20 kB in a round trip of 100 ms are 1.6 Mbit/s. The window is closed except for the 16 ms in which 20 kB are sent.
#[test]
fn small_receive_window_limits_tcp() {
    let flow = flow(&[
        ("flow.F.protocol", "tcp"),
        ("flow.F.receive_buffer", "20 kB"),
        ("link.first.delay", "50 ms"),
    ]);
    assert!(share(&flow.limited_s, &["receive-window"]) > 0.99, "{:?}", flow.limited_s);
    assert!(flow.missed_bytes["receive-window"].unwrap() > 1_000_000, "{:?}", flow.missed_bytes);
}

/// Data on the slow path occupies the connection's buffer. The fast path waits for buffer space; the slow path has
/// its window full.
#[test]
fn paths_of_a_flow_differ_in_their_causes() {
    let flow = flow(&[
        ("flow.F.protocol", "mptcp"),
        ("flow.F.receive_buffer", "100 kB"),
        ("flow.F.send_buffer", "4 MB"),
        ("link.second.delay", "400 ms"),
    ]);
    let [fast, slow] = [0, 1].map(|at: usize| &flow.paths[at].limited_s);
    assert!(share(fast, &["receive-window"]) > 0.4, "{fast:?}");
    assert!(share(slow, &["slow-start"]) > 0.3 && share(fast, &["slow-start"]) < 0.01, "{slow:?}");
    assert_ne!(fast, slow);
    assert!(flow.paths.iter().all(|path| path.limited_s != flow.limited_s));
    assert!(share(&flow.limited_s, &["receive-window"]) > share(fast, &["receive-window"]));
}

/// Data on the fast path would arrive before any on the slow one, so the scheduler waits.
#[test]
fn scheduler_leaves_the_slow_path_idle() {
    for scheduler in ["blest", "ecf"] {
        let flow = flow(&[
            ("flow.F.protocol", "mptcp"),
            ("flow.F.scheduler", scheduler),
            ("flow.F.receive_buffer", "400 kB"),
            ("flow.F.send_buffer", "400 kB"),
            ("link.second.delay", "400 ms"),
        ]);
        let [fast, slow] = [0, 1].map(|at: usize| &flow.paths[at].limited_s);
        assert!(share(slow, &["scheduler"]) > 0.5, "{scheduler}: {slow:?}");
        assert!(
            share(fast, &["scheduler"]) < 0.01 && share(fast, WINDOW_CAUSES) > 0.5,
            "{scheduler}: {fast:?}"
        );
        assert!(flow.blocked_s["scheduler"] > 0.5 * MEASURED_SECONDS, "{:?}", flow.blocked_s);
    }
}

#[test]
fn backup_path_waits_as_backup() {
    let mptcp = flow(&[("flow.F.protocol", "mptcp"), ("flow.F.backup", "[\"second\"]")]);
    let sctp = flow(&[("flow.F.protocol", "sctp")]);
    for flow in [mptcp, sctp] {
        let [first, second] = [0, 1].map(|at: usize| &flow.paths[at].limited_s);
        assert!(share(second, &["backup"]) > 0.999, "{}: {second:?}", flow.protocol);
        assert!(share(first, WINDOW_CAUSES) > 0.95, "{}: {first:?}", flow.protocol);
        assert!(share(&flow.limited_s, &["backup"]) < 0.001);
    }
}

#[test]
fn small_send_buffer_limits_the_faster_path() {
    for protocol in ["tcp", "mptcp", "cmt-sctp"] {
        let flow = flow(&[
            ("flow.F.protocol", protocol),
            ("flow.F.send_buffer", "40 kB"),
            ("flow.F.receive_buffer", "4 MB"),
            ("link.first.delay", "100 ms"),
            ("link.second.delay", "100 ms"),
        ]);
        assert!(share(&flow.limited_s, &["send-buffer"]) > 0.9, "{protocol}: {:?}", flow.limited_s);
    }
}

/// Both links are down for 6 s: first the timeout limits the flow, then no path is usable.
#[test]
fn outage_is_timeout_and_then_unusable() {
    let events: String =
        [("first", 8, "down"), ("second", 8, "down"), ("first", 14, "up"), ("second", 14, "up")]
            .map(event)
            .concat();
    for protocol in ["tcp", "mptcp", "sctp", "cmt-sctp"] {
        let flow = flow_with(&events, &[("flow.F.protocol", protocol)]);
        let [timeout, unusable] =
            ["timeout", "unusable"].map(|cause| flow.limited_s[cause].unwrap_or_default());
        // Multipath TCP closes a subflow whose address was removed, so it has no timeout.
        assert!(timeout > 0.2 || protocol == "mptcp", "{protocol}: {:?}", flow.limited_s);
        assert!(timeout + unusable > 5.0, "{protocol}: {:?}", flow.limited_s);
        assert!(timeout + unusable < 11.0, "{protocol}: {:?}", flow.limited_s);
    }
}

/// Random losses on a link of 10 Mbit/s: each kind of byte and each reduction has its cause.
#[test]
fn bytes_and_reductions_have_their_causes() {
    let lossy = "{ model = \"bernoulli\", rate = 0.01 }";
    for protocol in ["tcp", "mptcp", "cmt-sctp"] {
        let flow = flow(&[("flow.F.protocol", protocol), ("link.first.loss", lossy)]);
        let path = &flow.paths[0];
        // A packet carries at most 1460 bytes; a probe may be a retransmission.
        let again = path.bytes_by_kind["retransmission"];
        let most = 1460 * (path.retransmissions + path.probes.unwrap_or_default());
        assert!((700 * path.retransmissions..=most).contains(&again) && again > 0, "{protocol}: {path:#?}");
        assert!(path.reductions_by_cause["loss"] > 10, "{protocol}: {:?}", path.reductions_by_cause);
        assert_eq!(path.reductions_by_cause["ecn"], 0);
        // 20 ms there and back, and at most 10 Mbit/s, headers included.
        let (rtt, rate) =
            (path.srtt_min_s.unwrap_or_default(), path.delivery_rate_max_bps.unwrap_or_default());
        assert!((0.02..0.04).contains(&rtt), "{protocol}: {rtt} s");
        assert!((5e6..11e6).contains(&rate), "{protocol}: {rate} bit/s");
    }
    let copies = flow(&[("flow.F.protocol", "mptcp"), ("flow.F.scheduler", "redundant")]);
    let bytes: Vec<_> = copies.paths.iter().map(|path| path.bytes_by_kind["copy"]).collect();
    assert!(bytes.iter().sum::<u64>() > 10_000_000, "{bytes:?}");
    let narrow = flow(&[
        ("flow.F.protocol", "mptcp"),
        ("flow.F.receive_buffer", "100 kB"),
        ("link.second.delay", "400 ms"),
    ]);
    let slow = &narrow.paths[1];
    assert!(slow.reductions_by_cause["penalisation"] > 0, "{:?}", slow.reductions_by_cause);
    assert_eq!(narrow.paths[0].reductions_by_cause["penalisation"], 0);
    assert!(narrow.paths[0].bytes_by_kind["opportunistic-retransmission"] > 0, "{:?}", narrow.paths[0]);
}

/// A small receive buffer, occupied by data on a slow path, keeps both paths from sending although their
/// windows have room: the sum of their waits exceeds that of the flow. Chunk rescheduling is off, since it
/// would move that data to the fast path before the buffer is full.
#[test]
fn buffer_blocking_two_paths_counts_once() {
    let flow = flow(&[
        ("flow.F.protocol", "cmt-sctp"),
        ("flow.F.congestion", "reno"),
        ("flow.F.buffer_splitting", "none"),
        ("flow.F.chunk_rescheduling", "false"),
        ("flow.F.receive_buffer", "50 kB"),
        ("flow.F.ordered", "false"),
        ("link.second.rate", "200 kbit/s"),
    ]);
    let buffers = ["receive-window", "send-buffer"];
    let paths = [0, 1].map(|at: usize| share(&flow.paths[at].limited_s, &buffers));
    assert!(paths[0] > 0.5 && paths[0] + paths[1] > 1.5, "{:#?}", flow.paths);
    assert!(share(&flow.limited_s, &buffers) > 0.9, "{:?}", flow.limited_s);
    let by_contents: f64 = flow.buffer_blocked_s.values().sum();
    assert!(by_contents > 0.9 * MEASURED_SECONDS && flow.buffer_blocked_s.len() == 4, "{by_contents}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn times_of_random_runs_add_up(
        protocol in prop::sample::select(vec!["tcp", "mptcp", "sctp", "cmt-sctp"]),
        congestion in prop::sample::select(vec!["reno", "cubic", "bbr"]),
        scheduler in prop::sample::select(vec!["lowest-rtt", "blest", "ecf", "round-robin", "redundant", "consn"]),
        (rate, delay, loss) in (1_u32..20, 1_u32..200, 0_u32..40),
        (send, receive) in (20_u32..1000, 20_u32..1000),
        (kind, down, start) in (0_usize..3, 4_u32..18, 0_u32..8),
    ) {
        let [rate, delay] = [format!("{rate} Mbit/s"), format!("{delay} ms")];
        let [send, receive] = [send, receive].map(|size| format!("{size} kB"));
        let loss = format!("{{ model = \"bernoulli\", rate = {} }}", f64::from(loss) / 1000.0);
        let start = format!("{start} s");
        let workload = ["{ kind = \"saturated\" }", "{ kind = \"rate\", rate = \"1 Mbit/s\" }",
            "{ kind = \"file\", size = \"2 MB\" }"][kind];
        let events = [("first", down, "down"), ("first", down + 2, "up")].map(event).concat();
        let mut settings = vec![
            ("flow.F.protocol", protocol), ("flow.F.congestion", congestion), ("link.second.rate", &rate),
            ("link.second.delay", &delay), ("link.first.loss", &loss), ("flow.F.send_buffer", &send),
            ("flow.F.receive_buffer", &receive), ("flow.F.workload", workload),
            ("flow.F.start", &start),
        ];
        if protocol == "mptcp" {
            settings.push(("flow.F.scheduler", scheduler));
        }
        flow_with(&events, &settings);
    }
}
