//! usrsctp as a peer: a program around Debian's library.

use anabranch_base::rng::Rng;
use anabranch_testkit::contents::Contents;
use anabranch_testkit::namespace::Need;
use anabranch_testkit::peer::{Running, build_usrsctp};
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;
use std::thread::JoinHandle;

/// Requirement of the tests with usrsctp, in addition to namespaces.
pub const NEED: Need =
    Need::Other(|| program().is_some(), "cc cannot build the peer: gcc and libusrsctp-dev are needed");

/// The peer, built once; `None` if it cannot be built.
pub fn program() -> Option<&'static PathBuf> {
    static PROGRAM: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/usrsctp.c");
        build_usrsctp(source, env!("CARGO_TARGET_TMPDIR"))
    });
    PROGRAM.as_ref()
}

/// A running peer.
pub struct Peer {
    running: Running,
    written: JoinHandle<Contents>,
    read: JoinHandle<Contents>,
}

/// A peer with these arguments that sends messages of at least `bytes` bytes in total on four streams, every
/// other one unordered, and receives.
pub fn start(arguments: &str, bytes: u64) -> Peer {
    let mut command = Command::new(program().expect("the program was built before"));
    let mut running = Running::start(command.args(arguments.split_whitespace()));
    let input = BufWriter::new(running.0.stdin.take().expect("piped"));
    let output = BufReader::new(running.0.stdout.take().expect("piped"));
    let mut errors = BufReader::new(running.0.stderr.take().expect("piped"));
    if arguments.starts_with("listen") {
        let mut line = String::new();
        errors.read_line(&mut line).expect("text");
        assert_eq!(line, "listening\n");
    }
    std::thread::spawn(move || {
        for line in errors.lines().map_while(Result::ok) {
            eprintln!("{line}");
        }
    });
    let written = std::thread::spawn(move || write(input, bytes));
    let read = std::thread::spawn(move || read(output));
    Peer { running, written, read }
}

impl Peer {
    /// Waits for the end of the peer; returns its written and read data.
    pub fn done(mut self) -> (Contents, Contents) {
        let status = self.running.0.wait().expect("the process runs");
        assert!(status.success(), "the peer failed: {status}");
        (self.written.join().expect("written"), self.read.join().expect("read"))
    }
}

fn write(mut input: impl Write, bytes: u64) -> Contents {
    let (mut rng, mut written) = (Rng::new(8), Contents::default());
    while written.bytes < bytes {
        let (stream, unordered, ppid) = (rng.below(4) as u16, rng.chance(0.5), rng.next_u32());
        let len = rng.between(1, 20_000) as usize;
        let mut message: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
        message.truncate(len);
        let mut head = Vec::new();
        head.extend_from_slice(&stream.to_be_bytes());
        head.extend_from_slice(&u16::from(unordered).to_be_bytes());
        head.extend_from_slice(&ppid.to_be_bytes());
        head.extend_from_slice(&(len as u32).to_be_bytes());
        input.write_all(&head).and_then(|()| input.write_all(&message)).expect("the peer reads");
        written.take_message((stream, unordered), ppid, &message);
    }
    input.flush().expect("the peer reads");
    written
}

fn read(mut output: impl Read) -> Contents {
    let mut read = Contents::default();
    let mut head = [0; 12];
    while output.read_exact(&mut head).is_ok() {
        let half = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let word = |at: usize| u32::from(half(at)) << 16 | u32::from(half(at + 2));
        let mut message = vec![0; word(8) as usize];
        output.read_exact(&mut message).expect("a whole message");
        read.take_message((half(0), half(2) == 1), word(4), &message);
    }
    read
}
