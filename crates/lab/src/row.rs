//! The values of a sample that charts show, as numbers in one row, since JSON of a sample takes longer than the
//! simulation between two samples.

use anabranch_sim::report::sample::{DirectionSample, PathSample, Sample};

/// The row of a sample. It begins with its own length and the time in nanoseconds. Each flow follows with its
/// delivered bytes, its out-of-order bytes, its number of paths and the paths, then each link with its two
/// directions. An absent value is NaN.
pub(crate) fn of(sample: &Sample) -> Vec<f64> {
    let mut row = vec![0.0, sample.now_ns as f64];
    for flow in &sample.flows {
        row.extend(
            [flow.delivered_bytes, flow.reordering_buffer_bytes, flow.paths.len() as u64].map(|n| n as f64),
        );
        row.extend(flow.paths.iter().flat_map(path));
    }
    row.extend(sample.links.iter().flat_map(|link| [&link.forward, &link.reverse]).flat_map(direction));
    row[0] = row.len() as f64;
    row
}

fn path(path: &PathSample) -> [f64; 7] {
    [
        path.cwnd_bytes as f64,
        path.ssthresh_bytes.map_or(f64::NAN, |bytes| bytes as f64),
        path.srtt_s.unwrap_or(f64::NAN),
        path.in_flight_bytes as f64,
        path.delivered_bytes as f64,
        path.retransmissions as f64,
        f64::from(u8::from(path.usable)),
    ]
}

fn direction(direction: &DirectionSample) -> [f64; 4] {
    let drops: u64 = direction.drops.values().sum();
    [direction.queue_packets, direction.queue_bytes, drops, direction.sent_bytes].map(|count| count as f64)
}
