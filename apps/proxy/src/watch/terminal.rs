//! Shows the traffic of a proxy on this machine in a terminal, refreshed each second.

use crate::error::Error;
use crate::log::printable;
use core::net::SocketAddr;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Interval at which the screen is refreshed.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);
/// Timeout for the answer of the status page.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of connections on the screen.
const MAX_SHOWN: usize = 15;
/// Column headings of the table of uplinks.
const UPLINK_COLUMNS: [&str; 7] =
    ["address", "peers", "subflows", "Mbit/s out", "Mbit/s in", "RTT ms", "retrans"];
const CONNECTION_COLUMNS: [&str; 5] = ["client", "target", "Mbit/s up", "Mbit/s down", "wait ms"];
/// Escape sequence that moves the cursor to the top left and clears the screen.
const HOME: &str = "\x1b[H\x1b[J";

/// Shows the traffic of the proxy with this status page until the user interrupts it. If the output is not a terminal,
/// shows it once.
///
/// # Errors
///
/// If the status page does not answer.
pub fn show(address: SocketAddr) -> Result<(), Error> {
    let is_terminal = io::stdout().is_terminal();
    let mut before = None;
    loop {
        let now = fetch(address).map_err(|error| {
            Error::Refused(format!("no status page at {address}: {error}; add [watch] to the proxy's file"))
        })?;
        // If the output is not a terminal, only the second sample is printed, because rates need two samples.
        if is_terminal || before.is_some() {
            let text = screen(before.as_ref(), &now, REFRESH_INTERVAL);
            let home = if is_terminal { HOME } else { "" };
            let shown = write!(io::stdout(), "{home}{text}").and_then(|()| io::stdout().flush());
            // Ends after one screen without a terminal, or if the reader of the output has closed its end.
            if !is_terminal || shown.is_err() {
                return Ok(());
            }
        }
        before = Some(now);
        std::thread::sleep(REFRESH_INTERVAL);
    }
}

fn fetch(address: SocketAddr) -> io::Result<Value> {
    let mut stream = TcpStream::connect_timeout(&address, RESPONSE_TIMEOUT)?;
    stream.set_read_timeout(Some(RESPONSE_TIMEOUT))?;
    write!(stream, "GET /status.json HTTP/1.1\r\nHost: {address}\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let text = String::from_utf8_lossy(&answer);
    let body = text.split_once("\r\n\r\n").map(|(_, body)| body);
    serde_json::from_str(body.unwrap_or_default()).map_err(io::Error::other)
}

/// Returns the text of the screen: uplinks and connections, with their traffic since the previous sample.
fn screen(before: Option<&Value>, now: &Value, since: Duration) -> String {
    let mut text = String::new();
    // Ignore the results: writing to a String succeeds.
    for (name, totals) in now["services"].as_object().into_iter().flatten() {
        let number = |key: &str| totals[key].as_u64().unwrap_or_default();
        let _ = writeln!(
            text,
            "{}: {} open of {} connections, {} with Multipath TCP; up {}, down {}",
            printable(name),
            number("open"),
            number("connections"),
            number("multipath"),
            bytes(number("up_bytes")),
            bytes(number("down_bytes")),
        );
    }
    let rate = |old: Option<&Value>, new: &Value, key: &str| {
        let (old, new) = (old.map_or(&new[key], |old| &old[key]).as_u64(), new[key].as_u64());
        8.0 * new.unwrap_or_default().saturating_sub(old.unwrap_or_default()) as f64
            / since.as_secs_f64()
            / 1e6
    };
    let [address, peers, subflows, out, into, rtt, retransmitted] = UPLINK_COLUMNS;
    let _ = writeln!(
        text,
        "\n{address:40} {peers:>6} {subflows:>8} {out:>11} {into:>11} {rtt:>8} {retransmitted:>8}"
    );
    for uplink in list(now, "uplinks") {
        let old = before.and_then(|before| {
            let same = |old: &&Value| old["address"] == uplink["address"] && old["side"] == uplink["side"];
            list(before, "uplinks").iter().find(same)
        });
        let _ = writeln!(
            text,
            "{:40} {:>6} {:>8} {:>11.2} {:>11.2} {:>8.1} {:>8}",
            word(uplink, "address"),
            word(uplink, "side"),
            uplink["subflows"].as_u64().unwrap_or_default(),
            rate(old, uplink, "sent_bytes"),
            rate(old, uplink, "received_bytes"),
            uplink["rtt_us"].as_f64().unwrap_or_default() / 1000.0,
            uplink["retransmitted"].as_u64().unwrap_or_default(),
        );
    }
    let [client, to, up, down, wait] = CONNECTION_COLUMNS;
    let _ = writeln!(text, "\n{client:40} {to:32} {up:>11} {down:>11} {wait:>8} transports");
    for connection in list(now, "connections").iter().take(MAX_SHOWN) {
        let same = |old: &&Value| old["number"] == connection["number"];
        let old = before.and_then(|before| list(before, "connections").iter().find(same));
        let kinds: Vec<_> = list(connection, "ends").iter().map(|end| word(end, "kind")).collect();
        let _ = writeln!(
            text,
            "{:40} {:32} {:>11.2} {:>11.2} {:>8.1} {}",
            word(connection, "client"),
            word(connection, "target"),
            rate(old, connection, "up_bytes"),
            rate(old, connection, "down_bytes"),
            connection["longest_wait_us"].as_f64().unwrap_or_default() / 1000.0,
            kinds.join("-"),
        );
    }
    let more = list(now, "connections").len().saturating_sub(MAX_SHOWN) as u64
        + now["left_off"].as_u64().unwrap_or_default();
    if more > 0 {
        let _ = writeln!(text, "{more} more connections");
    }
    text
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns a text of the JSON document with control characters escaped, because clients choose some of these texts.
fn word(value: &Value, key: &str) -> String {
    printable(value[key].as_str().unwrap_or_default())
}

fn bytes(number: u64) -> String {
    match number {
        0..1_000_000 => format!("{:.1} kB", number as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", number as f64 / 1e6),
        _ => format!("{:.2} GB", number as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_cover_bytes_since_the_last_refresh() {
        let at = |sent: u64, down: u64| {
            serde_json::json!({
                "services": {"socks": {"open": 1, "connections": 2, "multipath": 1, "up_bytes": 0, "down_bytes": down}},
                "uplinks": [{"address": "192.0.2.1", "side": "server", "subflows": 1, "sent_bytes": sent,
                    "received_bytes": 0, "retransmitted": 3, "rtt_us": 20500}],
                "connections": [{"number": 1, "client": "127.0.0.1:5", "target": "a\u{1b}[2J:80", "up_bytes": 0,
                    "down_bytes": down, "longest_wait_us": 1500, "ends": [{"kind": "tcp"}, {"kind": "multipath"}]}],
                "left_off": 4
            })
        };
        let text = screen(Some(&at(1_000_000, 0)), &at(2_000_000, 2_500_000), REFRESH_INTERVAL);
        for part in [
            "1 open of 2 connections",
            "down 2.5 MB",
            " 8.00 ",
            " 20.5 ",
            " 20.00 ",
            "tcp-multipath",
            "4 more connections",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(!text.contains('\u{1b}') && screen(None, &at(5, 5), REFRESH_INTERVAL).contains(" 0.00 "));
    }
}
