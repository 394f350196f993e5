//! Starts the program `anabranch-endpoint` for a test.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Maximum time to wait for an event, with a reserve for a busy machine.
pub const EVENT_TIMEOUT: Duration = Duration::from_secs(40);

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_anabranch-endpoint");

/// The running program, and the JSON lines that it prints. Dropping this value kills the program.
pub struct Program {
    child: Child,
    lines: Receiver<Value>,
}

impl Program {
    /// Starts the program in the network namespace of the calling thread.
    pub fn start(arguments: &str) -> Self {
        let mut child = Command::new(PROGRAM)
            .args(arguments.split_whitespace())
            .arg("--json")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program was built");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // Ignore errors: the test has ended, so the receiver was dropped.
                let _ = send.send(serde_json::from_str(&line).expect("JSON lines"));
            }
        });
        Self { child, lines }
    }

    /// Waits for an event with this name and returns its JSON line.
    pub fn event(&self, name: &str) -> Value {
        loop {
            let line = self.lines.recv_timeout(EVENT_TIMEOUT).unwrap_or_else(|_| panic!("no event {name}"));
            if line["event"] == name {
                return line;
            }
        }
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("the program runs");
    }

    /// Returns the memory that the program occupies, bytes.
    pub fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line of Linux");
        1024 * line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number")
    }

    /// Waits for the end of the program; returns its exit status.
    pub fn status(&mut self) -> i32 {
        self.child
            .wait()
            .expect("the program is a child process")
            .code()
            .expect("no signal killed the program")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Ignore errors: the program may already have ended.
        drop(self.child.kill().and_then(|()| self.child.wait()));
    }
}

/// A folder for files. Dropping this value removes the folder.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("anabranch-endpoint-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).expect("the folder for temporary files is writable");
        Self(path)
    }

    /// Returns the path of a file in the folder.
    pub fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Writes a file of pseudo-random bytes and returns its path.
    pub fn random(&self, name: &str, bytes: usize) -> String {
        let mut rng = anabranch_base::rng::Rng::new(11);
        let mut content: Vec<u8> =
            (0..bytes.div_ceil(8)).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
        content.truncate(bytes);
        std::fs::write(self.file(name), content).expect("ours");
        self.file(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Returns the length and the SHA-256 of some bytes.
pub fn hash(bytes: &[u8]) -> (usize, [u8; 32]) {
    (bytes.len(), Sha256::digest(bytes).into())
}

/// Returns the length and the SHA-256 of a file.
pub fn hash_of(file: &str) -> (usize, [u8; 32]) {
    hash(&std::fs::read(file).expect("the file exists"))
}

/// Counts the paths in a JSON line whose counter `key` exceeds this number of bytes.
pub fn used_paths(line: &Value, key: &str, bytes: u64) -> usize {
    let paths = line["paths"].as_array().expect("the line has paths");
    paths.iter().filter(|path| path[key].as_u64().expect("a counter") > bytes).count()
}
