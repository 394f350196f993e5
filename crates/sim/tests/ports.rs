//! Flows between the same hosts share their addresses and the space of their ports, as on a real machine.

use sim::{RunOptions, run, scenario};

#[test]
fn the_hosts_could_tell_every_packet_s_flow_from_what_is_in_it() {
    let mut flows = Vec::new();
    for (protocol, congestion) in [("mptcp", "lia"), ("tcp", "reno"), ("sctp", "reno"), ("cmt-sctp", "lia")] {
        let paths = if protocol == "mptcp" { "paths = \"fullmesh\"\n" } else { "" };
        for number in 0..5 {
            flows.push(format!(
                "[[flow]]\nname = \"{protocol}{number}\"\nfrom = \"A\"\nto = \"B\"\nprotocol = \"{protocol}\"\n\
                 congestion = \"{congestion}\"\n{paths}"
            ));
        }
    }
    let links = "[[link]]\nname = \"one\"\nbetween = [\"A\", \"B\"]\nrate = \"20 Mbit/s\"\ndelay = \"5 ms\"\n\
                 [[link]]\nname = \"two\"\nbetween = [\"A\", \"B\"]\nrate = \"10 Mbit/s\"\ndelay = \"20 ms\"\n";
    let text = format!(
        "title = \"Ports\"\nduration = \"20 s\"\nwarmup = \"1 s\"\nseed = 1\n{links}{}",
        flows.concat()
    );
    let scenario = scenario::parse(&text, "ports.toml", &[]).expect("a scenario");
    let options = RunOptions { check_wire: true, ..RunOptions::default() };
    let result = run(&scenario, &options).expect("no two flows have the same ends");
    assert_eq!(result.flows.len(), 20);
    for flow in &result.flows {
        assert!(flow.goodput_bps > 0.0, "{} has no share", flow.name);
        assert!(
            !flow.name.starts_with("mptcp") || flow.paths.len() >= 2,
            "{}: {}",
            flow.name,
            flow.paths.len()
        );
    }
}
