//! Text for Prometheus (exposition format 0.0.4). Labels are names of the file and addresses of this machine, so that clients
//! cannot add any.

use super::registry::{Snapshot, Totals, Uplink};
use super::uplinks::Side;
use std::fmt::Write;

/// A metric: its name, its type, what it is.
type Metric = (&'static str, &'static str, &'static str);

/// Label of a metric.
type Value<T, N> = fn(&T) -> N;

const OF_SERVICES: [(Metric, Value<Totals, u64>); 5] = [
    (("connections", "gauge", "Connections that are open"), |totals| totals.open),
    (("connections_total", "counter", "Connections there have been"), |totals| totals.connections),
    (
        ("multipath_connections_total", "counter", "Connections whose client came by Multipath TCP"),
        |totals| totals.multipath,
    ),
    (("up_bytes_total", "counter", "Bytes from clients to servers"), |totals| totals.up_bytes),
    (("down_bytes_total", "counter", "Bytes from servers to clients"), |totals| totals.down_bytes),
];

const OF_UPLINKS: [(Metric, Value<Uplink, f64>); 5] = [
    (("uplink_subflows", "gauge", "Subflows that are open"), |uplink| uplink.subflows as f64),
    (("uplink_sent_bytes_total", "counter", "Bytes sent and acknowledged"), |uplink| {
        uplink.carried.sent_bytes as f64
    }),
    (("uplink_received_bytes_total", "counter", "Bytes received"), |uplink| {
        uplink.carried.received_bytes as f64
    }),
    (("uplink_retransmitted_total", "counter", "Segments sent again"), |uplink| {
        uplink.carried.retransmitted as f64
    }),
    (
        ("uplink_rtt_seconds", "gauge", "Smoothed round-trip time of the subflow that was seen last"),
        |uplink| f64::from(uplink.carried.rtt_us) / 1e6,
    ),
];

/// All metrics.
pub fn text(snapshot: &Snapshot) -> String {
    let mut text = String::new();
    for (metric, value) in OF_SERVICES {
        let services = snapshot.services.iter();
        let values =
            services.map(|(name, totals)| (format!("service=\"{}\"", escape(name)), value(totals) as f64));
        write(&mut text, metric, values);
    }
    for (metric, value) in OF_UPLINKS {
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
    // A string takes all that is written.
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
    fn the_format_is_that_of_prometheus() {
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
            "# HELP anabranch_connections Connections that are open.",
            "# TYPE anabranch_connections_total counter",
            "anabranch_connections_total{service=\"a \\\"web\\\"\"} 4",
            "anabranch_uplink_sent_bytes_total{address=\"::1\",side=\"server\"} 12345678901",
            "anabranch_uplink_rtt_seconds{address=\"::1\",side=\"server\"} 0.0015",
            "anabranch_fallbacks 1",
        ] {
            assert!(text.lines().any(|said| said == line), "{line}\n{text}");
        }
        assert!(text.ends_with('\n'));
    }
}
