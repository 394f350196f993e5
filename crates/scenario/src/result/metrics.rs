//! Metrics for the tables, figures and claims of studies, each with its place in a result document.

/// Level of the objects for which a metric has values.
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
    /// A host.
    Host,
}

impl Level {
    /// All levels.
    pub const ALL: [Self; 5] = [Self::Run, Self::Flow, Self::Path, Self::Link, Self::Host];

    /// One word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Flow => "flow",
            Self::Path => "path",
            Self::Link => "link",
            Self::Host => "host",
        }
    }
}

/// A quantity of a run.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// The name in studies.
    pub name: &'static str,
    /// Label of the metric on axes and in tables.
    pub label: &'static str,
    /// Unit of the values; empty for numbers without one.
    pub unit: &'static str,
    /// Level of the objects for which it has values.
    pub level: Level,
    /// Key in that part of the document; a dot leads one table deeper.
    pub field: &'static str,
    /// Factor from the document's value to `unit`.
    pub scale: f64,
}

/// A metric; the last argument is its unit and the factor from the document's value to that.
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

/// All metrics.
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
    metric("reverse-goodput", "Goodput of the opposite direction", Level::Flow, "reverse_goodput_bps", MBIT),
    metric("answers", "Requests answered", Level::Flow, "answers", COUNT),
    metric("response-time-mean", "Mean response time", Level::Flow, "response_time_s.mean", MILLIS),
    metric("response-time-p50", "Median of the response time", Level::Flow, "response_time_s.p50", MILLIS),
    metric("response-time-p95", "Response time, 95 % quantile", Level::Flow, "response_time_s.p95", MILLIS),
    metric("response-time-p99", "Response time, 99 % quantile", Level::Flow, "response_time_s.p99", MILLIS),
    metric("lost", "Datagrams lost", Level::Flow, "lost_share", PERCENT),
    metric("duplicated", "Datagrams duplicated", Level::Flow, "duplicated_share", PERCENT),
    metric("jitter", "Interarrival jitter", Level::Flow, "jitter_s", MILLIS),
    metric("r-factor", "Transmission rating R", Level::Flow, "r_factor", COUNT),
    metric("mos", "Mean opinion score", Level::Flow, "mos", COUNT),
    metric("arrived", "Connections that arrived", Level::Flow, "arrived", COUNT),
    metric("unfinished", "Connections without their whole file", Level::Flow, "unfinished", COUNT),
    metric("refused", "Connections refused", Level::Flow, "refused", COUNT),
    metric("completion-time-mean", "Mean completion time", Level::Flow, "completion_time_s.mean", MILLIS),
    metric(
        "completion-time-p50",
        "Median of the completion time",
        Level::Flow,
        "completion_time_s.p50",
        MILLIS,
    ),
    metric(
        "completion-time-p95",
        "Completion time, 95 % quantile",
        Level::Flow,
        "completion_time_s.p95",
        MILLIS,
    ),
    metric(
        "completion-time-p99",
        "Completion time, 99 % quantile",
        Level::Flow,
        "completion_time_s.p99",
        MILLIS,
    ),
    metric("slowdown-mean", "Mean slowdown", Level::Flow, "slowdown.mean", COUNT),
    metric("slowdown-p50", "Median of the slowdown", Level::Flow, "slowdown.p50", COUNT),
    metric("slowdown-p95", "Slowdown, 95 % quantile", Level::Flow, "slowdown.p95", COUNT),
    metric("slowdown-p99", "Slowdown, 99 % quantile", Level::Flow, "slowdown.p99", COUNT),
    metric("recovery-time", "Time to recover from an outage", Level::Flow, "recovery_s", SECONDS),
    metric(
        "recovered-share",
        "Goodput at the end / before the outage",
        Level::Flow,
        "recovered_share",
        COUNT,
    ),
    metric("gap", "Longest time without delivery after the first event", Level::Flow, "gap_s", SECONDS),
    metric("gap-delivered", "Bytes in the 5 s after an event", Level::Flow, "gap_delivered_bytes", KILOBYTES),
    metric("repeated", "Bytes sent again in the 5 s after an event", Level::Flow, "repeated_share", PERCENT),
    metric(
        "reordering-buffer",
        "Mean of the reordering buffer",
        Level::Flow,
        "reordering_buffer_bytes.mean",
        KILOBYTES,
    ),
    metric(
        "limited-application",
        "Time limited by the application",
        Level::Flow,
        "limited_s.application",
        SECONDS,
    ),
    metric(
        "limited-send-buffer",
        "Time limited by the send buffer",
        Level::Flow,
        "limited_s.send-buffer",
        SECONDS,
    ),
    metric(
        "limited-receive-window",
        "Time limited by the receive window",
        Level::Flow,
        "limited_s.receive-window",
        SECONDS,
    ),
    metric("limited-scheduler", "Time limited by the scheduler", Level::Flow, "limited_s.scheduler", SECONDS),
    metric("limited-pacing", "Time limited by pacing", Level::Flow, "limited_s.pacing", SECONDS),
    metric(
        "limited-congestion-avoidance",
        "Time limited by the window in congestion avoidance",
        Level::Flow,
        "limited_s.congestion-avoidance",
        SECONDS,
    ),
    metric(
        "limited-slow-start",
        "Time limited by the window in slow start",
        Level::Flow,
        "limited_s.slow-start",
        SECONDS,
    ),
    metric(
        "limited-recovery",
        "Time limited by the window in recovery",
        Level::Flow,
        "limited_s.recovery",
        SECONDS,
    ),
    metric("limited-timeout", "Time limited by timeouts", Level::Flow, "limited_s.timeout", SECONDS),
    metric("limited-backup", "Time limited by unused backup paths", Level::Flow, "limited_s.backup", SECONDS),
    metric("limited-opening", "Time limited by opening", Level::Flow, "limited_s.opening", SECONDS),
    metric("limited-unusable", "Time without a usable path", Level::Flow, "limited_s.unusable", SECONDS),
    metric("path-goodput", "Goodput of the path", Level::Path, "goodput_bps", MBIT),
    metric("path-throughput", "Throughput of the path", Level::Path, "throughput_bps", MBIT),
    metric("path-retransmissions", "Retransmissions", Level::Path, "retransmissions", COUNT),
    metric("path-timeouts", "Timeouts", Level::Path, "timeouts", COUNT),
    metric("path-reinjections", "Packets carried by another path before", Level::Path, "reinjections", COUNT),
    metric("path-srtt", "Smoothed round-trip time", Level::Path, "srtt_mean_s", MILLIS),
    metric("path-cwnd", "Mean congestion window", Level::Path, "cwnd_mean_bytes", KILOBYTES),
    metric("path-cwnd-max", "Largest congestion window", Level::Path, "cwnd_max_bytes", KILOBYTES),
    metric(
        "path-bottleneck-share",
        "Time with a detected bottleneck",
        Level::Path,
        "bottleneck_share",
        PERCENT,
    ),
    metric(
        "path-coupled-share",
        "Time with a detected shared bottleneck",
        Level::Path,
        "coupled_share",
        PERCENT,
    ),
    metric("path-outstanding", "Mean of bytes in flight", Level::Path, "outstanding_mean_bytes", KILOBYTES),
    metric(
        "path-back-time",
        "Time to new data on a path that came back",
        Level::Path,
        "path_back_s",
        SECONDS,
    ),
    metric(
        "first-data-after-event",
        "Time from an event to new data on the path",
        Level::Path,
        "first_data_after_event_s",
        SECONDS,
    ),
    metric(
        "path-limited-application",
        "Time of the path limited by the application",
        Level::Path,
        "limited_s.application",
        SECONDS,
    ),
    metric(
        "path-limited-send-buffer",
        "Time of the path limited by the send buffer",
        Level::Path,
        "limited_s.send-buffer",
        SECONDS,
    ),
    metric(
        "path-limited-receive-window",
        "Time of the path limited by the receive window",
        Level::Path,
        "limited_s.receive-window",
        SECONDS,
    ),
    metric(
        "path-limited-scheduler",
        "Time of the path limited by the scheduler",
        Level::Path,
        "limited_s.scheduler",
        SECONDS,
    ),
    metric(
        "path-limited-pacing",
        "Time of the path limited by pacing",
        Level::Path,
        "limited_s.pacing",
        SECONDS,
    ),
    metric(
        "path-limited-congestion-avoidance",
        "Time of the path limited by the window in congestion avoidance",
        Level::Path,
        "limited_s.congestion-avoidance",
        SECONDS,
    ),
    metric(
        "path-limited-slow-start",
        "Time of the path limited by the window in slow start",
        Level::Path,
        "limited_s.slow-start",
        SECONDS,
    ),
    metric(
        "path-limited-recovery",
        "Time of the path limited by the window in recovery",
        Level::Path,
        "limited_s.recovery",
        SECONDS,
    ),
    metric(
        "path-limited-timeout",
        "Time of the path limited by timeouts",
        Level::Path,
        "limited_s.timeout",
        SECONDS,
    ),
    metric(
        "path-limited-backup",
        "Time in which the path was an unused backup",
        Level::Path,
        "limited_s.backup",
        SECONDS,
    ),
    metric(
        "path-limited-opening",
        "Time of the path limited by opening",
        Level::Path,
        "limited_s.opening",
        SECONDS,
    ),
    metric(
        "path-limited-unusable",
        "Time in which the path was unusable",
        Level::Path,
        "limited_s.unusable",
        SECONDS,
    ),
    metric("utilisation", "Utilisation", Level::Link, "utilisation", PERCENT),
    metric("queue-length", "Mean queue length", Level::Link, "occupancy.mean", PACKETS),
    metric("drops", "Drops", Level::Link, "drops", PACKETS),
    metric("host-utilisation", "Utilisation of the host", Level::Host, "utilisation", PERCENT),
    metric("host-drops", "Drops at the host", Level::Host, "drops", PACKETS),
    metric("jain", "Jain's fairness index", Level::Run, "jain", COUNT),
];

#[cfg(test)]
mod tests {
    use super::super::{Field, FlowResult, HostResult, LinkResult, PathResult, RunResult};
    use super::*;

    #[test]
    fn metrics_name_keys_of_the_document() {
        let fields = |level| match level {
            Level::Run => RunResult::FIELDS,
            Level::Flow => FlowResult::FIELDS,
            Level::Path => PathResult::FIELDS,
            Level::Link => LinkResult::FIELDS,
            Level::Host => HostResult::FIELDS,
        };
        let tables = ["mean", "max", "p50", "p95", "p99"];
        let causes = |key| matches!(key, "limited_s" | "missed_bytes");
        for metric in METRICS {
            let (key, below) = metric.field.split_once('.').unwrap_or((metric.field, "mean"));
            let has = |field: &Field| field.name == key;
            assert!(fields(metric.level).iter().any(has), "{}: no key {key}", metric.name);
            assert!(causes(key) || tables.contains(&below), "{}: no part contains {below}", metric.name);
        }
    }

    #[test]
    fn names_are_unique() {
        for (at, metric) in METRICS.iter().enumerate() {
            assert!(METRICS[..at].iter().all(|other| other.name != metric.name), "{} twice", metric.name);
        }
    }
}
