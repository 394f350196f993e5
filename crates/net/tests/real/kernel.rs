//! Linux's own TCP and Multipath TCP sockets as peers.

use anabranch_base::rng::Rng;
use anabranch_testkit::contents::Contents;
use anabranch_testkit::peer::{listener, socket};
use core::net::SocketAddr;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Written and read data of the peer.
pub type Done = JoinHandle<(Contents, Contents)>;

/// A socket that is connected to an address.
pub fn connection(multipath: bool, remote: SocketAddr) -> TcpStream {
    let socket = socket(remote.ip(), multipath);
    rustix::net::connect(&socket, &remote).expect("the peer listens");
    TcpStream::from(socket)
}

/// A listening socket that accepts one connection and transfers in both directions.
pub fn listen(multipath: bool, local: SocketAddr, bytes: u64) -> Done {
    let listener = listener(multipath, local);
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a connection");
        transfer(&stream, bytes)
    })
}

/// A socket that connects and transfers in both directions.
pub fn connect(multipath: bool, remote: SocketAddr, bytes: u64) -> Done {
    std::thread::spawn(move || transfer(&connection(multipath, remote), bytes))
}

/// Writes random bytes and reads until the end of the stream, concurrently.
///
/// Writes at least `bytes` bytes, and more until the other end's stream has ended, since the other end may
/// wait for further data. Those are written with pauses, so that the worker in which the kernel processes a
/// `DATA_FIN` gets processor time on a busy machine.
fn transfer(stream: &TcpStream, bytes: u64) -> (Contents, Contents) {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let written = scope.spawn(|| {
            let (mut rng, mut written) = (Rng::new(7), Contents::default());
            while written.bytes < bytes || !ended.load(Ordering::Relaxed) {
                if written.bytes >= bytes {
                    std::thread::sleep(Duration::from_millis(1));
                }
                let some: Vec<u8> = (0..1250).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
                (&*stream).write_all(&some).expect("the peer accepts data");
                written.take_bytes(&some);
            }
            stream.shutdown(Shutdown::Write).expect("the stream is connected");
            written
        });
        let mut read = Contents::default();
        let mut some = vec![0; 1 << 16];
        loop {
            let len = (&*stream).read(&mut some).expect("the peer sends");
            if len == 0 {
                break;
            }
            read.take_bytes(&some[..len]);
        }
        ended.store(true, Ordering::Relaxed);
        (written.join().expect("written"), read)
    })
}
