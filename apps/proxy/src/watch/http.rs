//! HTTP server of the status page: three read-only resources, one request per connection.

use super::connection::WATCHED;
use super::{prometheus, registry};
use crate::config::Watch;
use crate::error::Error;
use crate::handover::replaces_earlier_process;
use crate::log;
use core::net::{IpAddr, SocketAddr};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::time::Instant;

/// Interval of samples. They are taken even if no page is open, so that short subflows are counted.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
/// Deadline for reading a request and writing the response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of open connections. A further connection closes the oldest one without a complete request.
const MAX_CONCURRENT: usize = 64;
/// Maximum length of a request's head, bytes.
const MAX_REQUEST_BYTES: usize = 8192;
/// Time that a new process waits for the old one to close its status page.
const TAKEOVER_TIMEOUT: Duration = Duration::from_secs(15);

const PAGE: &str = include_str!("page.html");
/// Content security policy of the page: it contains everything it needs, and loads nothing from other hosts.
const POLICY: &str =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'";

/// The listening socket. It is closed when a new process takes over.
static LISTENER: Mutex<Option<TcpListener>> = Mutex::new(None);

/// Starts the status page. If this process replaces an earlier one, the start waits until that process has closed its
/// status page.
///
/// # Errors
/// If the address is not local or already in use.
pub fn start(settings: &Watch) -> Result<(), Error> {
    let address = *settings.listen.as_ref();
    WATCHED.store(true, Ordering::Relaxed);
    std::thread::spawn(|| {
        loop {
            std::thread::sleep(SAMPLE_INTERVAL);
            drop(registry::snapshot());
        }
    });
    if replaces_earlier_process() {
        std::thread::spawn(move || match bind_in_time(address) {
            Ok(listener) => serve(&listener),
            Err(error) => log::log_line(format_args!("cannot show the status page on {address}: {error}")),
        });
        return Ok(());
    }
    let listener = TcpListener::bind(address)
        .map_err(|error| Error::Refused(format!("cannot show the status page on {address}: {error}")))?;
    std::thread::spawn(move || serve(&listener));
    Ok(())
}

/// Stops the status page.
pub fn stop() {
    if let Some(listener) = LISTENER.lock().ok().and_then(|mut listening| listening.take()) {
        // Wakes the thread that waits in `accept`. Ignore errors: the socket does not listen any more.
        let _ = rustix::net::shutdown(listener.as_fd(), rustix::net::Shutdown::Both);
    }
}

fn bind_in_time(address: SocketAddr) -> io::Result<TcpListener> {
    let mut left = TAKEOVER_TIMEOUT;
    loop {
        match TcpListener::bind(address) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && !left.is_zero() => {
                let pause = Duration::from_millis(100);
                std::thread::sleep(pause);
                left = left.saturating_sub(pause);
            }
            bound => return bound,
        }
    }
}

fn serve(listener: &TcpListener) {
    if let Ok(address) = listener.local_addr() {
        log::log_line(format_args!("status page at http://{address}/"));
    }
    if let (Ok(mut listening), Ok(copy)) = (LISTENER.lock(), listener.try_clone()) {
        *listening = Some(copy);
    }
    let mut open: VecDeque<Weak<Connection>> = VecDeque::new();
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                evict_if_full(&mut open);
                let connection = Arc::new(Connection { stream, has_request: AtomicBool::new(false) });
                open.push_back(Arc::downgrade(&connection));
                // Ignore errors: the client has disconnected.
                let answering = move || drop(answer(&connection, REQUEST_TIMEOUT));
                if let Err(error) = std::thread::Builder::new().spawn(answering) {
                    log::log_line(format_args!("cannot accept a connection to the status page: {error}"));
                }
            }
            // `stop` has shut the socket down.
            Err(error) if error.kind() == ErrorKind::InvalidInput => return,
            Err(_) => std::thread::sleep(REQUEST_TIMEOUT),
        }
    }
}

/// An accepted connection whose request has not been answered yet.
struct Connection {
    stream: TcpStream,
    /// True if the request is complete.
    has_request: AtomicBool,
}

/// Closes a connection if the maximum is reached: the oldest without a complete request, or else the oldest.
fn evict_if_full(open: &mut VecDeque<Weak<Connection>>) {
    open.retain(|connection| connection.strong_count() > 0);
    if open.len() < MAX_CONCURRENT {
        return;
    }
    let is_silent = |connection: &Weak<Connection>| {
        connection.upgrade().is_some_and(|connection| !connection.has_request.load(Ordering::Relaxed))
    };
    let victim = open.iter().position(is_silent).unwrap_or_default();
    if let Some(connection) = open.remove(victim).and_then(|victim| victim.upgrade()) {
        // Makes the thread of this connection end. Ignore errors: the client may have disconnected.
        let _ = connection.stream.shutdown(Shutdown::Both);
    }
}

/// Reads a request and writes the response before the deadline.
fn answer(connection: &Connection, request_timeout: Duration) -> io::Result<()> {
    let mut stream = &connection.stream;
    let end = Instant::now() + request_timeout;
    let left = || {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::Error::from(ErrorKind::TimedOut)) } else { Ok(Some(left)) }
    };
    let mut head = Vec::new();
    let answer = loop {
        if let Some(answer) = respond(&head) {
            break answer;
        }
        let mut some = [0; 1024];
        stream.set_read_timeout(left()?)?;
        let len = stream.read(&mut some)?;
        if len == 0 {
            return Ok(());
        }
        head.extend_from_slice(&some[..len]);
    };
    connection.has_request.store(true, Ordering::Relaxed);
    let mut rest = answer.as_slice();
    while !rest.is_empty() {
        stream.set_write_timeout(left()?)?;
        rest = &rest[stream.write(rest)?..];
    }
    stream.shutdown(Shutdown::Write)
}

