//! Length of the `DATA_ACK`, and its place before the FIN.

use super::tests::{A, B, Setup, tcp};
use anabranch_endpoint::endpoint::{Endpoint, Write};
use anabranch_testkit::harness::Wire;
use anabranch_wire::tcp::Flags;
use anabranch_wire::tcp::mptcp::{DataNumber, Dss};

#[test]
fn data_with_the_keys_gets_a_long_data_ack() {
    let mut pair = Setup::disjoint().pair(Wire::new(10), Wire::new(20));
    pair.run_until(0.1);
    pair.ends[0].write(pair.now, Write::bytes(100));
    pair.run_until(0.2);
    let acks = pair.sent(1, |packet| tcp(packet).options.mptcp.dss.and_then(|dss| dss.data_ack));
    assert!(matches!(acks.back(), Some(DataNumber::Long(_))), "{acks:?}");
    assert!(acks.iter().all(|ack| matches!(ack, DataNumber::Long(_)) || *ack == acks[0]), "{acks:?}");
}

#[test]
fn end_of_the_peer_is_acknowledged_before_the_fin() {
    for closes_first in [0, 1] {
        let mut pair = Setup::disjoint().pair(Wire::new(10), Wire::new(20));
        pair.run_until(0.1);
        pair.ends[0].write(pair.now, Write::bytes(100_000));
        pair.run_until(1.0);
        pair.ends[closes_first].close(pair.now);
        pair.run_until(1.2);
        pair.ends[1 - closes_first].close(pair.now);
        pair.run_until(2.0);
        // The end that closes first receives the DATA_FIN last, on one subflow.
        let closing = pair.sent(closes_first, |packet| {
            let Dss { data_ack, mapping, .. } = tcp(packet).options.mptcp.dss?;
            let fin = tcp(packet).flags.contains(Flags::FIN);
            (mapping.is_none() && !packet.has_data()).then_some((packet.source, fin, data_ack))
        });
        let end = closing.iter().position(|&(_, fin, _)| fin).expect("a FIN");
        let (before, ends) = (closing[end - 1], closing.iter().skip(end));
        assert!(!before.1, "{closing:?}");
        assert!(ends.clone().count() >= 2 && ends.clone().all(|(_, _, ack)| *ack == before.2), "{closing:?}");
        assert!(A.contains(&before.0) || B.contains(&before.0));
    }
}
