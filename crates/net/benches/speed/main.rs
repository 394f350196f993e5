//! Speed of the stack on real packets, with Linux and usrsctp as peers, and speed of other stacks, as root:
//!
//! `cargo bench -p anabranch-net --bench speed -- [SECONDS] [PART OF A NAME]`
//!
//! Each row has the goodput by the clock, and the goodput for each second of processor time that this stack used, with the
//! kernel's work on its packets. Both ends of the rows "in memory" and "over UDP" belong to this stack.

mod flood;
mod kernel;
mod mptcp_rs;
mod smoltcp;
mod usrsctp;

use anabranch_endpoint::Address;
use anabranch_host::{Backlog, Limits, Listening, Protocol};
use anabranch_multipath::{path_manager, scheduler};
use anabranch_net::{Clock, Memory, Message, Network, Stack, Stop, Stream, Tun, Udp};
use anabranch_settings::{mptcp, sctp, tcp};
use anabranch_testkit::namespace::{Need, ip, machine_has, within};
use anabranch_wire::sctp::encapsulation::Ports;
use core::net::IpAddr;
use flood::Flood;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Bytes of one write or read.
const CHUNK_BYTES: usize = 1 << 18;
/// Bytes of a message.
const MESSAGE_BYTES: usize = 16 << 10;
/// Bytes of a request and of its response.
const REQUEST_BYTES: usize = 64;
/// Number of requests.
const PAIRS: usize = 100_000;
const PORT: u16 = 5001;
const MTU: u32 = 1500;

/// Result of a transfer.
struct Transfer {
    bytes: u64,
    elapsed: Duration,
    /// Processor time of this stack.
    busy: Duration,
}