/// Returns the response to a request; `None` while the request's head is incomplete.
fn respond(head: &[u8]) -> Option<Vec<u8>> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) if head.len() <= MAX_REQUEST_BYTES => return None,
        _ => return Some(reply("400 Bad Request", "text/plain", "")),
    }
    let host = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case("host"));
    if !host.is_none_or(|host| is_permitted_host(host.value)) {
        return Some(reply(
            "421 Misdirected Request",
            "text/plain",
            "use the IP address or localhost in the URL\n",
        ));
    }
    Some(match (request.method, request.path) {
        (Some("GET"), Some("/")) => reply("200 OK", "text/html; charset=utf-8", PAGE),
        (Some("GET"), Some("/metrics")) => reply(
            "200 OK",
            "text/plain; version=0.0.4; charset=utf-8",
            &prometheus::text(&registry::snapshot()),
        ),
        (Some("GET"), Some("/status.json")) => {
            let json =
                serde_json::to_string(&registry::snapshot()).expect("all keys of the registry are strings");
            reply("200 OK", "application/json", &json)
        }
        (Some("GET"), _) => {
            reply("404 Not Found", "text/plain", "not found; valid paths: /, /metrics, /status.json\n")
        }
        _ => reply("405 Method Not Allowed", "text/plain", ""),
    })
}

/// True for an IP address or `localhost` in the header `Host`. Other names are refused: a web page whose host name
/// resolves to this machine (DNS rebinding) must not read the status page.
fn is_permitted_host(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let without_port = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let is_address = host.parse::<SocketAddr>().is_ok() || without_port.parse::<IpAddr>().is_ok();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    is_address || name.eq_ignore_ascii_case("localhost")
}

fn reply(status: &str, kind: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nContent-Security-Policy: {POLICY}\r\n\
         X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(request: &str) -> String {
        let answer = respond(request.as_bytes()).expect("an answer");
        String::from_utf8(answer).expect("text")[9..12].to_owned()
    }

    #[test]
    fn page_metrics_and_status_are_served_by_address() {
        for path in ["/", "/metrics", "/status.json"] {
            for host in [
                "",
                "Host: localhost:9180\r\n",
                "host: 127.0.0.1:9180\r\n",
                "Host: [::1]:9180\r\n",
                "Host: [::1]\r\n",
            ] {
                assert_eq!(status(&format!("GET {path} HTTP/1.1\r\n{host}\r\n")), "200");
            }
        }
        assert_eq!(status("GET / HTTP/1.1\r\nHost: rebound.example.org:9180\r\n\r\n"), "421");
        assert_eq!(status("GET /etc HTTP/1.1\r\n\r\n"), "404");
        assert_eq!(status("POST / HTTP/1.1\r\n\r\n"), "405");
        assert_eq!(status("\x05\x01\x00"), "400");
        assert_eq!(status(&format!("GET /{} HTTP/1.1\r\n", "a".repeat(MAX_REQUEST_BYTES))), "400");
        assert_eq!(respond(b"GET / HTTP/1.1\r\nHost: loc"), None);
    }

    /// Some clients send nothing, and one sends an endless request.
    #[test]
    fn slow_client_does_not_block_others() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("the socket is bound");
        std::thread::spawn(move || serve(&listener));
        let connect = || TcpStream::connect(address).expect("the server listens");
        let silent: Vec<_> = (0..MAX_CONCURRENT - 2).map(|_| connect()).collect();
        let mut slow = connect();
        slow.write_all(b"GET / HTTP/1.1\r\nX: ").expect("the peer reads");
        let mut requester = connect();
        requester.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("the peer reads");
        requester.set_read_timeout(Some(REQUEST_TIMEOUT / 2)).expect("a timeout can be set");
        let mut first = [0; 12];
        requester.read_exact(&mut first).expect("a slow client does not delay the answer");
        assert_eq!(&first, b"HTTP/1.1 200");
        drop(silent);
        let begin = Instant::now();
        while slow.write_all(b"x").is_ok() {
            assert!(begin.elapsed() < 5 * REQUEST_TIMEOUT, "the request never times out");
            std::thread::sleep(REQUEST_TIMEOUT / 20);
        }
    }

    #[test]
    fn silent_connections_do_not_block_the_page() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("the socket is bound");
        std::thread::spawn(move || serve(&listener));
        let connect = || TcpStream::connect(address).expect("the server listens");
        let mut silent: Vec<_> = (0..2 * MAX_CONCURRENT).map(|_| connect()).collect();
        let mut requester = connect();
        requester.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("the peer reads");
        let mut answer = [0; 12];
        requester.read_exact(&mut answer).expect("the request is answered");
        assert_eq!(&answer, b"HTTP/1.1 200");
        // The oldest connection was evicted; the newest ones are still open.
        assert_eq!(silent[0].read(&mut [0]).expect("the connection is closed"), 0);
        let mut last = silent.pop().expect("there are silent connections");
        last.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("the peer reads");
        last.read_exact(&mut answer).expect("the request is answered");
    }

    #[test]
    fn page_loads_nothing_from_other_hosts() {
        assert!(!PAGE.contains("http://") && !PAGE.contains("https://") && !PAGE.contains("src="));
    }
}
