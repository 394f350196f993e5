//! Metrics: what a study can tabulate, draw and hold against publications, each with its place in a result document.

/// What a metric has a value for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The whole run.
    Run,
    /// A flow.
    Flow,
    /// A path of a flow.
    Path,
    /// A direction of a link.
    Link,
}

impl Level {
    /// All levels.
    pub const ALL: [Self; 4] = [Self::Run, Self::Flow, Self::Path, Self::Link];

    /// One word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Flow => "flow",
            Self::Path => "path",
            Self::Link => "link",
        }
    }
}

/// A quantity of a run.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// The word that studies use.
    pub name: &'static str,
    /// What it is called on axes and in tables.
    pub label: &'static str,
    /// Unit of the values; empty for numbers without one.
    pub unit: &'static str,
    /// What it has a value for.
    pub level: Level,
    /// Key in that part of the document; a dot goes one table deeper.
    pub field: &'static str,
    /// What the document's value is multiplied with to be in `unit`.
    pub scale: f64,
}

/// A metric; its last part is the unit and what the document's value is multiplied with to be in it.
const fn metric(
    name: &'static str,
    label: &'static str,
    level: Level,
    field: &'static str,
    (unit, scale): (&'static str, f64),
) -> Metric {
    Metric { name, label, unit, level, field, scale }
}

const MBIT: (&str, f64) = ("Mbit/s", 1e-6);
const MILLIS: (&str, f64) = ("ms", 1e3);
const SECONDS: (&str, f64) = ("s", 1.0);
const KILOBYTES: (&str, f64) = ("kB", 1e-3);
const PERCENT: (&str, f64) = ("%", 1e2);
const PACKETS: (&str, f64) = ("packets", 1.0);
const COUNT: (&str, f64) = ("", 1.0);

/// Every metric there is.
pub static METRICS: &[Metric] = &[
    metric("goodput", "Goodput", Level::Flow, "goodput_bps", MBIT),
    metric("throughput", "Throughput", Level::Flow, "throughput_bps", MBIT),
    metric("delivery-delay-mean", "Mean delivery delay", Level::Flow, "delivery_delay_s.mean", MILLIS),
    metric(
        "delivery-delay-p95",
        "Delivery delay, 95 % quantile",
        Level::Flow,
        "delivery_delay_s.p95",
        MILLIS,
    ),
    metric("setup-time", "Time to connect", Level::Flow, "setup_s", SECONDS),
    metric("reverse-goodput", "Goodput of what goes the other way", Level::Flow, "reverse_goodput_bps", MBIT),
    metric("answers", "Requests answered", Level::Flow, "answers", COUNT),
    metric("response-time-mean", "Mean response time", Level::Flow, "response_time_s.mean", MILLIS),
    metric("response-time-p50", "Median of the response time", Level::Flow, "response_time_s.p50", MILLIS),
    metric("response-time-p95", "Response time, 95 % quantile", Level::Flow, "response_time_s.p95", MILLIS),
    metric("response-time-p99", "Response time, 99 % quantile", Level::Flow, "response_time_s.p99", MILLIS),
    metric("recovery-time", "Time to recover from an outage", Level::Flow, "recovery_s", SECONDS),
    metric(
        "recovered-share",
        "Goodput at the end / before the outage",
        Level::Flow,
        "recovered_share",
        COUNT,
    ),
    metric(
        "reordering-buffer",
        "Mean of the reordering buffer",
        Level::Flow,
        "reordering_buffer_bytes.mean",
        KILOBYTES,
    ),
    metric("path-goodput", "Goodput of the path", Level::Path, "goodput_bps", MBIT),
    metric("path-throughput", "Throughput of the path", Level::Path, "throughput_bps", MBIT),
    metric("path-retransmissions", "Retransmissions", Level::Path, "retransmissions", COUNT),
    metric("path-timeouts", "Timeouts", Level::Path, "timeouts", COUNT),
    metric(
        "path-reinjections",
        "Packets that another path had carried before",
        Level::Path,
        "reinjections",
        COUNT,
    ),
    metric("path-srtt", "Smoothed round-trip time", Level::Path, "srtt_mean_s", MILLIS),
    metric("path-cwnd", "Mean congestion window", Level::Path, "cwnd_mean_bytes", KILOBYTES),
    metric("path-cwnd-max", "Largest congestion window", Level::Path, "cwnd_max_bytes", KILOBYTES),
    metric(
        "path-bottleneck-share",
        "Time found to pass a bottleneck",
        Level::Path,
        "bottleneck_share",
        PERCENT,
    ),
    metric("path-coupled-share", "Time found to share a bottleneck", Level::Path, "coupled_share", PERCENT),
    metric("path-outstanding", "Mean of bytes in flight", Level::Path, "outstanding_mean_bytes", KILOBYTES),
    metric(
        "path-back-time",
        "Time to new data on a path that came back",
        Level::Path,
        "path_back_s",
        SECONDS,
    ),
    metric("utilisation", "Utilisation", Level::Link, "utilisation", PERCENT),
    metric("queue-length", "Mean queue length", Level::Link, "occupancy.mean", PACKETS),
    metric("drops", "Drops", Level::Link, "drops", PACKETS),
    metric("jain", "Jain's fairness index", Level::Run, "jain", COUNT),
];

#[cfg(test)]
mod tests {
    use super::super::{Field, FlowResult, LinkResult, PathResult, RunResult};
    use super::*;

    #[test]
    fn every_metric_names_a_key_of_the_document() {
        let fields = |level| match level {
            Level::Run => RunResult::FIELDS,
            Level::Flow => FlowResult::FIELDS,
            Level::Path => PathResult::FIELDS,
            Level::Link => LinkResult::FIELDS,
        };
        let tables = ["mean", "max", "p50", "p95", "p99"];
        for metric in METRICS {
            let (key, below) = metric.field.split_once('.').unwrap_or((metric.field, "mean"));
            let has = |field: &Field| field.name == key;
            assert!(fields(metric.level).iter().any(has), "{}: no key {key}", metric.name);
            assert!(tables.contains(&below), "{}: nothing holds {below}", metric.name);
        }
    }

    #[test]
    fn names_are_unique() {
        for (at, metric) in METRICS.iter().enumerate() {
            assert!(METRICS[..at].iter().all(|other| other.name != metric.name), "{} twice", metric.name);
        }
    }
}
