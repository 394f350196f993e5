//! Starts the program `anabranch-proxy` for a test.

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Maximum time to wait for an event, with a reserve for a busy machine.
pub const EVENT_TIMEOUT: Duration = Duration::from_secs(20);

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_anabranch-proxy");

/// A configuration file. Dropping this value removes the file.
pub struct Config(PathBuf);

impl Config {
    pub fn new(text: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("anabranch-proxy-{}-{number}.toml", std::process::id()));
        std::fs::write(&path, text).expect("the folder for temporary files is writable");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, mode).expect("the test created the file");
        Self(path)
    }

    /// Returns the arguments that make the program run this command with this file.
    pub fn arguments(&self, command: &str) -> Vec<String> {
        vec![command.to_owned(), "--config".to_owned(), self.0.display().to_string()]
    }
}

impl Drop for Config {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

/// A running program.
pub struct Program {
    child: Child,
    lines: Receiver<String>,
    /// Listening addresses, in the order of the log.
    pub addresses: Vec<SocketAddr>,
    config: Config,
}

impl Program {
    /// Starts the program and waits until this number of listeners is open.
    pub fn start(command: &str, config: &str, listeners: usize) -> Self {
        Self::start_by(Command::new(PROGRAM), command, config, listeners)
    }

    /// Starts the program with this limit of open file descriptors.
    pub fn start_with_descriptors(max_descriptors: u32, command: &str, config: &str) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -n {max_descriptors}; exec {PROGRAM} \"$@\""), "sh"]);
        Self::start_by(shell, command, config, 1)
    }

    /// Starts the program in a network namespace.
    pub fn start_in(namespace: &str, command: &str, config: &str) -> Self {
        let mut ip = Command::new("ip");
        ip.args(["netns", "exec", namespace, PROGRAM]);
        Self::start_by(ip, command, config, 1)
    }

    /// Starts the program in a network namespace. It has no listener to wait for.
    pub fn start_silent_in(namespace: &str, command: &str, config: &str) -> Self {
        let mut ip = Command::new("ip");
        ip.args(["netns", "exec", namespace, PROGRAM]);
        Self::start_by(ip, command, config, 0)
    }

    fn start_by(mut program: Command, command: &str, config: &str, listeners: usize) -> Self {
        let config = Config::new(config);
        let mut child = program
            .args(config.arguments(command))
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program can be run");
        let stderr = BufReader::new(child.stderr.take().expect("the stream is a pipe"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            stderr.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let mut started = Self { child, lines, addresses: Vec::new(), config };
        for _ in 0..listeners {
            let line = started.line("listening on");
            let address = line.split("listening on ").nth(1).and_then(|rest| rest.split(' ').next());
            started.addresses.push(address.expect("an address").parse().expect("an address"));
        }
        started
    }

    /// Runs the program with an invalid configuration; returns exit status and standard error.
    pub fn config_error(command: &str, config: &str) -> (Option<i32>, String) {
        let config = Config::new(config);
        let output =
            Command::new(PROGRAM).args(config.arguments(command)).output().expect("the program can be run");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Waits for the next log line that contains `part`.
    pub fn line(&self, part: &str) -> String {
        loop {
            match self.lines.recv_timeout(EVENT_TIMEOUT) {
                Ok(line) if line.contains(part) => return line,
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("no log line with \"{part}\"")
                }
            }
        }
    }

    /// Returns the log lines that have been written and not read.
    pub fn lines_now(&self) -> Vec<String> {
        self.lines.try_iter().collect()
    }

    /// Returns the log lines that have not been read, up to the last takeover or the end of all processes.
    pub fn lines_until_end(&self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(EVENT_TIMEOUT) {
            lines.push(line);
            if lines.last().is_some_and(|line| line.contains("takes over the listeners")) {
                break;
            }
        }
        lines
    }

    /// Returns the first listening address.
    pub fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// Replaces the text of the configuration file.
    pub fn change_config(&self, text: &str) {
        std::fs::write(&self.config.0, text).expect("the test created the file");
    }

    /// Sends a signal to the program.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("the program runs");
    }

    /// Waits for the end of the program.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("the process is a child")
    }

    /// Returns the resident memory, bytes.
    pub fn resident(&self) -> u64 {
        let statm =
            std::fs::read_to_string(format!("/proc/{}/statm", self.child.id())).expect("the program runs");
        let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
        pages * 4096
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.child.kill().and_then(|()| self.child.wait()));
    }
}

