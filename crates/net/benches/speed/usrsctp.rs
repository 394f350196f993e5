//! usrsctp as a peer of itself, one path, in two namespaces: it cannot choose the source address of its datagrams.

use super::{CHUNK_BYTES, MESSAGE_BYTES, Transfer};
use anabranch_net::Clock;
use anabranch_testkit::namespace::ip;
use anabranch_testkit::peer::{Running, build_usrsctp};
use std::io::{BufWriter, Read, Write};
use std::process::Command;
use std::time::Duration;

const OTHER: &str = "anabranch-speed-usrsctp";
/// Bytes before a message in the format of the program.
const HEADER_BYTES: usize = 12;
/// Ticks of a second in `/proc/PID/stat`.
const TICKS: f64 = 100.0;

/// Processor time that a program has used.
fn busy(running: &Running) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", running.0.id())).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or_default();
    Duration::from_secs_f64((ticks(11) + ticks(12)) / TICKS)
}

/// The other namespace, which is removed in the end.
struct Other;

impl Drop for Other {
    fn drop(&mut self) {
        ip(&format!("netns del {OTHER}"));
    }
}

/// Sends messages until the time is over. `None` if the program cannot be built.
pub fn transfer(time: Duration) -> Option<Transfer> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/usrsctp.c");
    let program = build_usrsctp(source, env!("CARGO_TARGET_TMPDIR"))?;
    ip(&format!("netns add {OTHER}"));
    let _other = Other;
    ip(&format!("link add va type veth peer name vb netns {OTHER}"));
    ip("addr add 10.9.0.1/24 dev va");
    ip("link set va up");
    ip(&format!("-n {OTHER} addr add 10.9.0.2/24 dev vb"));
    ip(&format!("-n {OTHER} link set vb up"));
    let mut receive = Command::new("ip");
    receive.args(["netns", "exec", OTHER]).arg(&program);
    receive.args("listen 0 10.9.0.2 7 9901 0.0.0.0 0 0".split(' '));
    let mut receiver = Running::start(&mut receive);
    std::thread::sleep(Duration::from_millis(500));
    let mut send = Command::new(&program);
    send.args("connect 0 10.9.0.1 8 9902 10.9.0.2 7 9901".split(' '));
    let mut sender = Running::start(&mut send);
    let mut input = BufWriter::new(sender.0.stdin.take().expect("piped"));
    let mut output = receiver.0.stdout.take().expect("piped");
    let mut message = vec![0; HEADER_BYTES + MESSAGE_BYTES];
    message[8..HEADER_BYTES].copy_from_slice(&(MESSAGE_BYTES as u32).to_be_bytes());
    // The thread ends with the sender, whose input it writes.
    std::thread::spawn(move || while input.write_all(&message).is_ok() {});
    let (mut bytes, mut chunk, mut start) = (0, vec![0; CHUNK_BYTES], None);
    while start.is_none_or(|start: Clock| start.elapsed() < time) {
        let len = output.read(&mut chunk).expect("the receiver runs");
        start = start.or_else(|| Some(Clock::new()));
        bytes += len as u64;
    }
    let elapsed = start.expect("data has arrived").elapsed();
    let bytes = bytes * MESSAGE_BYTES as u64 / (HEADER_BYTES + MESSAGE_BYTES) as u64;
    Some(Transfer { bytes, elapsed, busy: busy(&sender) + busy(&receiver) })
}
