//! Metrics for Prometheus (text format 0.0.4). Labels contain only names from the configuration file and addresses of
//! this machine, so clients cannot create labels.

use super::registry::{Snapshot, Totals, Uplink};
use super::uplinks::Side;
use std::fmt::Write;

/// Name, type and help text of a metric.
type Metric = (&'static str, &'static str, &'static str);

/// Function that returns the value of a metric.
type Value<T, N> = fn(&T) -> N;

const SERVICE_METRICS: [(Metric, Value<Totals, u64>); 5] = [
    (("connections", "gauge", "Open connections"), |totals| totals.open),
    (("connections_total", "counter", "All connections, including ended ones"), |totals| totals.connections),
    (("multipath_connections_total", "counter", "Connections of clients with Multipath TCP"), |totals| {
        totals.multipath
    }),
    (("up_bytes_total", "counter", "Bytes from clients to servers"), |totals| totals.up_bytes),
    (("down_bytes_total", "counter", "Bytes from servers to clients"), |totals| totals.down_bytes),
];

const UPLINK_METRICS: [(Metric, Value<Uplink, f64>); 5] = [
    (("uplink_subflows", "gauge", "Open subflows"), |uplink| uplink.subflows as f64),
    (("uplink_sent_bytes_total", "counter", "Bytes sent and acknowledged"), |uplink| {
        uplink.carried.sent_bytes as f64
    }),
    (("uplink_received_bytes_total", "counter", "Bytes received"), |uplink| {
        uplink.carried.received_bytes as f64
    }),
    (("uplink_retransmitted_total", "counter", "Retransmitted segments"), |uplink| {
        uplink.carried.retransmitted as f64
    }),
    (("uplink_rtt_seconds", "gauge", "Smoothed round-trip time of the subflow sampled last"), |uplink| {
        f64::from(uplink.carried.rtt_us) / 1e6
    }),
];

/// Returns all metrics as text.
pub fn text(snapshot: &Snapshot) -> String {
    let mut text = String::new();
    for (metric, value) in SERVICE_METRICS {
        let services = snapshot.services.iter();
        let values =
            services.map(|(name, totals)| (format!("service=\"{}\"", escape(name)), value(totals) as f64));
        write(&mut text, metric, values);
    }
    for (metric, value) in UPLINK_METRICS {
        let labels = |uplink: &Uplink| {
            let side = if uplink.side == Side::Client { "client" } else { "server" };
            format!("address=\"{}\",side=\"{side}\"", uplink.address)
        };
        write(&mut text, metric, snapshot.uplinks.iter().map(|uplink| (labels(uplink), value(uplink))));
    }
    let fallbacks = ("fallbacks", "gauge", "Ends of open connections that have fallen back to TCP");
    write(&mut text, fallbacks, [(String::new(), snapshot.fallbacks as f64)].into_iter());
    text
}

fn write(text: &mut String, (name, kind, help): Metric, values: impl Iterator<Item = (String, f64)>) {
    // Ignore the results: writing to a String succeeds.
    let _ = writeln!(text, "# HELP anabranch_{name} {help}.\n# TYPE anabranch_{name} {kind}");
    for (labels, value) in values {
        let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
        let _ = writeln!(text, "anabranch_{name}{labels} {value}");
    }
}

fn escape(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::super::uplinks::Carried;
    use super::*;

    #[test]
    fn metrics_have_prometheus_format() {
        let carried =
            Carried { sent_bytes: 12_345_678_901, received_bytes: 2, retransmitted: 3, rtt_us: 1500 };
        let totals = Totals { open: 1, connections: 4, multipath: 2, up_bytes: 5, down_bytes: 6 };
        let snapshot = Snapshot {
            services: [("a \"web\"".to_owned(), totals)].into(),
            uplinks: vec![Uplink {
                address: "::1".parse().unwrap(),
                side: Side::Server,
                subflows: 2,
                carried,
            }],
            connections: Vec::new(),
            left_off: 0,
            fallbacks: 1,
        };
        let text = text(&snapshot);
        for line in [
            "# HELP anabranch_connections Open connections.",
            "# TYPE anabranch_connections_total counter",
            "anabranch_connections_total{service=\"a \\\"web\\\"\"} 4",
            "anabranch_uplink_sent_bytes_total{address=\"::1\",side=\"server\"} 12345678901",
            "anabranch_uplink_rtt_seconds{address=\"::1\",side=\"server\"} 0.0015",
            "anabranch_fallbacks 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(text.ends_with('\n'));
    }
}
