//! Linux as a peer.

use super::{CHUNK_BYTES, REQUEST_BYTES, processor_time};
use anabranch_net::Clock;
use anabranch_testkit::peer::listener;
use core::net::SocketAddr;
use rustix::time::ClockId;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

/// Listens, with Multipath TCP if `multipath`, and transfers with the first client in one direction. Returns the bytes read
/// and the processor time of the thread.
pub fn serve(multipath: bool, local: SocketAddr, writes: Option<Duration>) -> JoinHandle<(u64, Duration)> {
    let listener = listener(multipath, local);
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a connection");
        let bytes = match writes {
            Some(time) => write(stream, time),
            None => read(stream),
        };
        (bytes, processor_time(ClockId::ThreadCPUTime))
    })
}

/// Listens, and answers each request of the first client by as many bytes.
pub fn echo(local: SocketAddr) -> JoinHandle<()> {
    let listener = listener(false, local);
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        stream.set_nodelay(true).expect("TCP has this option");
        let mut request = [0; REQUEST_BYTES];
        while stream.read_exact(&mut request).is_ok() {
            stream.write_all(&request).expect("the client reads");
        }
    })
}

/// Sends requests, each after the response to the one before. Returns the times of all pairs.
pub fn ask(remote: SocketAddr, pairs: usize) -> Vec<Duration> {
    let mut stream = TcpStream::connect(remote).expect("the server listens");
    stream.set_nodelay(true).expect("TCP has this option");
    let mut response = [0; REQUEST_BYTES];
    let pair = |_| {
        let start = Clock::new();
        stream.write_all(&[1; REQUEST_BYTES]).expect("the server reads");
        stream.read_exact(&mut response).expect("the server answers");
        start.elapsed()
    };
    (0..pairs).map(pair).collect()
}

fn write(mut stream: TcpStream, time: Duration) -> u64 {
    let (start, chunk) = (Clock::new(), vec![0x5a; CHUNK_BYTES]);
    while start.elapsed() < time {
        stream.write_all(&chunk).expect("the client reads");
    }
    stream.shutdown(Shutdown::Write).expect("connected");
    let _ = stream.read(&mut [0]);
    0
}

fn read(mut stream: TcpStream) -> u64 {
    let (mut bytes, mut chunk) = (0, vec![0; CHUNK_BYTES]);
    loop {
        match stream.read(&mut chunk).expect("the client writes") {
            0 => return bytes,
            len => bytes += len as u64,
        }
    }
}
