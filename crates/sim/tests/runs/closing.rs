//! A transferred file is closed in an orderly way under every protocol.

use anabranch_sim::{RunOptions, scenario};

#[test]
fn finished_transfer_is_closed() {
    for protocol in ["tcp", "mptcp", "sctp", "cmt-sctp"] {
        let text = format!(
            "duration = \"5 s\"\n[[link]]\nbetween = [\"S\", \"D\"]\nrate = \"10 Mbit/s\"\ndelay = \"10 ms\"\n[[flow]]\n\
             from = \"S\"\nto = \"D\"\nprotocol = \"{protocol}\"\nworkload = {{ kind = \"file\", size = \"1 MB\" }}\n"
        );
        let scenario = scenario::parse(&text, protocol, &[]).unwrap_or_else(|error| panic!("{error}"));
        let result = anabranch_sim::run(&scenario, &RunOptions::default()).expect("the scenario runs");
        assert_eq!(
            (result.flows[0].delivered_bytes, &*result.flows[0].state),
            (1_000_000, "closed"),
            "{protocol}"
        );
    }
}
