//! Paths of SCTP and CMT-SCTP that fail, recover, mark packets or come up late, and buffers of every size, in whole runs.

use anabranch_multipath::congestion::ALGORITHMS;
use anabranch_sim::scenario;
use anabranch_sim::{RunOptions, RunResult};

fn run(text: &str) -> RunResult {
    let scenario = scenario::parse(text, "scenario", &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
    anabranch_sim::run(&scenario, &RunOptions { seed: Some(1), ..RunOptions::default() }).unwrap()
}

/// Links of 10 Mbit/s between A and B, each with additional lines, and one flow.
fn scenario_of(seconds: f64, links: &[&str], flow: &str) -> String {
    let mut text =
        format!("duration = \"{seconds} s\"\nwarmup = \"1 s\"\n[link_defaults]\nrate = \"10 Mbit/s\"\n");
    for (at, lines) in links.iter().enumerate() {
        let link =
            format!("[[link]]\nname = \"p{at}\"\nbetween = [\"A\", \"B\"]\ndelay = \"20 ms\"\n{lines}\n");
        text += &link;
    }
    text + &format!("[[flow]]\nname = \"f\"\nfrom = \"A\"\nto = \"B\"\n{flow}\n")
}

fn event(at: f64, link: &str, state: &str) -> String {
    format!("[[event]]\nat = \"{at} s\"\nlink = \"{link}\"\nset = {{ state = \"{state}\" }}\n")
}

#[test]
fn association_survives_outages_of_all_its_links() {
    for (links, away, seconds) in [(2, 40.0, 190.0), (4, 10.0, 100.0), (8, 60.0, 150.0)] {
        for protocol in ["sctp", "cmt-sctp"] {
            let mut text = scenario_of(
                seconds,
                &vec![""; links],
                &format!("protocol = \"{protocol}\"\nsend_buffer = \"100 kB\""),
            );
            let mut short = scenario_of(
                30.0 + away + 5.0,
                &vec![""; links],
                &format!("protocol = \"{protocol}\"\nsend_buffer = \"100 kB\""),
            );
            for link in 0..links {
                let name = format!("p{link}");
                for text in [&mut text, &mut short] {
                    *text += &(event(30.0, &name, "down") + &event(30.0 + away, &name, "up"));
                }
            }
            let (flow, soon) = (&run(&text).flows[0], &run(&short).flows[0]);
            assert_eq!(flow.state, "open", "{protocol}, {links} links away for {away} s");
            // 30 s before the outage give 36 MB on one link.
            let per_link = 1_000_000;
            assert!(
                soon.delivered_bytes + 30 * per_link < flow.delivered_bytes,
                "{protocol}: the transfer must continue"
            );
        }
    }
}

#[test]
fn marks_of_one_link_do_not_affect_the_other() {
    for queue in ["codel", "fq-codel", "red"] {
        for entry in ALGORITHMS {
            let marking = format!("queue = {{ kind = \"{queue}\", ecn = true }}");
            let flow = format!("protocol = \"cmt-sctp\"\necn = true\ncongestion = \"{}\"", entry.name);
            let result = run(&scenario_of(20.0, &[&marking, ""], &flow));
            let [marked, clean] = &result.flows[0].paths[..] else { panic!("two paths") };
            assert_eq!(clean.ecn_reductions, Some(0), "{queue}, {}", entry.name);
            println!("{queue}, {}: {:?}, {:.1e}", entry.name, marked.ecn_reductions, clean.goodput_bps);
        }
    }
}

#[test]
fn no_packet_is_sent_without_a_route() {
    let lossy = "loss = { model = \"bernoulli\", rate = 0.3 }";
    for protocol in ["sctp", "cmt-sctp"] {
        for paths in ["destination", "fullmesh"] {
            let flow = format!(
                "protocol = \"{protocol}\"\npaths = \"{paths}\"\nworkload = {{ kind = \"file\", size = \"50 kB\" }}"
            );
            let result = run(&scenario_of(400.0, &[lossy, lossy], &flow));
            assert_eq!(result.unreachable_packets, Some(0), "{protocol}, {paths}");
            assert_eq!(result.flows[0].delivered_bytes, 50_000, "{protocol}, {paths}");
        }
    }
}

#[test]
fn handshake_continues_when_a_link_comes_up() {
    let flow = "protocol = \"sctp\"\nworkload = { kind = \"file\", size = \"50 kB\" }";
    let text = scenario_of(20.0, &["state = \"down\"", "state = \"down\""], flow) + &event(12.0, "p1", "up");
    let setup = run(&text).flows[0].setup_s.expect("the association is set up");
    assert!((12.0..12.2).contains(&setup), "{setup} s");
}

#[test]
fn messages_with_a_lifetime_arrive_without_nagle() {
    let lossy = "loss = { model = \"bernoulli\", rate = 0.1 }";
    let workload = "workload = { kind = \"messages\", message = \"500 B\", interval = \"50 ms\", lifetime = \"100 ms\" }";
    for (protocol, least) in [("sctp", 0.85), ("cmt-sctp", 0.75)] {
        let flow = format!("protocol = \"{protocol}\"\nnagle = false\n{workload}");
        let result = run(&scenario_of(30.0, &[lossy], &flow));
        let share = result.flows[0].delivered_bytes as f64 / (30.0 / 0.05 * 500.0);
        assert!(share > least, "{protocol}: {share} of the messages arrive");
    }
}

/// Bytes delivered until each of these times in seconds.
fn delivered<const N: usize>(text: impl Fn(f64) -> String, at: [f64; N]) -> [u64; N] {
    at.map(|at| run(&text(at)).flows[0].delivered_bytes)
}

#[test]
fn late_link_carries_data_at_once() {
    for asconf in [false, true] {
        for started in [false, true] {
            let late = if started { "" } else { "state = \"down\"" };
            let mut changes = event(16.0, "p1", "up");
            if started {
                changes += &event(0.0, "p1", "down");
            }
            let flow = |protocol| format!("protocol = \"{protocol}\"\nasconf = {asconf}");
            let result = run(&(scenario_of(17.0, &["", late], &flow("cmt-sctp")) + &changes));
            let path = result.flows[0].paths.iter().find(|path| path.links == ["p1"]).expect("a path");
            assert!(path.data_packets > 10, "{} packets, asconf {asconf}", path.data_packets);
            let result = run(&(scenario_of(16.5, &["", late], &flow("sctp")) + &changes));
            let path = result.flows[0].paths.iter().find(|path| path.links == ["p1"]).expect("a path");
            assert!(path.usable, "asconf {asconf}, started {started}");
        }
    }
}

#[test]
fn handover_does_not_interrupt_delivery() {
    for protocol in ["sctp", "cmt-sctp"] {
        let text = |seconds: f64| {
            scenario_of(seconds, &["", "state = \"down\""], &format!("protocol = \"{protocol}\""))
                + &event(8.0, "p1", "up")
                + &if seconds > 10.0 { event(10.0, "p0", "down") } else { String::new() }
        };
        let bytes = delivered(text, [9.9, 10.9, 11.4, 12.4, 13.4, 14.4]);
        for pair in bytes.windows(2) {
            assert!(pair[1] > pair[0] + 100_000, "{protocol}: {bytes:?}");
        }
    }
}

/// A larger receive buffer is never slower by more than the two packets that may wait for an acknowledgement.
#[test]
fn larger_receive_buffers_are_not_slower() {
    let goodput = |buffer: u64| {
        let flow = format!("protocol = \"sctp\"\nreceive_buffer = \"{buffer} B\"");
        run(&scenario_of(10.0, &[""], &flow)).flows[0].goodput_bps
    };
    let mut before = 0.0;
    for buffer in [1500, 2900, 3000, 3500, 4000, 4350, 4400, 6000, 9000, 12_000, 20_000, 40_000, 60_000] {
        let now = goodput(buffer);
        assert!(now > 0.93 * before, "{now} bit/s with {buffer} bytes, {before} with fewer");
        before = now;
    }
    assert!(goodput(4000) > 0.5e6, "two packets per round trip");
}

/// Two seconds after one of two equal links has failed, the other link has the goodput of SCTP alone on it.
#[test]
fn remaining_path_has_its_full_goodput() {
    for (congestion, buffer) in [("lia", "500 kB"), ("reno", "500 kB"), ("lia", "4 MB")] {
        for failed in ["p0", "p1"] {
            for at in [10.0, 30.0] {
                let flow = format!(
                    "protocol = \"cmt-sctp\"\ncongestion = \"{congestion}\"\nsend_buffer = \"{buffer}\"\n\
                     receive_buffer = \"{buffer}\""
                );
                let text = |seconds| scenario_of(seconds, &["", ""], &flow) + &event(at, failed, "down");
                let [from, to] = delivered(text, [at + 2.0, at + 22.0]);
                let rate = (to - from) as f64 * 8.0 / 20.0;
                // SCTP alone on this link has 9.68 Mbit/s.
                assert!(
                    rate > 0.95 * 9.68e6,
                    "{congestion}, {buffer}, {failed} fails at {at} s: {rate} bit/s"
                );
            }
        }
    }
}