/// Returns the process id in a log line on a takeover.
pub fn successor(line: &str) -> Pid {
    let process = line.split(' ').nth(1).and_then(|number| number.parse().ok());
    process.and_then(Pid::from_raw).expect("a process id")
}

/// Starts a server that runs `serve` in a thread for each connection.
pub fn server(address: &str, serve: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind(address).expect("loopback has a free port");
    let address = listener.local_addr().expect("the socket is bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, serve) = (stream.expect("a connection"), serve.clone());
            stream.set_read_timeout(Some(EVENT_TIMEOUT)).expect("a timeout can be set");
            stream.set_write_timeout(Some(EVENT_TIMEOUT)).expect("a timeout can be set");
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

/// Starts an echo server on a listener.
pub fn echo_on(listener: TcpListener) {
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || send_back(stream));
        }
    });
}

/// Starts an echo server on an address; it closes each connection when the client has closed.
pub fn echo(address: &str) -> SocketAddr {
    server(address, send_back)
}

/// Sends received bytes back until the client closes or resets.
pub fn send_back(mut stream: TcpStream) {
    let mut from = stream.try_clone().expect("a copy");
    drop(std::io::copy(&mut from, &mut stream));
}

/// Asserts that a client that closes first still receives the answer that the server sends afterwards.
pub fn end_first(through: impl Fn(SocketAddr) -> TcpStream) {
    let last_words = server("127.0.0.1:0", |mut stream| {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("the client ends");
        stream.write_all(&all).expect("the client still reads");
    });
    let stream = through(last_words);
    (&stream).write_all(b"and now?").expect("the peer reads");
    stream.shutdown(Shutdown::Write).expect("the stream is connected");
    let mut answer = String::new();
    (&stream).read_to_string(&mut answer).expect("the server ends");
    assert_eq!(answer, "and now?");
}

/// Asserts that urgent data stay in the stream, in both directions (RFC 6093).
pub fn keep_urgent_bytes(through: impl Fn(SocketAddr) -> TcpStream) {
    let target = server("127.0.0.1:0", |mut stream| {
        socket2::SockRef::from(&stream).set_out_of_band_inline(true).expect("TCP has the option");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("the client ends");
        write_urgently(&stream);
        stream.write_all(&all).expect("the client reads");
    });
    let stream = through(target);
    socket2::SockRef::from(&stream).set_out_of_band_inline(true).expect("TCP has the option");
    write_urgently(&stream);
    stream.shutdown(Shutdown::Write).expect("the stream is connected");
    let mut answer = String::new();
    (&stream).read_to_string(&mut answer).expect("the server ends");
    assert_eq!(answer, "abc!defabc!def");
}

/// Writes three bytes, an urgent byte, and three more.
pub fn write_urgently(stream: &TcpStream) {
    let socket = socket2::SockRef::from(stream);
    for (bytes, is_urgent) in [(&b"abc"[..], false), (b"!", true), (b"def", false)] {
        let sent = if is_urgent { socket.send_out_of_band(bytes) } else { socket.send(bytes) };
        assert_eq!(sent.expect("there is room"), bytes.len());
    }
}

/// Writes and reads until both fail; returns the error of writing and the result of reading.
pub fn send_endlessly(stream: TcpStream) -> JoinHandle<(ErrorKind, Result<usize, ErrorKind>)> {
    std::thread::spawn(move || {
        let write = || loop {
            if let Err(error) = (&stream).write_all(&[7; 1 << 14]) {
                return error.kind();
            }
        };
        std::thread::scope(|scope| {
            let wrote = scope.spawn(write);
            let read = (&stream).read_to_end(&mut Vec::new()).map_err(|error| error.kind());
            (wrote.join().expect("the thread does not panic"), read)
        })
    })
}

/// Connects, and sets timeouts for reading and writing.
pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(EVENT_TIMEOUT)).expect("a timeout can be set");
    stream.set_write_timeout(Some(EVENT_TIMEOUT)).expect("a timeout can be set");
    stream
}

/// Writes bytes to a stream and reads `N` bytes.
pub fn exchange<const N: usize>(mut stream: &TcpStream, bytes: &[u8]) -> [u8; N] {
    stream.write_all(bytes).expect("the peer reads");
    let mut answer = [0; N];
    stream.read_exact(&mut answer).expect("the peer answers");
    answer
}