/// The processor time of the process or of the calling thread.
fn processor_time(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Measures a transfer. `run` returns its bytes and the processor time of peers in this process.
fn measure(run: impl FnOnce() -> (u64, Duration)) -> Transfer {
    let (start, before) = (Clock::new(), processor_time(ClockId::ProcessCPUTime));
    let (bytes, peers) = run();
    let busy = processor_time(ClockId::ProcessCPUTime).saturating_sub(before);
    Transfer { bytes, elapsed: start.elapsed(), busy: busy.saturating_sub(peers) }
}

fn report(name: &str, transfer: &Transfer) {
    let gbit = transfer.bytes as f64 * 8.0 / 1e9;
    let [by_clock, by_processor] = [transfer.elapsed, transfer.busy].map(|time| gbit / time.as_secs_f64());
    println!("| {name} | {by_clock:.2} | {by_processor:.2} |");
}

fn block_on<T>(run: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(run)
}

fn mptcp() -> Protocol {
    Protocol::Mptcp(
        mptcp::Config::default()
            .scheduler(scheduler::find("lowest-rtt").expect("listed"))
            .path_manager(path_manager::parse("fullmesh").expect("listed")),
    )
}

fn tcp() -> Protocol {
    Protocol::Tcp(tcp::Config::default())
}

fn cmt() -> Protocol {
    let config = sctp::Config::for_cmt().encapsulation(Some(Ports::default()));
    Protocol::Sctp(Box::new(config))
}

/// Writes to a stream until the time is over, then ends it.
async fn write_for(mut stream: Stream, time: Duration) {
    let (start, chunk) = (Clock::new(), vec![0x5a; CHUNK_BYTES]);
    while start.elapsed() < time {
        stream.write_all(&chunk).await.expect("the peer reads");
    }
    stream.shutdown().await.expect("the peer reads");
    stream.ended().await;
}

/// Reads a stream to its end.
async fn read_all(mut stream: Stream) -> u64 {
    let (mut bytes, mut chunk) = (0, vec![0; CHUNK_BYTES]);
    loop {
        match stream.read(&mut chunk).await.expect("the peer writes") {
            0 => return bytes,
            len => bytes += len as u64,
        }
    }
}

/// Lets Linux use the TUN interfaces as separate paths.
fn route(paths: u8) {
    for path in 0..paths {
        ip(&format!("rule add from 10.0.{path}.1 table {}", 101 + u16::from(path)));
        ip(&format!("route add default dev tun{path} table {}", 101 + u16::from(path)));
    }
    if paths > 1 {
        ip("mptcp limits set subflow 4 add_addr_accepted 4");
        ip("mptcp endpoint add 10.0.1.1 dev tun1 signal");
    }
}

/// A transfer between this stack and Linux over TUN interfaces.
fn over_tun(protocol: Protocol, paths: u8, is_upload: bool, time: Duration) -> Transfer {
    let mut network = Network::new(Clock::new());
    for path in 0..paths {
        let tun = Tun::new(&format!("tun{path}"), ([10, 0, path, 1].into(), 24), MTU as u16).expect("root");
        network.add(tun, &[Address::new([10, 0, path, 2].into(), MTU)]);
    }
    route(paths);
    let multipath = paths > 1;
    let machine = IpAddr::from([10, 0, 0, 1]);
    let peer = kernel::serve(multipath, (machine, PORT).into(), (!is_upload).then_some(time));
    let stack = Stack::start(network, Limits::default()).expect("a thread");
    measure(|| {
        let read = block_on(async {
            let stream = stack.connect(protocol, machine, PORT).await.expect("Linux listens");
            let read = if is_upload {
                write_for(stream, time).await;
                None
            } else {
                Some(read_all(stream).await)
            };
            stack.stop(Stop::Abort).await.expect("running");
            read
        });
        let (received, busy) = peer.join().expect("the peer succeeds");
        (read.unwrap_or(received), busy)
    })
}

/// Two hosts with links in memory.
fn in_memory(paths: u8) -> [Stack; 2] {
    start(networks_in_memory(paths))
}

fn start(networks: [Network; 2]) -> [Stack; 2] {
    networks.map(|network| Stack::start(network, Limits::default()).expect("a thread"))
}

fn networks_in_memory(paths: u8) -> [Network; 2] {
    let mut networks = [(); 2].map(|()| Network::new(Clock::new()));
    for path in 0..paths {
        let ends = Memory::pair().expect("descriptors");
        for (host, (network, end)) in (1..).zip(networks.iter_mut().zip(ends)) {
            network.add(end, &[Address::new([10, 0, path, host].into(), MTU)]);
        }
    }
    networks
}

/// Two hosts over UDP on loopback.
fn over_udp(paths: u8) -> [Stack; 2] {
    [1, 2].map(|host| {
        let mut network = Network::new(Clock::new());
        for path in 0..paths {
            let address = IpAddr::from([127, 0, 100 + path, host]);
            let udp = Udp::bind((address, 9899).into()).expect("the port is free");
            network.add(udp, &[Address::new(address, MTU)]);
        }
        Stack::start(network, Limits::default()).expect("a thread")
    })
}

/// A stream from the first host to the second one.
fn stream_between([client, server]: [Stack; 2], protocol: Protocol, time: Duration) -> Transfer {
    measure(|| {
        let bytes = block_on(async {
            let listening = Listening { protocol: protocol.clone(), port: PORT, backlog: Backlog::default() };
            let listener = server.listen(listening).await.expect("the port is free");
            let opened = client.connect(protocol, [10, 0, 0, 2].into(), PORT);
            let (stream, accepted) = tokio::join!(opened, listener.accept());
            let (stream, accepted) = (stream.expect("it listens"), accepted.expect("a client"));
            let ((), bytes) = tokio::join!(write_for(stream, time), read_all(accepted));
            bytes
        });
        (bytes, Duration::ZERO)
    })
}

/// A stream in memory to a server whose listener gets SYNs from random addresses.
fn stream_in_flood(time: Duration) -> Transfer {
    let mut networks = networks_in_memory(1);
    let flood = Flood::start(&mut networks[1]);
    let transfer = stream_between(start(networks), tcp(), time);
    Transfer { busy: transfer.busy.saturating_sub(flood.stop()), ..transfer }
}

/// Messages from the first host to the second one, over all paths.
fn messages_between(
    [client, server]: [Stack; 2],
    (protocol, remote): (Protocol, Vec<IpAddr>),
    time: Duration,
) -> Transfer {
    measure(|| {
        let bytes = block_on(async {
            let listening = Listening { protocol: protocol.clone(), port: PORT, backlog: Backlog::default() };
            let listener = server.listen(listening).await.expect("the port is free");
            let opened = client.associate(protocol, &remote, PORT);
            let (association, accepted) = tokio::join!(opened, listener.accept_association());
            let (association, accepted) = (association.expect("it listens"), accepted.expect("a client"));
            let send = async {
                let start = Clock::new();
                while start.elapsed() < time {
                    let message = Message::new(vec![0x5a; MESSAGE_BYTES]);
                    association.send(message).await.expect("the peer reads");
                }
                association.close();
                association.ended().await;
            };
            let receive = async {
                let mut bytes = 0;
                while let Some(message) = accepted.receive().await.expect("the peer writes") {
                    bytes += message.bytes.len() as u64;
                }
                bytes
            };
            let ((), bytes) = tokio::join!(send, receive);
            bytes
        });
        (bytes, Duration::ZERO)
    })
}

/// Times of requests of this stack and of Linux to a server of Linux: over a TUN interface, and over loopback.
fn request_times() -> [Vec<Duration>; 2] {
    let mut network = Network::new(Clock::new());
    let tun = Tun::new("tun0", ([10, 0, 0, 1].into(), 24), MTU as u16).expect("root");
    network.add(tun, &[Address::new([10, 0, 0, 2].into(), MTU)]);
    ip("link set lo up");
    let machine = IpAddr::from([10, 0, 0, 1]);
    let server = kernel::echo((machine, PORT).into());
    let stack = Stack::start(network, Limits::default()).expect("a thread");
    let ours = block_on(async {
        let mut stream = stack.connect(tcp(), machine, PORT).await.expect("Linux listens");
        let (mut times, mut response) = (Vec::new(), [0; REQUEST_BYTES]);
        for _ in 0..PAIRS {
            let start = Clock::new();
            stream.write_all(&[1; REQUEST_BYTES]).await.expect("the server reads");
            stream.read_exact(&mut response).await.expect("the server answers");
            times.push(start.elapsed());
        }
        stack.stop(Stop::Abort).await.expect("running");
        times
    });
    server.join().expect("the server succeeds");
    let loopback = ([127, 0, 0, 1], PORT).into();
    let server = kernel::echo(loopback);
    let theirs = kernel::ask(loopback, PAIRS);
    server.join().expect("the server succeeds");
    [ours, theirs]
}

/// Prints the median and the 99th percentile of the times of requests.
fn report_requests() {
    println!(
        "\n| request and response of {REQUEST_BYTES} bytes | median, µs | 99th percentile, µs |\n|---|---|---|"
    );
    for (name, mut times) in
        ["TCP to Linux over TUN", "Linux over loopback"].into_iter().zip(in_namespace(request_times))
    {
        times.sort_unstable();
        let [median, most] =
            [times.len() / 2, times.len() * 99 / 100].map(|at| times[at].as_nanos() as f64 / 1e3);
        println!("| {name} | {median:.0} | {most:.0} |");
    }
}

/// Calls a function in a new network namespace.
fn in_namespace<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = std::sync::mpsc::channel();
    within("speed", move || done.send(run()).expect("the caller waits"));
    result.recv().expect("the function has returned")
}

