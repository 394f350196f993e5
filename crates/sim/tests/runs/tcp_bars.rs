//! Minimum performance of TCP in whole runs where timers and recovery are decisive.

use anabranch_sim::RunOptions;
use anabranch_sim::scenario::{self, result::FlowResult};

/// One TCP flow over one link; `flow` contains further keys.
fn alone(link: &str, flow: &str) -> FlowResult {
    let text = format!(
        "title = \"one flow\"\nduration = \"30 s\"\nwarmup = \"10 s\"\n\
         [[link]]\nname = \"L\"\nbetween = [\"A\", \"B\"]\n{link}\n\
         [[flow]]\nname = \"F\"\nfrom = \"A\"\nto = \"B\"\n{flow}\n"
    );
    let scenario = scenario::parse(&text, "bars.toml", &[]).unwrap_or_else(|error| panic!("{error}"));
    anabranch_sim::run(&scenario, &RunOptions::default()).unwrap().flows.remove(0)
}

fn mbps(flow: &FlowResult) -> f64 {
    flow.goodput_bps / 1e6
}

#[test]
fn cubic_fills_long_link_without_spurious_timeout() {
    for buffer in ["64 MB", "auto"] {
        let flow = alone(
            "rate = \"1 Gbit/s\"\ndelay = \"50 ms\"\nqueue = { kind = \"fifo\", limit = \"12500 kB\" }",
            &format!(
                "protocol = \"tcp\"\ncongestion = \"cubic\"\n\
                 send_buffer = \"{buffer}\"\nreceive_buffer = \"{buffer}\""
            ),
        );
        let path = &flow.paths[0];
        assert!(mbps(&flow) >= 940.0, "{buffer}: {} Mbit/s", mbps(&flow));
        assert_eq!(path.timeouts, Some(0), "{buffer}: {:?}", path.retransmissions_by_cause);
    }
}

/// 5 % of the packets arrive 5 ms later than their neighbours.
#[test]
fn reordering_hardly_reduces_goodput() {
    let link = "rate = \"50 Mbit/s\"\ndelay = \"10 ms\"\nreorder = { rate = 0.05, delay = \"5 ms\" }";
    for (protocol, congestion) in [("tcp", "reno"), ("tcp", "cubic"), ("mptcp", "lia")] {
        let flow = alone(link, &format!("protocol = \"{protocol}\"\ncongestion = \"{congestion}\""));
        assert!(mbps(&flow) >= 45.0, "{protocol} {congestion}: {} Mbit/s", mbps(&flow));
    }
}

#[test]
fn timeout_by_delay_spike_is_undone() {
    // One packet takes 0.7 s, and all following packets wait for it.
    let text = "title = \"a spike\"\nduration = \"10 s\"\n\
         [[link]]\nname = \"L\"\nbetween = [\"A\", \"B\"]\nrate = \"20 Mbit/s\"\ndelay = \"20 ms\"\n\
         queue = { kind = \"fifo\", limit = \"2000 packets\" }\n\
         [[event]]\nat = \"5 s\"\nlink = \"L\"\nset = { rate = \"17 kbit/s\" }\n\
         [[event]]\nat = \"5.1 s\"\nlink = \"L\"\nset = { rate = \"20 Mbit/s\" }\n\
         [[flow]]\nname = \"F\"\nfrom = \"A\"\nto = \"B\"\nprotocol = \"tcp\"\nreceive_buffer = \"200 kB\"\n";
    for protocol in ["tcp", "mptcp"] {
        let set = [("flow.F.protocol".to_owned(), protocol.to_owned())];
        let scenario = scenario::parse(text, "spike.toml", &set).unwrap_or_else(|error| panic!("{error}"));
        let path = &anabranch_sim::run(&scenario, &RunOptions::default()).unwrap().flows[0].paths[0];
        assert!(path.timeouts > Some(0), "{protocol}: the spike must cause a timeout");
        assert_eq!(
            (path.undone, path.ssthresh_bytes),
            (Some(1), None),
            "{protocol}: {} retransmitted",
            path.retransmissions
        );
    }
}

#[test]
fn download_with_concurrent_upload_has_no_timeout() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/asymmetric-dsl.toml");
    let text = std::fs::read_to_string(path).unwrap();
    // A single run depends on chance: on the acknowledgements that the queue of the upload drops.
    let rates = ["12 ms", "15 ms", "18 ms", "20 ms", "22 ms", "25 ms"].map(|delay| {
        let settings = [("link.dsl.delay".to_owned(), delay.to_owned())];
        let scenario = scenario::parse(&text, path, &settings).unwrap_or_else(|error| panic!("{error}"));
        let result = anabranch_sim::run(&scenario, &RunOptions::default()).unwrap();
        let download = &result.flows[0];
        assert_eq!((download.name.as_str(), download.paths[0].timeouts), ("download", Some(0)), "{delay}");
        mbps(download)
    });
    assert!(rates.iter().sum::<f64>() / rates.len() as f64 > 9.6, "{rates:?} Mbit/s");
}
