//! Captures of runs for tshark: scenarios with all causes of retransmissions, packets at the sender's
//! interfaces, and tshark's output.

pub mod odd;
pub mod scenarios;

use anabranch_sim::scenario;
use anabranch_sim::{RunOptions, RunResult, Simulation};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A capture of one run of one flow from node `S` to node `D`.
pub struct Run {
    pub result: RunResult,
    /// Every packet that passed an interface of `S`, once.
    pub at_sender: PathBuf,
}

/// Runs a scenario with a capture and keeps the packets at the interfaces of `S`. Capture, traces and the
/// check of every packet must not change the run.
pub fn run(name: &str, text: &str) -> Run {
    let scenario = scenario::parse(text, name, &[]).unwrap_or_else(|error| panic!("{error}"));
    let path =
        |kind: &str| Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tshark-{name}-{kind}.pcapng"));
    let (all, at_sender) = (path("all"), path("sender"));
    let run = |options: &RunOptions| {
        let mut simulation = Simulation::new(scenario.clone(), options).expect("a valid scenario");
        simulation.run(&mut |_| true).expect("nothing stops the run");
        simulation.result()
    };
    let trace = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tshark-{name}-trace"));
    let watched = RunOptions {
        pcap: Some(all.clone().into()),
        trace: Some(trace),
        check_wire: true,
        ..RunOptions::default()
    };
    let result = run(&watched);
    let bare = run(&RunOptions::default());
    assert_eq!(bare.digest, result.digest, "{name}: capturing the packets changed the run");
    assert_eq!(bare.events, result.events, "{name}");

    let interface = |(number, node): (usize, &String)| (node == "S").then_some(number as u32);
    let ends = scenario.links.iter().flat_map(|link| &link.between).enumerate();
    let kept: Vec<u32> = ends.filter_map(interface).collect();
    let capture = std::fs::read(&all).expect("the capture was written");
    std::fs::write(&at_sender, filter_interfaces(&capture, &kept)).expect("a file for tshark");
    std::fs::remove_file(&all).expect("the capture exists");
    Run { result, at_sender }
}

const ENHANCED_PACKET: u32 = 6;

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// The blocks of a pcapng file in little-endian order.
fn blocks(capture: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = capture;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (block, behind) = rest.split_at(word(rest, 4) as usize);
        rest = behind;
        Some(block)
    })
}

/// The parts of a capture that concern these interfaces.
fn filter_interfaces(capture: &[u8], interfaces: &[u32]) -> Vec<u8> {
    let keep = |block: &&[u8]| word(block, 0) != ENHANCED_PACKET || interfaces.contains(&word(block, 8));
    blocks(capture).filter(keep).collect::<Vec<_>>().concat()
}

/// True if tshark is missing; if so, the test is recorded as skipped.
pub fn tshark_is_missing() -> bool {
    let missing = Command::new("tshark").arg("--version").output().is_err();
    if missing {
        anabranch_testkit::machine::skip("tshark is not installed");
    }
    missing
}

/// Every packet's fields, with every checksum checked.
pub fn dissect(path: &Path, fields: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-r"]).arg(path).args(["-T", "fields", "-E", "separator=/t", "-E", "occurrence=a"]);
    for preference in [
        "ip.check_checksum:TRUE",
        "tcp.check_checksum:TRUE",
        "udp.check_checksum:TRUE",
        "sctp.checksum:CRC 32c",
        "tcp.desegment_tcp_streams:FALSE",
    ] {
        command.args(["-o", preference]);
    }
    // The payload is a pattern, which tshark must not mistake for a protocol.
    command.args(["-d", "tcp.port==0-65535,data"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().expect("tshark runs");
    assert!(output.status.success(), "tshark: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().map(|line| line.split('\t').map(String::from).collect()).collect()
}
