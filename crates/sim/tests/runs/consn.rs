//! Confluent sequence numbers on the Wi-Fi and 3G paths of Becke2014 §7.2 and §7.5.

use anabranch_sim::RunOptions;
use anabranch_sim::scenario::{self, result::FlowResult};

/// Wi-Fi 8 Mbit/s with 20 ms and 3G 2 Mbit/s with 150 ms, drop-tail queues of 100 and 35 packets; over four pairs of addresses
/// if `cross`, else over two.
fn wifi_3g(cross: bool, buffer: u64, seconds: u64, flow: &str) -> FlowResult {
    let link = |name: &str, between: [&str; 2], settings: &str| {
        format!(
            "[[link]]\nname = \"{name}\"\nbetween = [\"{}\", \"{}\"]\n{settings}\n",
            between[0], between[1]
        )
    };
    let fast =
        "rate = \"1 Gbit/s\"\ndelay = \"0 ms\"\nqueue = { kind = \"fifo\", limit = \"1000 packets\" }\n";
    let wifi =
        "rate = \"8 Mbit/s\"\ndelay = \"10 ms\"\nqueue = { kind = \"fifo\", limit = \"100 packets\" }\n";
    let third =
        "rate = \"2 Mbit/s\"\ndelay = \"75 ms\"\nqueue = { kind = \"fifo\", limit = \"35 packets\" }\n";
    let mut links = link("wifi", ["A", "W"], wifi) + &link("3g", ["A", "G"], third);
    links += &if cross {
        link("wr", ["W", "R"], fast)
            + &link("gr", ["G", "R"], fast)
            + &link("b1", ["R", "B"], fast)
            + &link("b2", ["R", "B"], fast)
    } else {
        link("b1", ["W", "B"], fast) + &link("b2", ["G", "B"], fast)
    };
    let text = format!(
        "title = \"WiFi and 3G\"\nduration = \"{seconds} s\"\nwarmup = \"20 s\"\n[link_defaults]\nmtu = 1492\n{links}\
         [[flow]]\nname = \"F\"\nfrom = \"A\"\nto = \"B\"\nsend_buffer = \"8 MB\"\nreceive_buffer = \"{buffer} kB\"\n{flow}\n"
    );
    let scenario =
        scenario::parse(&text, "consn.toml", &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
    anabranch_sim::run(&scenario, &RunOptions::default()).unwrap().flows.remove(0)
}

/// Multipath TCP with both established mechanisms, or with neither.
fn settings(control: &str, scheduler: &str, mechanisms: bool) -> String {
    format!(
        "protocol = \"mptcp\"\npaths = \"fullmesh\"\ncongestion = \"{control}\"\nscheduler = \"{scheduler}\"\n\
         opportunistic_retransmission = {mechanisms}\npenalisation = {mechanisms}\n"
    )
}

const CONSN_SCHEDULERS: [&str; 2] = ["consn", "consn-ascending"];

#[test]
fn goodput_is_at_least_that_of_the_best_path() {
    let alone = "protocol = \"mptcp\"\npaths = \"default\"\ninitial_path = \"wifi\"";
    let alone = wifi_3g(false, 400, 40, alone).goodput_bps;
    for (cross, buffer) in [(false, 100), (false, 200), (false, 400), (true, 100), (true, 300), (true, 1000)]
    {
        for scheduler in CONSN_SCHEDULERS {
            let flow = wifi_3g(cross, buffer, 40, &settings("lia", scheduler, false));
            assert_eq!(flow.paths.len(), if cross { 4 } else { 2 });
            let rate = flow.goodput_bps / alone;
            assert!(rate > 0.99, "{scheduler} with {buffer} kB, cross {cross}: {rate} of WiFi alone");
            let most = flow.receive_buffer_bytes.expect("a simulation reports this buffer").max;
            assert!(most <= 1000 * buffer, "{most} B held in a receive buffer of {buffer} kB");
        }
    }
}

#[test]
fn large_buffers_fill_both_paths() {
    for cross in [false, true] {
        for scheduler in CONSN_SCHEDULERS {
            let rate = wifi_3g(cross, 1000, 60, &settings("lia", scheduler, false)).goodput_bps / 1e6;
            assert!(rate > 9.2, "{scheduler}, cross {cross}: {rate} Mbit/s");
        }
    }
}

#[test]
#[ignore = "prints the table of docs/lab-notes/consn.md"]
fn print_table() {
    for (cross, control) in [(false, "lia"), (true, "lia"), (false, "olia"), (true, "olia")] {
        for buffer in [50, 100, 150, 200, 250, 300, 400, 500, 750, 1000, 2000, 3000] {
            let rate = |scheduler, mechanisms| {
                wifi_3g(cross, buffer, 120, &settings(control, scheduler, mechanisms)).goodput_bps / 1e6
            };
            let paths = if cross { "four" } else { "two" };
            let [known, neither] = [true, false].map(|mechanisms| rate("lowest-rtt", mechanisms));
            let [one, all] = CONSN_SCHEDULERS.map(|scheduler| rate(scheduler, false));
            println!(
                "| {paths}, `{control}`, {buffer} kB | {neither:.2} | {known:.2} | {one:.2} | {all:.2} |"
            );
        }
    }
}
