//! Length of the `DATA_ACK`.

use super::tests::{Setup, tcp};
use anabranch_endpoint::endpoint::{Endpoint, Write};
use anabranch_testkit::harness::Wire;
use anabranch_wire::tcp::mptcp::DataNumber;

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
