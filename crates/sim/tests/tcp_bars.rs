//! What TCP has to reach in whole runs where its timers and its recovery decide.

use sim::RunOptions;
use sim::scenario::{self, result::FlowResult};

/// One TCP flow over one link; `flow` is more of its keys.
fn alone(link: &str, flow: &str) -> FlowResult {
    let text = format!(
        "title = \"one flow\"\nduration = \"30 s\"\nwarmup = \"10 s\"\n\
         [[link]]\nname = \"L\"\nbetween = [\"A\", \"B\"]\n{link}\n\
         [[flow]]\nname = \"F\"\nfrom = \"A\"\nto = \"B\"\nprotocol = \"tcp\"\n{flow}\n"
    );
    let scenario = scenario::parse(&text, "bars.toml", &[]).unwrap_or_else(|error| panic!("{error}"));
    sim::run(&scenario, &RunOptions::default()).unwrap().flows.remove(0)
}

fn mbps(flow: &FlowResult) -> f64 {
    flow.goodput_bps / 1e6
}

#[test]
fn cubic_fills_a_long_fat_link_without_a_spurious_timeout() {
    let flow = alone(
        "rate = \"1 Gbit/s\"\ndelay = \"50 ms\"\nqueue = { kind = \"fifo\", limit = \"12500 kB\" }",
        "congestion = \"cubic\"\nsend_buffer = \"64 MB\"\nreceive_buffer = \"64 MB\"",
    );
    let path = &flow.paths[0];
    assert!(mbps(&flow) >= 940.0, "{} Mbit/s", mbps(&flow));
    assert_eq!(path.timeouts, 0, "retransmissions: {:?}", path.retransmissions_by_cause);
}

#[test]
fn a_download_beside_an_upload_on_an_asymmetric_line_has_no_timeout() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/asymmetric-dsl.toml");
    let text = std::fs::read_to_string(path).unwrap();
    let scenario = scenario::parse(&text, path, &[]).unwrap_or_else(|error| panic!("{error}"));
    let result = sim::run(&scenario, &RunOptions::default()).unwrap();
    let download = &result.flows[0];
    assert_eq!((download.name.as_str(), download.paths[0].timeouts), ("download", 0));
}
