//! Reads a capture with the crate `pcap-file` and prints the bytes of each subflow: `read_pcap [FILE]`.
//!
//! Without a file it first captures a run of Multipath TCP over two paths. Run it with
//! `cargo run --release -p anabranch-sim --example read_pcap`.

use anabranch_sim::scenario::result::capture::Settings;
use anabranch_sim::{RunOptions, presets, run};
use anabranch_wire::tcp::mptcp::Control;
use anabranch_wire::{Body, Packet};
use pcap_file::pcapng::{Block, PcapNgReader};
use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::BufReader;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// One direction of a subflow, as far as the capture contains it.
#[derive(Debug, Default)]
struct Subflow {
    packets: u64,
    /// Payload, retransmissions included.
    bytes: u64,
    /// True if the SYN of the connection had the option `MP_CAPABLE` or `MP_JOIN`.
    is_multipath: bool,
}

type Subflows = BTreeMap<(SocketAddr, SocketAddr), Subflow>;

fn read(file: &Path) -> Result<Subflows, Box<dyn Error>> {
    let mut capture = PcapNgReader::new(BufReader::new(File::open(file)?))?;
    let mut subflows = Subflows::new();
    while let Some(block) = capture.next_block() {
        let Block::EnhancedPacket(block) = block? else { continue };
        let packet = Packet::parse(&block.data)?;
        let Body::Tcp(segment) = packet.body else { continue };
        let source = SocketAddr::new(packet.source, segment.source_port);
        let destination = SocketAddr::new(packet.destination, segment.destination_port);
        let subflow = subflows.entry((source, destination)).or_default();
        subflow.packets += 1;
        subflow.bytes += u64::from(segment.payload.len);
        let begins = |option: &Control| matches!(option, Control::Capable(_) | Control::Join(_));
        subflow.is_multipath |= segment.options.mptcp.others.iter().any(begins);
    }
    Ok(subflows)
}

/// Captures a run of two seconds at the sender, and returns the payload bytes that its paths report.
fn simulate(file: PathBuf) -> Result<f64, Box<dyn Error>> {
    let scenario = presets::disjoint(2, 2, presets::mptcp(), "lia");
    let ends = vec![scenario.flows[0].from.clone()];
    let capture = Settings { ends, ..Settings::from(file) };
    let result = run(&scenario, &RunOptions { pcap: Some(capture), ..RunOptions::default() })?;
    let bits_per_second: f64 = result.flows[0].paths.iter().map(|path| path.throughput_bps).sum();
    Ok(bits_per_second / 8.0 * scenario.duration.as_secs_f64())
}

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(file) = std::env::args_os().nth(1) {
        print(&read(Path::new(&file))?);
        return Ok(());
    }
    let file = std::env::temp_dir().join(format!("anabranch-{}.pcapng", std::process::id()));
    let sent = simulate(file.clone());
    let subflows = read(&file);
    std::fs::remove_file(&file)?;
    let (sent, subflows) = (sent?, subflows?);
    print(&subflows);
    assert_eq!(subflows.len(), 4, "two subflows in two directions");
    assert!(subflows.values().all(|subflow| subflow.is_multipath));
    let captured: u64 = subflows.values().map(|subflow| subflow.bytes).sum();
    assert!(
        (captured as f64 - sent).abs() < 1.0,
        "the capture has {captured} bytes, the paths report {sent}"
    );
    Ok(())
}

fn print(subflows: &Subflows) {
    for ((source, destination), Subflow { packets, bytes, .. }) in subflows {
        println!("{source} > {destination}: {packets} packets, {bytes} bytes");
    }
}
