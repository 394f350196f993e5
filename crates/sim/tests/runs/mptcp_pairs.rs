//! Multipath TCP over pairs of different paths, with its defaults and without their mechanisms: the reasons
//! of the defaults. The last test here prints the table in docs/lab-notes/mptcp.md.

use anabranch_sim::RunOptions;
use anabranch_sim::scenario::{self, result::FlowResult};
use anabranch_testkit::scenario_text::{LazyText, ScenarioText};
use std::fmt::Write as _;

/// Rate in Mbit/s and round-trip time in milliseconds.
type Path = (f64, u64);

const BUFFERS: [&str; 4] = ["100 kB", "400 kB", "1 MB", "4 MB"];
const DEFAULT_SETTINGS: &str = "";
const WITHOUT_MECHANISMS: &str = "opportunistic_retransmission = false\npenalisation = false\n";
const WITHOUT_PENALISATION: &str = "penalisation = false\n";

/// A flow over two paths for 25 seconds, measured from the fifth on, with these send and receive buffers.
fn run(paths: [Path; 2], [send, receive]: [&str; 2], flow: &str) -> FlowResult {
    let link = |name: &str, (rate, rtt): Path| {
        format!(
            "[[link]]\nname = \"{name}\"\nbetween = [\"A\", \"B\"]\nrate = \"{rate} Mbit/s\"\ndelay = \"{} ms\"\n\
             queue = {{ kind = \"fifo\", limit = \"100 packets\" }}\n",
            rtt / 2
        )
    };
    let text = format!(
        "title = \"a pair\"\nduration = \"25 s\"\nwarmup = \"5 s\"\n{}{}[[flow]]\nfrom = \"A\"\nto = \"B\"\n\
         send_buffer = \"{send}\"\nreceive_buffer = \"{receive}\"\n{flow}\n",
        link("one", paths[0]),
        link("two", paths[1])
    );
    let scenario =
        scenario::parse(&text, "pairs.toml", &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
    anabranch_sim::run(&scenario, &RunOptions::default()).unwrap().flows.remove(0)
}

/// Goodput in Mbit/s.
fn goodput(paths: [Path; 2], buffers: [&str; 2], flow: &str) -> f64 {
    run(paths, buffers, flow).goodput_bps / 1e6
}

/// Goodput of TCP on the better of the two paths, with the same buffers.
fn best(paths: [Path; 2], buffer: &str) -> f64 {
    let alone = |name| goodput(paths, [buffer; 2], &format!("protocol = \"tcp\"\ninitial_path = \"{name}\""));
    alone("one").max(alone("two"))
}

fn both(paths: [Path; 2], buffer: &str, settings: &str) -> f64 {
    goodput(paths, [buffer; 2], &format!("protocol = \"mptcp\"\npaths = \"disjoint\"\n{settings}"))
}

#[test]
fn two_paths_are_at_least_as_fast_as_the_better() {
    // Corners of the grid, and cells that were far lower: down to 0.2 of the better path.
    for (paths, buffer) in [
        ([(10.0, 20), (10.0, 20)], "100 kB"),
        ([(10.0, 20), (10.0, 800)], "400 kB"),
        ([(10.0, 20), (0.5, 20)], "400 kB"),
        ([(10.0, 20), (0.5, 800)], "1 MB"),
        ([(10.0, 20), (0.5, 800)], "4 MB"),
        ([(10.0, 80), (0.5, 20)], "400 kB"),
        ([(10.0, 200), (1.0, 20)], "400 kB"),
        ([(10.0, 800), (5.0, 20)], "100 kB"),
        ([(10.0, 800), (0.5, 20)], "4 MB"),
    ] {
        let (together, alone) = (both(paths, buffer, DEFAULT_SETTINGS), best(paths, buffer));
        assert!(together >= 0.95 * alone, "{paths:?} {buffer}: {together} of {alone} Mbit/s");
    }
}

#[test]
fn mechanisms_do_not_reduce_goodput() {
    for paths in [[(10.0, 20), (10.0, 80)], [(10.0, 20), (5.0, 200)], [(10.0, 20), (2.0, 20)]] {
        for buffer in ["1 MB", "4 MB"] {
            let (with, without) =
                (both(paths, buffer, DEFAULT_SETTINGS), both(paths, buffer, WITHOUT_MECHANISMS));
            assert!(with >= 0.97 * without, "{paths:?} {buffer}: {with} and {without} Mbit/s");
        }
    }
}

/// LTE's queue delays data for most of a second, so the receive window is always full. Copies of that data on DSL
/// would arrive when LTE delivers the originals.
#[test]
fn reinjections_do_not_displace_new_data() {
    static DSL_AND_LTE: LazyText = LazyText::new(|| {
        ScenarioText::new("title = 'DSL and LTE', duration = '30 s', warmup = '10 s'")
            .link("dsl", ["server", "router"], "rate = '16 Mbit/s', delay = '10 ms'")
            .keys("queue = { kind = 'fifo', limit = '64 kB' }, reverse = { rate = '1 Mbit/s' }")
            .link("lte", ["server", "router"], "rate = '30 Mbit/s', delay = '22.5 ms'")
            .keys("queue = { kind = 'fifo', limit = '4 MB' }, reverse = { rate = '10 Mbit/s' }")
            .table("[[flow]]", "from = 'server', to = 'router', protocol = 'mptcp'")
    });
    let scenario = scenario::parse(&DSL_AND_LTE, "dsl-lte.toml", &[]).unwrap();
    let flow = anabranch_sim::run(&scenario, &RunOptions::default()).unwrap().flows.remove(0);
    let goodput = flow.goodput_bps / 1e6;
    assert!(goodput >= 0.97 * 43.7, "{goodput} Mbit/s");
}

/// Both windows together reach the buffer in slow start. When the buffer has room again, one path could send all of
/// it in one burst, and would leave slow start with a small part of TCP's window.
#[test]
fn slow_return_links_leave_two_paths_faster_than_tcp() {
    let goodput = |delay_ms: u32, protocol: &str| {
        let link = |name: &str| {
            format!(
                "[[link]]\nname = \"{name}\"\nbetween = [\"A\", \"B\"]\nrate = \"100 Mbit/s\"\n\
                 delay = \"{delay_ms} ms\"\nreverse = {{ rate = \"200 kbit/s\" }}\n"
            )
        };
        let text = format!(
            "duration = \"60 s\"\n{}{}[[flow]]\nfrom = \"A\"\nto = \"B\"\nprotocol = \"{protocol}\"\n",
            link("l"),
            link("m")
        );
        let scenario = scenario::parse(&text, "slow-return.toml", &[]).unwrap();
        anabranch_sim::run(&scenario, &RunOptions::default()).unwrap().flows[0].goodput_bps / 1e6
    };
    let measured = [8, 10, 12].map(|delay_ms| ["mptcp", "tcp"].map(|protocol| goodput(delay_ms, protocol)));
    let [multipath, tcp] =
        [0, 1].map(|protocol| measured.iter().map(|pair| pair[protocol]).sum::<f64>() / 3.0);
    assert!(multipath >= tcp, "means of {multipath} and {tcp} Mbit/s: {measured:?}");
}

#[test]
fn mechanisms_help_with_a_full_send_buffer() {
    let paths = [(10.0, 20), (0.5, 200)];
    let small = ["400 kB", "4 MB"];
    let of =
        |settings: &str, protocol: &str| goodput(paths, small, &format!("protocol = {protocol}\n{settings}"));
    let alone = of("", "\"tcp\"");
    let [off, on] = [WITHOUT_MECHANISMS, DEFAULT_SETTINGS]
        .map(|settings| of(settings, "\"mptcp\"\npaths = \"disjoint\""));
    assert!(off < 0.5 * alone && on >= 0.95 * alone, "{on} Mbit/s, {off} without, {alone} alone");
}

#[test]
fn end_of_file_does_not_wait_for_slow_path() {
    for size in ["4 MB", "6 MB"] {
        let time = |flow: &str| {
            let file = format!("{flow}\nworkload = {{ kind = \"file\", size = \"{size}\" }}");
            run([(10.0, 20), (0.5, 200)], ["4 MB"; 2], &file).completion_s.expect("the file arrives")
        };
        let alone = time("protocol = \"tcp\"\ninitial_path = \"one\"");
        let [off, on] = [WITHOUT_MECHANISMS, DEFAULT_SETTINGS]
            .map(|settings| time(&format!("protocol = \"mptcp\"\npaths = \"disjoint\"\n{settings}")));
        assert!(on <= 1.02 * alone && off > 1.5 * on, "{size}: {on} s, {off} s without, {alone} s alone");
    }
}

#[test]
#[ignore = "a minute or two; prints the table of docs/lab-notes/mptcp.md"]
fn print_table() {
    let mut text = String::new();
    let mut below = [0; 3];
    let mut cells = 0;
    for rtts in [(20, 20), (20, 80), (20, 200), (20, 800), (80, 20), (200, 20), (800, 20)] {
        for rate in [10.0, 5.0, 2.0, 1.0, 0.5] {
            if rate >= 10.0 && rtts.0 > rtts.1 {
                continue; // the same pair in reverse order
            }
            let paths = [(10.0, rtts.0), (rate, rtts.1)];
            let _ = write!(text, "| {} ms, {rate} Mbit/s {} ms |", rtts.0, rtts.1);
            for buffer in BUFFERS {
                let alone = best(paths, buffer);
                let found = [WITHOUT_MECHANISMS, WITHOUT_PENALISATION, DEFAULT_SETTINGS]
                    .map(|settings| both(paths, buffer, settings));
                cells += 1;
                for (count, rate) in below.iter_mut().zip(found) {
                    *count += u32::from(rate < 0.95 * alone);
                }
                let [off, unpenalised, on] = found;
                let _ = write!(text, " {alone:.1}: {off:.1}, {unpenalised:.1}, {on:.1} |");
            }
            text.push('\n');
        }
    }
    println!("{text}below 95 % of {cells}: {below:?}");
    assert!(below[2] <= 1, "{below:?}");
}
