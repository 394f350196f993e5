//! Outages of one of two links (20 and 10 Mbit/s), eight seconds each, while a host behind a router downloads.

use super::links::{Bed, NEEDS, kill};
use super::program::Program;
use super::router_links::{Host, router};
use super::uplinks::Transfer;
use anabranch_testkit::namespace::{machine_has, set};
use std::time::Duration;
use tokio::time::Instant;

/// Number of outages in a test.
const OUTAGES: u64 = 15;
/// Time before the first outage, in which the transfer is set up and passes slow start.
const FIRST_OUTAGE_DELAY: Duration = Duration::from_secs(10);
/// Length of an outage.
const OUTAGE_DURATION: Duration = Duration::from_secs(8);
/// Time from the end of an outage to the next one.
const OUTAGE_PAUSE: Duration = Duration::from_secs(12);

/// Maximum of the longest gap without a byte, and of the time until a link that has returned carries data.
const MAX_OUTAGE: Duration = Duration::from_secs(2);

/// A link that has returned counts as used from this number of bytes, more than probes take.
const MIN_USED_BYTES: u64 = 50_000;

/// Returns the number of bytes that the client has received over an interface.
fn received(bed: &Bed, interface: &str) -> u64 {
    let table = || std::fs::read_to_string("/proc/thread-self/net/dev");
    let table = bed.hosts.namespace("client").run(table).expect("procfs");
    let line = table
        .lines()
        .find_map(|line| line.trim().strip_prefix(&format!("{interface}:")))
        .expect("the table has the interface");
    line.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number")
}

/// Downloads during all outages. Returns for each outage the longest time without a byte, and the time from its end
/// until the link carried data.
fn watch(bed: &Bed, begin: Instant, turn: impl Fn(&str)) -> Vec<(Duration, Duration)> {
    let host = Host::new(bed, "outages");
    let _far = bed.far_proxy();
    let _router = router(bed, "socks");
    let (url, _) = bed.serve();
    let mut curl = host.command(&["curl", "-sS", &url]).spawn().expect("curl can be run");
    let mut transfer = Transfer::new(curl.stdout.take().expect("the stream is a pipe"));
    let wait_until = |at: Instant| std::thread::sleep(at.saturating_duration_since(Instant::now()));
    let mut outages = Vec::new();
    for number in 0..OUTAGES {
        let at = begin + FIRST_OUTAGE_DELAY + every() * number as u32;
        wait_until(at);
        transfer.longest_gap();
        turn("down");
        wait_until(at + OUTAGE_DURATION);
        turn("up");
        let (returned, before) = (Instant::now(), received(bed, "wlan"));
        while received(bed, "wlan") < before + MIN_USED_BYTES && returned.elapsed() < OUTAGE_PAUSE {
            std::thread::sleep(Duration::from_millis(10));
        }
        let back = returned.elapsed();
        wait_until(at + OUTAGE_DURATION + OUTAGE_PAUSE / 2);
        outages.push((transfer.longest_gap(), back));
        eprintln!(
            "{number}: gap {} ms, back after {} ms",
            outages[number as usize].0.as_millis(),
            back.as_millis()
        );
    }
    kill(curl);
    outages
}

/// Returns the time from the start of one outage to the start of the next.
const fn every() -> Duration {
    OUTAGE_DURATION.saturating_add(OUTAGE_PAUSE)
}

fn is_over() -> Duration {
    FIRST_OUTAGE_DELAY + every() * (OUTAGES as u32 + 1)
}

/// Starts `uplinks` for both links of the client, with probes of the far proxy.
fn start_uplinks(bed: &Bed) -> Program {
    bed.hosts.ip("client", "mptcp endpoint flush");
    for (interface, metric) in [("wlan", 101), ("mobile", 102)] {
        bed.hosts.ip("client", &format!("route add default dev {interface} metric {metric}"));
    }
    let both = format!(
        "[[uplink]]\ninterface = \"wlan\"\n[[uplink]]\ninterface = \"mobile\"\n[uplinks]\nprobe = [\"{}:1080\"]\n",
        bed.address("proxy", 0)
    );
    let program = Program::start_silent_in(bed.hosts.name("client"), "uplinks", &both);
    program.line("wlan");
    program
}

/// Runs outages in which the link drops all packets without a notification, so that the far sender detects them only by
/// timeouts.
fn black_holes<T>(purpose: &str, prepare: impl Fn(&Bed) -> T) -> Vec<(Duration, Duration)> {
    let state = |at: Duration, state: &str| {
        format!("[[event]]\nat = \"{} s\"\nlink = \"wlan\"\nset = {{ state = \"{state}\" }}\n", at.as_secs())
    };
    let events: String = (0..OUTAGES as u32)
        .map(|number| FIRST_OUTAGE_DELAY + every() * number)
        .flat_map(|at| [state(at, "down"), state(at + OUTAGE_DURATION, "up")])
        .collect();
    let bed = Bed::lasting(purpose, is_over(), &events);
    let begin = Instant::now();
    let _prepared = prepare(&bed);
    watch(&bed, begin, |_| {})
}

#[test]
#[ignore = "long test: five minutes"]
fn black_hole_is_survived_without_uplinks() {
    if !machine_has(&NEEDS) {
        return;
    }
    let outages = black_holes("outages-hole", |_| {});
    assert!(outages.iter().all(|(gap, _)| *gap <= MAX_OUTAGE), "{outages:?}");
}

#[test]
#[ignore = "long test: five minutes"]
fn black_hole_is_survived_with_lower_maximum_timeout() {
    if !machine_has(&NEEDS) {
        return;
    }
    let outages = black_holes("outages-try", |bed| {
        let often = || {
            set("net.ipv4.tcp_rto_max_ms", "1000");
            Ok(())
        };
        bed.hosts.namespace("proxy").run(often).expect("root may enter");
    });
    assert!(outages.iter().all(|(gap, back)| *gap <= MAX_OUTAGE && *back <= MAX_OUTAGE), "{outages:?}");
}

#[test]
#[ignore = "long test: five minutes"]
fn black_hole_is_survived_with_uplinks_and_probes() {
    if !machine_has(&NEEDS) {
        return;
    }
    let outages = black_holes("outages-ask", start_uplinks);
    assert!(outages.iter().all(|(gap, back)| *gap <= MAX_OUTAGE && *back <= MAX_OUTAGE), "{outages:?}");
}

/// In each outage the interface is set down, which removes its routes, and later set up again.
#[test]
#[ignore = "long test: five minutes"]
fn interface_outage_is_survived_with_uplinks() {
    if !machine_has(&NEEDS) {
        return;
    }
    let bed = Bed::lasting("outages-down", is_over(), "");
    let begin = Instant::now();
    let _program = start_uplinks(&bed);
    let outages = watch(&bed, begin, |state| bed.hosts.ip("client", &format!("link set wlan {state}")));
    assert!(outages.iter().all(|(gap, back)| *gap <= MAX_OUTAGE && *back <= MAX_OUTAGE), "{outages:?}");
}
