//! A flood of SYNs from random addresses to the listener of a transfer.

use super::{MTU, PORT, processor_time};
use anabranch_base::rng::Rng;
use anabranch_base::time::Time;
use anabranch_endpoint::{Address, Secrets};
use anabranch_host::{Backlog, Collected, Host, Limits, Listening, Protocol};
use anabranch_net::{Device, Memory, Network};
use anabranch_settings::tcp;
use anabranch_wire::seq::Serial;
use anabranch_wire::tcp::{Flags, Options, Segment};
use anabranch_wire::{Body, Buffer, Ecn, Packet};
use rustix::time::ClockId;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Number of SYNs to a host alone.
const SYNS: usize = 300_000;
/// SYNs for each millisecond.
const SYNS_PER_MS: usize = 100;
/// Address of the server on the link of the flood.
const SERVER: [u8; 4] = [10, 0, 9, 2];

/// A thread that sends SYNs until it is stopped.
pub struct Flood {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

/// A SYN from a random address and port.
fn syn(rng: &mut Rng) -> Packet {
    let segment = Segment {
        source_port: rng.between(1_024, 65_535) as u16,
        destination_port: PORT,
        seq: Serial(rng.next_u32()),
        flags: Flags::SYN,
        window: u16::MAX,
        options: Options { mss: Some(1_460), window_scale: Some(7), ..Options::default() },
        ..Segment::default()
    };
    let [_, second, third, fourth] = rng.next_u32().to_be_bytes();
    let source = [11, second, third, fourth].into();
    Packet { source, destination: SERVER.into(), ecn: Ecn::NotEct, body: Body::Tcp(segment) }
}

/// Processor time that a host needs for a SYN: to read the packet, and to answer it with a cookie.
pub fn time_per_syn() -> Duration {
    let addresses = vec![Address::new(SERVER.into(), MTU)];
    let mut host = Host::new(addresses, Limits::default(), Secrets::new([1; 32]));
    let protocol = Protocol::Tcp(tcp::Config::default());
    host.listen(Listening { protocol, port: PORT, backlog: Backlog::default() }).expect("a free port");
    let mut rng = Rng::new(1);
    let emit = |packet: &Packet, bytes: &mut Vec<u8>| {
        bytes.clear();
        packet.emit(bytes);
    };
    let mut syns = vec![Vec::new(); SYNS];
    for bytes in &mut syns {
        emit(&syn(&mut rng), bytes);
    }
    let (before, mut answer, mut answers) = (processor_time(ClockId::ThreadCPUTime), Vec::new(), 0);
    for bytes in &syns {
        let now = Time::from_secs_f64(1.0);
        host.handle_packet(now, Packet::parse(bytes).expect("a SYN"), &Buffer(bytes));
        for packet in Collected::from(&mut host, now).packets {
            emit(&packet, &mut answer);
            answers += 1;
        }
    }
    let busy = processor_time(ClockId::ThreadCPUTime).saturating_sub(before);
    assert_eq!(answers, SYNS, "each SYN is answered");
    busy / SYNS as u32
}

impl Flood {
    /// Adds a link to the network of a server, and starts the thread at its other end.
    pub fn start(network: &mut Network) -> Self {
        let [near, mut far] = Memory::pair().expect("descriptors");
        network.add(near, &[Address::new(SERVER.into(), MTU)]);
        let is_over = Arc::<AtomicBool>::default();
        let stop = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let (mut rng, mut bytes, mut counts) = (Rng::new(1), Vec::new(), [0_u64; 2]);
            while !stop.load(Ordering::Relaxed) {
                for _ in 0..SYNS_PER_MS {
                    far.send(&syn(&mut rng), &mut |_, _| {}, &mut bytes).expect("a link in memory");
                    counts[0] += 1;
                }
                far.flush().expect("a link in memory");
                while far.receive(&mut bytes).expect("a link in memory").is_some() {
                    counts[1] += 1;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            eprintln!("{} SYNs, {} answers", counts[0], counts[1]);
            processor_time(ClockId::ThreadCPUTime)
        });
        Self { is_over, thread }
    }

    /// Ends the flood. Returns the processor time of its thread.
    pub fn stop(self) -> Duration {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("the thread succeeds")
    }
}
