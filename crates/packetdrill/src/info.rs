//! `TCP_INFO` as bytes (`struct tcp_info` of `linux/tcp.h`).

use crate::machine::Machine;
use anabranch_base::time::Duration;
use anabranch_endpoint::{PathReport, Report};
use anabranch_host::{ConnectionId, Core};
use anabranch_tcp::tcp::{LossState, Tcb};

/// Length of the structure in a recent kernel, or more.
const LEN: usize = 320;
/// Value of `ssthresh` before the first loss.
const INFINITE_SSTHRESH: u64 = 0x7fff_ffff;
/// `tcpi_state` of a connection that exchanges data.
const ESTABLISHED: u8 = 1;
/// `tcpi_state` of a connection that has ended.
const CLOSED: u8 = 7;

impl Machine {
    /// The state of a connection as Linux reports it. Fields that the stack does not have are zero.
    pub(crate) fn info(&self, id: ConnectionId) -> Vec<u8> {
        let mut out = vec![0; LEN];
        let Some(endpoint) = self.host.endpoint(id) else {
            out[0] = CLOSED;
            return out;
        };
        let report = endpoint.report();
        out[0] = ESTABLISHED;
        if let Some(path) = report.paths.first() {
            fill(&mut out, &report, path);
        }
        if let Some(Core::Tcp(connection)) = self.host.core(id) {
            fill_recovery(&mut out, connection.block());
        }
        out
    }
}

/// State of loss recovery, and segments outstanding, acknowledged selectively, lost and retransmitted.
fn fill_recovery(out: &mut [u8], block: &Tcb) {
    out[1] = match block.loss_state() {
        LossState::Open => 0,
        LossState::Disorder => 1,
        LossState::Recovery => 3,
        LossState::Loss => 4,
    };
    let mss = u64::from(block.mss().max(1));
    let (lost, repeated) = block.lost_and_retransmitted();
    let sent = block.sent() - block.acknowledged();
    for (at, bytes) in [(24, sent), (28, block.sacked_bytes()), (32, lost), (36, repeated)] {
        out[at..at + 4].copy_from_slice(&(bytes.div_ceil(mss) as u32).to_ne_bytes());
    }
}

fn fill(out: &mut [u8], report: &Report, path: &PathReport) {
    let mut put = |at: usize, value: u64| {
        out[at..at + 4].copy_from_slice(&(value.min(u64::from(u32::MAX)) as u32).to_ne_bytes());
    };
    let micros = |span: Option<Duration>| span.map_or(0, |span| span.as_nanos() / 1_000);
    let mss = u64::from(path.mss.max(1));
    let counters = &path.counters;
    put(8, micros(Some(path.rto)));
    put(16, mss);
    put(24, path.outstanding.div_ceil(mss));
    put(68, micros(path.srtt));
    put(76, if path.ssthresh == u64::MAX { INFINITE_SSTHRESH } else { path.ssthresh / mss });
    put(80, path.cwnd / mss);
    put(84, mss);
    put(88, 3);
    put(100, counters.fast_retransmissions + counters.timeout_retransmissions);
    put(136, counters.packets_sent);
    put(144, report.send_buffer.saturating_sub(path.outstanding));
    put(148, micros(path.srtt_min));
    put(156, counters.data_packets_sent);
}
