//! State and counters of connections.

use anabranch_base::time::Duration;
use anabranch_endpoint::{PathReport, Report};
use anabranch_host::ConnectionId;
use serde_json::{Value, json};

/// A connection of a stack and its state.
#[derive(Clone, Debug)]
pub struct ConnectionReport {
    /// The connection.
    pub id: ConnectionId,
    /// State and counters.
    pub report: Report,
}

impl ConnectionReport {
    /// The fields for programs; docs/reference/endpoint.md lists them.
    pub fn to_json(&self) -> Value {
        let report = &self.report;
        json!({
            "written_bytes": report.written,
            "acknowledged_bytes": report.written - report.send_buffer,
            "delivered_bytes": report.delivered,
            "fallback": report.fallback,
            "paths": report.paths.iter().map(path).collect::<Vec<_>>(),
        })
    }
}

fn path(path: &PathReport) -> Value {
    let counters = path.counters;
    json!({
        "id": path.id.0,
        "local": path.local.to_string(),
        "remote": path.remote.to_string(),
        "usable": path.usable,
        "backup": path.backup,
        "cwnd_bytes": path.cwnd,
        "outstanding_bytes": path.outstanding,
        "srtt_s": path.srtt.map(Duration::as_secs_f64),
        "sent_bytes": counters.bytes_sent,
        "received_bytes": counters.bytes_received,
        "retransmissions": counters.fast_retransmissions + counters.timeout_retransmissions,
        "timeouts": counters.timeouts,
    })
}
