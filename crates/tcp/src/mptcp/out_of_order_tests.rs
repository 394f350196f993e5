//! Out-of-order data of a connection whose paths differ.

use super::tests::{A, Setup, tcp};
use anabranch_endpoint::endpoint::Endpoint;
use anabranch_testkit::harness::Wire;
use anabranch_wire::Packet;

#[test]
fn ranges_before_a_packet_are_counted() {
    let mut pair = Setup::disjoint().pair(Wire::new(5), Wire::new(200));
    pair.keep_log = true;
    // Data of the fast path waits for older data of the slow path, once the slow path has joined.
    let mut seconds = 0.5;
    while pair.ends[1].receive.ahead.count() == 0 {
        seconds += 0.05;
        assert!(!pair.send_file(3_000_000, seconds), "the file arrived before any data had to wait");
    }
    let server = &pair.ends[1];
    let data = |p: &Packet| (!tcp(p).payload.is_empty()).then(|| p.clone());
    let sent = pair.sent(0, data);
    let (first, last) = (&sent[0], sent.iter().rfind(|p| p.source == A[0]).expect("data of the fast path"));
    assert_eq!(server.entries_before(first), 0, "old data");
    assert!(server.entries_before(last) >= 1, "the newest data is behind others: {:?}", server.receive.ahead);
    let mut foreign = last.clone();
    foreign.source = [10, 9, 9, 9].into();
    assert_eq!(server.entries_before(&foreign), 0, "no subflow");
    let pure = pair.sent(0, |p| tcp(p).payload.is_empty().then(|| p.clone()));
    assert!(pure.iter().all(|p| server.entries_before(p) == 0), "no data");
}
