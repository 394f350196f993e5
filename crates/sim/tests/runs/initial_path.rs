//! The path of a TCP connection, and the first path of other connections.

use anabranch_sim::RunOptions;
use anabranch_sim::scenario::{self, result::FlowResult};

/// Runs a flow between two hosts. Each host has two links to a router.
fn run(flow: &str) -> FlowResult {
    let link =
        |name, [a, b]: [&str; 2]| format!("[[link]]\nname = \"{name}\"\nbetween = [\"{a}\", \"{b}\"]\n");
    let links = [link("a", ["A", "R"]), link("b", ["A", "R"]), link("x", ["R", "B"]), link("y", ["R", "B"])];
    let text = format!(
        "title = \"two by two\"\nduration = \"2 s\"\n[link_defaults]\nrate = \"10 Mbit/s\"\ndelay = \"5 ms\"\n{}\
         [[flow]]\nfrom = \"A\"\nto = \"B\"\n{flow}\n",
        links.concat()
    );
    let scenario =
        scenario::parse(&text, "paths.toml", &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let options = RunOptions { check_wire: true, ..RunOptions::default() };
    anabranch_sim::run(&scenario, &options).unwrap().flows.remove(0)
}

fn links(flow: &FlowResult) -> Vec<String> {
    flow.paths.iter().map(|path| path.links.concat()).collect()
}

#[test]
fn tcp_uses_its_initial_path() {
    for (asked, taken) in [
        ("\"b\"", "bx"),
        ("\"y\"", "ay"),
        ("[\"b\", \"y\"]", "by"),
        ("[\"y\", \"b\"]", "by"),
        ("[\"a\"]", "ax"),
    ] {
        let flow = run(&format!("protocol = \"tcp\"\ninitial_path = {asked}"));
        assert_eq!(links(&flow), [taken], "{asked}");
        assert!(flow.goodput_bps > 8e6, "{asked}: {}", flow.goodput_bps);
    }
    assert_eq!(links(&run("protocol = \"tcp\"")), ["ax"]);
}

#[test]
fn mptcp_begins_on_its_initial_path() {
    let first = run("protocol = \"mptcp\"\npaths = \"default\"\ninitial_path = [\"b\", \"y\"]");
    assert_eq!(links(&first), ["by"]);
    let mesh = run("protocol = \"mptcp\"\ninitial_path = [\"b\", \"y\"]");
    assert_eq!(links(&mesh)[0], "by");
    let mut all = links(&mesh);
    all.sort();
    assert_eq!(all, ["ax", "ay", "bx", "by"]);
    assert!(mesh.paths.iter().all(|path| path.goodput_bps > 0.5e6), "{:?}", mesh.paths);
    let backup = run("protocol = \"mptcp\"\npaths = \"disjoint\"\ninitial_path = \"b\"\nbackup = [\"b\"]");
    assert!(backup.paths[0].backup && !backup.paths[1].backup);
    assert!(backup.paths[0].goodput_bps < 0.5e6, "{:?}", backup.paths);
}

#[test]
fn association_begins_on_its_initial_pair() {
    for (asked, taken) in [
        ("[\"a\", \"x\"]", ["ax", "by"]),
        ("[\"a\", \"y\"]", ["ay", "bx"]),
        ("[\"x\", \"b\"]", ["bx", "ay"]),
        ("[\"b\", \"y\"]", ["by", "ax"]),
    ] {
        let flow = run(&format!("protocol = \"cmt-sctp\"\ninitial_path = {asked}"));
        assert_eq!(links(&flow), taken, "{asked}");
        assert!(flow.paths.iter().all(|path| path.goodput_bps > 4e6), "{asked}: {:?}", flow.paths);
        let mesh = run(&format!("protocol = \"cmt-sctp\"\npaths = \"fullmesh\"\ninitial_path = {asked}"));
        assert_eq!((links(&mesh)[0].as_str(), mesh.paths.len()), (taken[0], 4), "{asked}");
    }
    // A single destination keeps the i-th source for the i-th destination.
    let flow = run("protocol = \"sctp\"\ninitial_path = \"y\"");
    assert_eq!(links(&flow), ["ax", "by"]);
    assert!(flow.paths[1].goodput_bps > 8e6, "{:?}", flow.paths);
}

/// One path for each destination, and a single one at the receiver: its only peer address.
#[test]
fn data_counts_for_the_path_that_carried_it() {
    let link =
        |name, [a, b]: [&str; 2]| format!("[[link]]\nname = \"{name}\"\nbetween = [\"{a}\", \"{b}\"]\n");
    let links = [link("a", ["A", "R"]), link("x", ["R", "B"]), link("y", ["R", "B"])];
    for outage in ["", "[[event]]\nat = \"6 s\"\nlink = \"x\"\nset = { state = \"down\" }\n"] {
        let text = format!(
            "title = \"one by two\"\nduration = \"10 s\"\nwarmup = \"2 s\"\n[link_defaults]\nrate = \"10 Mbit/s\"\n\
             delay = \"5 ms\"\n{}[[flow]]\nfrom = \"A\"\nto = \"B\"\nprotocol = \"cmt-sctp\"\n{outage}",
            links.concat().replacen("\"R\"]\n", "\"R\"]\nrate = \"100 Mbit/s\"\n", 1)
        );
        let scenario =
            scenario::parse(&text, "paths.toml", &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let flow = anabranch_sim::run(&scenario, &RunOptions::default()).unwrap().flows.remove(0);
        let shares: Vec<_> = flow.paths.iter().map(|path| path.goodput_bps / 1e6).collect();
        let [x, y] = shares[..] else { panic!("{shares:?}") };
        let first = if outage.is_empty() { 8.5..10.0 } else { 4.3..5.2 };
        assert!(first.contains(&x) && (8.5..10.0).contains(&y), "{shares:?}");
        assert!((x + y - flow.goodput_bps / 1e6).abs() < 0.3, "{shares:?} of {}", flow.goodput_bps);
    }
}
