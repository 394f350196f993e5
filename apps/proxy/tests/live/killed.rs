//! Kills of a proxy under load: both ends of each connection see a reset, and the next process listens on the same
//! address.

use super::program::{EVENT_TIMEOUT, Program, connect, exchange, send_back, send_endlessly, server};
use super::socks::through_over;
use rustix::process::Signal;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Number of kills of the proxy.
const KILLS: u64 = 50;
/// Number of clients that send at the same time.
const STREAMS: usize = 8;

/// Starts an echo server; returns its address and the number of its open connections.
fn counting_echo() -> (SocketAddr, Arc<AtomicUsize>) {
    let open = Arc::new(AtomicUsize::new(0));
    let count = open.clone();
    let address = server("127.0.0.1:0", move |stream| {
        count.fetch_add(1, Ordering::Relaxed);
        send_back(stream);
        count.fetch_sub(1, Ordering::Relaxed);
    });
    (address, open)
}

/// Errors with which a client may detect that its proxy was killed: a reset, or a failed write after the end of the
/// stream.
const KILL_ERRORS: [ErrorKind; 2] = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];

/// Kills and restarts a proxy under load. `config` returns the configuration of a proxy that listens on an address.
fn kill_and_restart(
    command: &str,
    config: &dyn Fn(SocketAddr) -> String,
    through: &dyn Fn(SocketAddr) -> TcpStream,
    open: &AtomicUsize,
) {
    let mut proxy = Program::start(command, &config(SocketAddr::from(([127, 0, 0, 1], 0))), 1);
    let address = proxy.address();
    for time in 0..KILLS {
        let streams: Vec<_> = (0..STREAMS).map(|_| send_endlessly(through(address))).collect();
        std::thread::sleep(Duration::from_millis(time % 7 * 10));
        proxy.signal(Signal::KILL);
        proxy.wait();
        for stream in streams {
            let (wrote, read) = stream.join().expect("the stream ends");
            assert!(KILL_ERRORS.contains(&wrote), "{wrote:?}, {read:?}");
        }
        let begin = Instant::now();
        while open.load(Ordering::Relaxed) > 0 {
            assert!(begin.elapsed() < EVENT_TIMEOUT, "the server does not know, after {time} times");
            std::thread::sleep(Duration::from_millis(1));
        }
        proxy = Program::start(command, &config(address), 1);
        assert_eq!(proxy.address(), address, "after {time} times");
        assert_eq!(&exchange::<5>(&through(address), b"hello"), b"hello");
    }
}

#[test]
fn socks_proxy_works_after_each_kill() {
    let (target, open) = counting_echo();
    let config = |listen| format!("[socks]\nlisten = [\"{listen}\"]\nallow = [\"127.0.0.0/8\"]\n");
    kill_and_restart("socks", &config, &|address| through_over(connect(address), target), &open);
}

#[test]
fn reverse_proxy_works_after_each_kill() {
    let (target, open) = counting_echo();
    let config =
        |listen| format!("[[reverse]]\nname = \"web\"\nlisten = [\"{listen}\"]\nto = [\"{target}\"]\n");
    kill_and_restart("reverse", &config, &connect, &open);
}
