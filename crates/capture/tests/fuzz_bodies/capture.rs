//! Body of the fuzz target for capture files: reading ends without a panic, and related counts agree.

use anabranch_capture::read_bytes;

/// Reads a capture. A report is consistent; an error is one sentence.
pub fn capture(data: &[u8]) {
    match read_bytes("capture", data.to_owned()) {
        Ok(report) => {
            assert!(report.packets > 0 && report.duration_s >= 0.0);
            for connection in &report.connections {
                assert!(!connection.subflows.is_empty());
                for direction in connection.subflows.iter().flat_map(|subflow| &subflow.directions) {
                    assert!(direction.data_packets <= direction.packets);
                    assert!(direction.retransmitted_bytes <= direction.bytes);
                }
            }
        }
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
}