/// A transfer of this length; `None` if the machine lacks what it needs.
type Case = fn(Duration) -> Option<Transfer>;

/// Runs a transfer with Linux in a network namespace, if the machine has what it needs.
fn with_linux(protocol: fn() -> Protocol, paths: u8, is_upload: bool, time: Duration) -> Option<Transfer> {
    let has = machine_has(&[Need::Namespaces, Need::Tun, Need::Mptcp]);
    has.then(|| in_namespace(move || over_tun(protocol(), paths, is_upload, time)))
}

fn with_mptcp_rs(is_upload: bool, time: Duration) -> Option<Transfer> {
    let has = machine_has(&[Need::Namespaces, Need::Tun, Need::Mptcp]);
    has.then(|| in_namespace(move || mptcp_rs::transfer(is_upload, time)))
}

fn with_smoltcp(offload: bool, time: Duration) -> Transfer {
    measure(|| (smoltcp::transfer(offload, time), Duration::ZERO))
}

fn with_usrsctp(time: Duration) -> Option<Transfer> {
    machine_has(&[Need::Namespaces]).then(|| in_namespace(move || usrsctp::transfer(time))).flatten()
}

const CASES: [(&str, Case); 14] = [
    ("TCP to Linux over TUN", |time| with_linux(tcp, 1, true, time)),
    ("TCP from Linux over TUN", |time| with_linux(tcp, 1, false, time)),
    ("MPTCP to Linux over two TUN interfaces", |time| with_linux(mptcp, 2, true, time)),
    ("MPTCP from Linux over two TUN interfaces", |time| with_linux(mptcp, 2, false, time)),
    ("MPTCP to Linux over two TUN interfaces, mptcp-rs", |time| with_mptcp_rs(true, time)),
    ("MPTCP from Linux over two TUN interfaces, mptcp-rs", |time| with_mptcp_rs(false, time)),
    ("TCP in memory", |time| Some(stream_between(in_memory(1), tcp(), time))),
    ("TCP in memory, with 100 SYNs each ms", |time| Some(stream_in_flood(time))),
    ("TCP in memory, smoltcp", |time| Some(with_smoltcp(false, time))),
    ("TCP in memory, smoltcp with segmentation offload", |time| Some(with_smoltcp(true, time))),
    ("MPTCP over two paths in memory", |time| Some(stream_between(in_memory(2), mptcp(), time))),
    ("CMT-SCTP over two paths in memory", |time| {
        let protocol = Protocol::Sctp(Box::new(sctp::Config::for_cmt()));
        Some(messages_between(in_memory(2), (protocol, addresses([10, 0])), time))
    }),
    ("CMT-SCTP over UDP on two loopback addresses", |time| {
        Some(messages_between(over_udp(2), (cmt(), addresses([127, 100])), time))
    }),
    ("usrsctp over UDP and one veth", with_usrsctp),
];

/// The addresses of the second host.
fn addresses([first, third]: [u8; 2]) -> Vec<IpAddr> {
    (0..2).map(|path| [first, 0, third + path, 2].into()).collect()
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let seconds = arguments.iter().find_map(|text| text.parse().ok()).unwrap_or(3.0);
    let part = arguments.iter().find(|text| text.parse::<f64>().is_err());
    println!("| transfer | Gbit/s | Gbit per second of processor time |\n|---|---|---|");
    for (name, run) in CASES {
        if part.is_some_and(|part| !name.contains(part.as_str())) {
            continue;
        }
        match run(Duration::from_secs_f64(seconds)) {
            Some(transfer) => report(name, &transfer),
            None => println!("| {name} | not run: the machine lacks namespaces, TUN, MPTCP or usrsctp | |"),
        }
    }
    if part.is_none_or(|part| part == "SYN") {
        let micros = flood::time_per_syn().as_nanos() as f64 / 1e3;
        println!("\nprocessor time of a host for a SYN and its cookie: {micros:.2} µs");
    }
    if part.is_none_or(|part| part == "request") && machine_has(&[Need::Namespaces, Need::Tun]) {
        report_requests();
    }
}
