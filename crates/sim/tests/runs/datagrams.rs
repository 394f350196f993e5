//! Losses, copies and jitter of datagrams, and calls.

use anabranch_sim::scenario;
use anabranch_sim::scenario::result::FlowResult;
use anabranch_sim::{RunError, RunOptions};

/// A call of 50 datagrams a second over a link of 8 Mbit/s and 40 ms; a datagram of 188 bytes arrives after 40.188 ms.
fn call(duration_s: u64, link: &str, rest: &str) -> FlowResult {
    let text = format!(
        "duration = \"{duration_s} s\"\n[[link]]\nname = \"L\"\nbetween = [\"A\", \"B\"]\nrate = \"8 Mbit/s\"\n\
         delay = \"40 ms\"\n{link}\n[[flow]]\nfrom = \"A\"\nto = \"B\"\nprotocol = \"udp\"\nvoice = \"g711\"\n\
         workload = {{ kind = \"messages\", message = \"160 B\", interval = \"20 ms\", count = 100 }}\n{rest}"
    );
    let scenario = scenario::parse(&text, "call.toml", &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let run = |options| anabranch_sim::run(&scenario, &options).expect("the run succeeds");
    let result = run(RunOptions::default());
    assert_eq!(run(RunOptions { in_order: true, ..RunOptions::default() }), result, "in order");
    assert_eq!(run(RunOptions { check_wire: true, ..RunOptions::default() }), result, "with packets checked");
    result.flows.into_iter().next().expect("the run has one flow")
}

/// R of g711.
fn expected_r(delay_ms: f64, lost: f64) -> f64 {
    94.2 - 0.024 * delay_ms - 0.11 * (delay_ms - 177.3).max(0.0) - 30.0 * (1.0 + 15.0 * lost).ln()
}

fn close(found: Option<f64>, expected: f64) -> bool {
    (found.expect("a value") - expected).abs() < 1e-6
}

#[test]
fn undisturbed_call_has_the_rating_of_its_delay() {
    let flow = call(3, "", "");
    assert_eq!((flow.lost_share, flow.duplicated_share, flow.jitter_s), (Some(0.0), Some(0.0), Some(0.0)));
    assert!(close(flow.r_factor, expected_r(100.188, 0.0)), "{:?}", flow.r_factor);
    assert!(flow.mos.unwrap() > 4.3);
}

#[test]
fn lost_and_duplicated_datagrams_are_counted() {
    let flow = call(3, "loss = { model = \"list\", packets = [1, 7, 8, 100] }", "");
    assert_eq!((flow.lost_share, flow.delivered_bytes), (Some(0.04), 96 * 160));
    assert!(close(flow.r_factor, expected_r(100.188, 0.04)), "{:?}", flow.r_factor);
    let flow = call(3, "duplicate = { rate = 1 }", "");
    assert_eq!((flow.lost_share, flow.duplicated_share), (Some(0.0), Some(1.0)));
    assert_eq!(flow.delivered_bytes, 100 * 160, "each once");
}

#[test]
fn late_datagrams_are_lost_for_the_call() {
    // From 1 s on, the delay is 60 ms longer than the first one, or 70 ms: then half of the datagrams are late.
    for (delay_ms, lost) in [(100, 0.0), (110, 0.5)] {
        let event =
            format!("[[event]]\nat = \"999 ms\"\nlink = \"L\"\nset = {{ delay = \"{delay_ms} ms\" }}");
        let flow = call(3, "", &event);
        assert_eq!(flow.lost_share, Some(0.0));
        assert!(close(flow.r_factor, expected_r(100.188, lost)), "{delay_ms}: {:?}", flow.r_factor);
        // One difference of delays, followed by 49 of zero.
        let difference_s = (f64::from(delay_ms) - 40.0) / 1e3;
        assert!(
            close(flow.jitter_s, difference_s / 16.0 * (15.0_f64 / 16.0).powi(49)),
            "{:?}",
            flow.jitter_s
        );
    }
}

#[test]
fn call_without_an_arrival_has_no_rating() {
    let flow = call(3, "loss = { model = \"bernoulli\", rate = 1.0 }", "");
    assert_eq!((flow.lost_share, flow.jitter_s, flow.r_factor, flow.mos), (Some(1.0), None, None, None));
}

#[test]
fn run_with_a_message_each_ns_can_be_interrupted() {
    let text = "duration = \"1 s\"\n[[link]]\nname = \"L\"\nbetween = [\"A\", \"B\"]\nrate = \"10 Mbit/s\"\n\
                delay = \"50 ms\"\n[[flow]]\nfrom = \"A\"\nto = \"B\"\nprotocol = \"udp\"\n\
                workload = { kind = \"messages\", message = \"1000 B\", interval = \"1 ns\" }\n";
    let scenario = scenario::parse(text, "call.toml", &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut seen = vec![0];
    let outcome = anabranch_sim::run_with(&scenario, &RunOptions::default(), &mut |progress| {
        seen.push(progress.events);
        progress.events < 500_000
    });
    assert!(matches!(outcome, Err(RunError::Interrupted { .. })), "{outcome:?}");
    let longest = seen.windows(2).map(|pair| pair[1] - pair[0]).max();
    assert!(longest < Some(100_000), "{seen:?}");
}
