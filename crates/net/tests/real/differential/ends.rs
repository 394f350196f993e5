//! An end of a connection that executes its script, on the kernel's socket or on this stack.

use super::schedule::{Schedule, Step, byte};
use anabranch_endpoint::Reason;
use anabranch_net::Clock;
use core::future::Future;
use socket2::SockRef;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Maximum duration of a schedule.
const TIMEOUT: Duration = Duration::from_secs(90);
/// Interval in which a waiting end looks at the progress of both.
const INTERVAL: Duration = Duration::from_millis(2);

/// The end of a connection, as an application sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The peer's stream has ended, and so has the own one.
    Finished,
    /// The peer has reset the connection.
    Reset,
    /// This end has reset the connection.
    Aborted,
}

/// The result of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Number of bytes read; each was the right one.
    pub read: u64,
    pub state: State,
}

/// The progress of both ends.
pub struct Progress {
    /// The end's application has the connection.
    open: [AtomicBool; 2],
    read: [AtomicU64; 2],
    aborted: AtomicBool,
    clock: Clock,
}

/// One end of a schedule.
#[derive(Clone, Copy)]
pub struct End<'a> {
    pub schedule: &'a Schedule,
    /// 0 connects, 1 accepts.
    pub side: usize,
    pub progress: &'a Progress,
}

impl Progress {
    pub fn new() -> Self {
        Self {
            open: [const { AtomicBool::new(false) }; 2],
            read: [const { AtomicU64::new(0) }; 2],
            aborted: AtomicBool::new(false),
            clock: Clock::new(),
        }
    }
}

impl End<'_> {
    fn aborts(&self) -> bool {
        self.schedule.aborts == Some(self.side)
    }

    fn is_over(&self) -> bool {
        self.aborts() && self.progress.aborted.load(Ordering::SeqCst)
    }

    /// Fails if the schedule takes too long.
    fn check_time(&self) {
        assert!(self.progress.clock.elapsed() < TIMEOUT, "the schedule does not end: {:?}", self.schedule);
    }

    /// Whether both ends have the connection and have read everything. Fails if that takes too long.
    fn is_all_read(&self) -> bool {
        self.check_time();
        let Progress { open, read, .. } = self.progress;
        let is_open = open.iter().all(|end| end.load(Ordering::SeqCst));
        let expected = |end: usize| self.schedule.scripts[1 - end].bytes();
        is_open && (0..2).all(|end| read[end].load(Ordering::SeqCst) == expected(end))
    }

    /// Checks bytes that were read. Returns the pause that follows.
    fn take(&self, bytes: &[u8]) -> Duration {
        let read = self.progress.read[self.side].load(Ordering::SeqCst);
        for (at, &found) in (read..).zip(bytes) {
            assert_eq!(found, byte(1 - self.side, at), "byte {at} of {:?}", self.schedule);
        }
        let now = read + bytes.len() as u64;
        self.progress.read[self.side].store(now, Ordering::SeqCst);
        let script = &self.schedule.scripts[self.side];
        let rests = (read..now).contains(&script.rest_after);
        if rests { script.rest } else { Duration::ZERO }
    }

    fn outcome(&self, end: io::Result<()>) -> Outcome {
        let state = match end {
            Ok(()) => State::Finished,
            Err(_) if self.is_over() => State::Aborted,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => State::Reset,
            Err(error) => panic!("{error}: {:?}", self.schedule),
        };
        Outcome { read: self.progress.read[self.side].load(Ordering::SeqCst), state }
    }

    /// The bytes of the next write.
    fn bytes(&self, written: u64, len: usize) -> Vec<u8> {
        (written..written + len as u64).map(|at| byte(self.side, at)).collect()
    }

    /// Executes the script on a socket of the kernel.
    pub fn on_kernel(&self, stream: TcpStream) -> Outcome {
        self.progress.open[self.side].store(true, Ordering::SeqCst);
        stream.set_read_timeout(Some(Duration::from_millis(20))).expect("a socket has timeouts");
        let end = std::thread::scope(|scope| {
            scope.spawn(|| self.write_to_kernel(&stream));
            self.read_from_kernel(&stream)
        });
        // Closes the socket, which resets the connection where it aborts.
        drop(stream);
        self.outcome(end)
    }

    fn write_to_kernel(&self, mut stream: &TcpStream) {
        let mut written = 0;
        for step in &self.schedule.scripts[self.side].steps {
            match *step {
                // The reading part reports the error of a reset connection.
                Step::Write(len) => {
                    drop(stream.write_all(&self.bytes(written, len)));
                    written += len as u64;
                }
                Step::Pause(pause) => std::thread::sleep(pause),
            }
        }
        if self.schedule.aborts.is_none() {
            stream.shutdown(Shutdown::Write).expect("the peer does not reset the stream");
        } else if self.aborts() {
            while !self.is_all_read() {
                std::thread::sleep(INTERVAL);
            }
            SockRef::from(stream).set_linger(Some(Duration::ZERO)).expect("a socket has a linger time");
            self.progress.aborted.store(true, Ordering::SeqCst);
        }
    }

    fn read_from_kernel(&self, mut stream: &TcpStream) -> io::Result<()> {
        let mut buffer = vec![0; 1 << 16];
        loop {
            self.check_time();
            match stream.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(len) => std::thread::sleep(self.take(&buffer[..len])),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                Err(error) if self.is_over() => return Err(error),
                Err(_) => {}
            }
        }
    }

    /// Executes the script on this stack.
    pub async fn on_own(&self, stream: anabranch_net::Stream) -> Outcome {
        self.progress.open[self.side].store(true, Ordering::SeqCst);
        let ((), end) = tokio::join!(self.write_to_own(&stream), self.read_from_own(&stream));
        let reason = stream.ended().await;
        let outcome = self.outcome(end);
        let expected = match outcome.state {
            State::Finished => Reason::Closed,
            State::Reset => Reason::Reset,
            State::Aborted => Reason::Aborted,
        };
        assert_eq!(reason, expected, "{:?}", self.schedule);
        outcome
    }

    async fn write_to_own(&self, mut stream: &anabranch_net::Stream) {
        let mut written = 0;
        for step in &self.schedule.scripts[self.side].steps {
            match *step {
                Step::Write(len) => {
                    drop(stream.write_all(&self.bytes(written, len)).await);
                    written += len as u64;
                }
                Step::Pause(pause) => tokio::time::sleep(pause).await,
            }
        }
        if self.schedule.aborts.is_none() {
            stream.close();
        } else if self.aborts() {
            while !self.is_all_read() {
                tokio::time::sleep(INTERVAL).await;
            }
            self.progress.aborted.store(true, Ordering::SeqCst);
            stream.abort();
        }
    }

    async fn read_from_own(&self, mut stream: &anabranch_net::Stream) -> io::Result<()> {
        let mut buffer = vec![0; 1 << 16];
        loop {
            let len = tokio::time::timeout(TIMEOUT, stream.read(&mut buffer)).await;
            match len.unwrap_or_else(|_| panic!("the schedule does not end: {:?}", self.schedule))? {
                0 => return Ok(()),
                len => tokio::time::sleep(self.take(&buffer[..len])).await,
            }
        }
    }
}

/// Waits for a task, at most as long as a schedule takes.
pub async fn within_time<T>(task: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, task).await.expect("the other end acts")
}

/// Runs a task of this stack in the calling thread.
pub fn block_on<T>(task: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime").block_on(task)
}
