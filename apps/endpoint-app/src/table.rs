//! The table of paths that is refreshed in the terminal.

use anabranch_host::ConnectionId;
use anabranch_net::ConnectionReport;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// Maximum number of paths that the table shows.
const MAX_ROWS: usize = 20;

/// Bytes sent and received on each path, by connection and path.
type Totals = BTreeMap<(ConnectionId, String), (u64, u64)>;

/// A table that replaces the previous one on the screen.
#[derive(Default)]
pub struct Table {
    /// Number of lines of the previous table.
    lines: usize,
    totals: Totals,
}

impl Table {
    /// Returns the text of the table, after the control sequences that erase the previous table. Rates cover the
    /// `interval` since the previous call.
    pub fn draw(&mut self, connections: &[ConnectionReport], interval: Duration) -> String {
        let mut text = String::new();
        if self.lines > 0 {
            // Moves the cursor up and erases the screen below it. Ignore the results, here and below: writing to a
            // String succeeds.
            let _ = write!(text, "\x1b[{}A\x1b[J", self.lines);
        }
        let rows = self.rows(connections, interval);
        self.lines = rows.lines().count();
        text + &rows
    }

    fn rows(&mut self, connections: &[ConnectionReport], interval: Duration) -> String {
        let mut text = format!(
            "{:22} {:24} {:8} {:>9} {:>9} {:>9} {:>8} {:>7}\n",
            "local", "remote", "state", "sent Mb/s", "recv Mb/s", "cwnd kB", "RTT ms", "retrans"
        );
        let mut totals = Totals::new();
        let paths = (connections.iter())
            .flat_map(|connection| connection.report.paths.iter().map(|path| (connection.id, path)));
        let count = paths.clone().count();
        for (row, (id, path)) in paths.enumerate() {
            let key = (id, format!("{} {}", path.local, path.remote));
            let counters = path.counters;
            let now = (counters.bytes_sent, counters.bytes_received);
            let before = self.totals.get(&key).copied().unwrap_or_default();
            let rate = |new: u64, old: u64| new.saturating_sub(old) as f64 * 8e-6 / interval.as_secs_f64();
            totals.insert(key, now);
            if row >= MAX_ROWS {
                continue;
            }
            let state = match (path.usable, path.backup) {
                (false, _) => "down",
                (true, true) => "backup",
                (true, false) => "up",
            };
            let retransmissions = counters.fast_retransmissions + counters.timeout_retransmissions;
            let rtt =
                path.srtt.map_or_else(|| "-".to_owned(), |rtt| format!("{:.1}", rtt.as_secs_f64() * 1e3));
            let _ = writeln!(
                text,
                "{:22} {:24} {state:8} {:>9.2} {:>9.2} {:>9.1} {rtt:>8} {retransmissions:>7}",
                path.local.to_string(),
                path.remote.to_string(),
                rate(now.0, before.0),
                rate(now.1, before.1),
                path.cwnd as f64 / 1e3,
            );
        }
        if count > MAX_ROWS {
            let _ = writeln!(text, "and {} more paths", count - MAX_ROWS);
        }
        self.totals = totals;
        text
    }
}
