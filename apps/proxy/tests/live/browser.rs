//! A browser, which supports only TCP, over links of 20 and 10 Mbit/s: with a SOCKS proxy in its settings, and behind a
//! router.

use super::links::{Bed, NEEDS, count, kill};
use super::router_links::{Host, router};
use anabranch_testkit::namespace::{Need, machine_has};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

const BROWSER: &str = "chromium";

fn machine_has_all() -> bool {
    let has_browser = || Command::new(BROWSER).arg("--version").output().is_ok();
    machine_has(&NEEDS) && machine_has(&[Need::Other(has_browser, "the browser chromium is missing")])
}

/// The page, which downloads for nine seconds, reports the bytes of the last seven, and then uploads.
const PAGE: &str = "<!doctype html><script>
(async () => {
  const reader = (await fetch('/endless')).body.getReader();
  let begin, bytes = 0;
  for (;;) {
    const { value } = await reader.read();
    begin ??= performance.now();
    const since = performance.now() - begin;
    if (since >= 9000) break;
    if (since >= 2000) bytes += value.length;
  }
  await reader.cancel();
  await fetch('/came?' + bytes * 8 / 7);
  await fetch('/take', { method: 'PUT', body: new Blob([new Uint8Array(60e6)]) });
})();
</script>";

/// Serves the page. Returns its URL, and a receiver of the measured rates: download, then upload, in bits per second.
fn serve(bed: &Bed) -> (String, Receiver<f64>) {
    let bind = || TcpListener::bind((bed.address("server", 0), 80));
    let listener = bed.hosts.namespace("server").run(bind).expect("a free port");
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let sender = sender.clone();
            // The thread ends when the client closes the connection.
            std::thread::spawn(move || answer(&stream, &sender));
        }
    });
    (format!("http://{}/", bed.address("server", 0)), receiver)
}

fn answer(stream: &TcpStream, sender: &Sender<f64>) -> std::io::Result<()> {
    let (mut reader, mut asked, mut line) = (BufReader::new(stream), String::new(), String::new());
    reader.read_line(&mut asked)?;
    while line != "\r\n" && {
        line.clear();
        reader.read_line(&mut line)? > 0
    } {}
    let page = |body: &str| {
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
    };
    // Ignore errors: the test has ended, so the receiver was dropped.
    let log_line = |bits: f64| sender.send(bits).unwrap_or_default();
    let path = asked.split(' ').nth(1).unwrap_or_default();
    if let Some(bits) = path.strip_prefix("/came?") {
        log_line(bits.parse().expect("the page sends a number"));
    }
    match path {
        "/endless" => {
            (&*stream).write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
            loop {
                (&*stream).write_all(&[7; 4096])?;
            }
        }
        "/take" => {
            log_line(count(reader)?.bits_per_second);
            Ok(())
        }
        "/" => (&*stream).write_all(page(PAGE).as_bytes()),
        _ => (&*stream).write_all(page("").as_bytes()),
    }
}

/// A folder for the browser's files.
struct Profile(PathBuf);

impl Profile {
    fn new(purpose: &str) -> Self {
        Self(std::env::temp_dir().join(format!(
            "anabranch-browser-{}-{}",
            purpose.replace(' ', "-"),
            std::process::id()
        )))
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Opens the page in the browser with these arguments; returns the rates of download and upload, in bits per second.
fn browse(
    purpose: &str,
    mut within: Command,
    arguments: &[&str],
    url: &str,
    receiver: &Receiver<f64>,
) -> [f64; 2] {
    let profile = Profile::new(purpose);
    within.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]);
    within.arg(format!("--user-data-dir={}", profile.0.display())).args(arguments).arg(url);
    let browser = within.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let browser = browser.expect("the program can be run");
    let rates = [0, 1].map(|_| receiver.recv_timeout(Duration::from_secs(40)));
    kill(browser);
    let rates = rates.map(|rate| rate.expect("the page is shown"));
    eprintln!("{purpose}: down {:.1} Mbit/s, up {:.1} Mbit/s", rates[0] / 1e6, rates[1] / 1e6);
    rates
}

/// A rate that the faster link could not reach without the other, bits per second. Measured rates are in
/// docs/lab-notes/proxies.md.
const MIN_TWO_LINK_BPS: f64 = 20e6;

#[test]
fn browser_uses_both_links_through_a_proxy() {
    if !machine_has_all() {
        return;
    }
    let bed = Bed::new("browser-socks", "");
    let (_far, near) = bed.proxies();
    let (url, receiver) = serve(&bed);
    let mut within = Command::new("ip");
    within.args(["netns", "exec", bed.hosts.name("client"), BROWSER]);
    let proxy = format!("--proxy-server=socks5://{}", near.address());
    let rates = browse("by a proxy", within, &[&proxy], &url, &receiver);
    assert!(rates.iter().all(|rate| *rate > MIN_TWO_LINK_BPS), "{rates:?}");
}

#[test]
fn browser_behind_a_router_uses_both_links() {
    if !machine_has_all() {
        return;
    }
    let bed = Bed::new("browser-router", "");
    let _far = bed.far_proxy();
    let host = Host::new(&bed, "browser");
    let _router = router(&bed, "socks");
    let (url, receiver) = serve(&bed);
    let rates = browse("behind a router", host.command(&[BROWSER]), &[], &url, &receiver);
    assert!(rates.iter().all(|rate| *rate > MIN_TWO_LINK_BPS), "{rates:?}");
}
