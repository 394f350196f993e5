//! The defaults of scenarios are those of the protocols.

use anabranch_sim::scenario::model::{Buffer, Common, Tcp};

#[test]
fn model_defaults_equal_tcp_defaults() {
    let config = anabranch_tcp::tcp::Config::default();
    let (common, tcp) = (Common::default(), Tcp::default());
    assert_eq!(common.send_buffer, Buffer::Bytes(config.send_buffer));
    assert_eq!(common.receive_buffer, Buffer::Bytes(config.receive_buffer));
    assert_eq!(common.rto_initial, config.rto.initial);
    assert_eq!(common.rto_min, config.rto.min);
    assert_eq!(common.rto_max, config.rto.max);
    assert_eq!(common.ecn, config.ecn);
    assert_eq!(tcp.delayed_ack, config.delayed_ack);
    assert_eq!(tcp.initial_window, config.initial_window);
    assert_eq!(tcp.abc_limit, config.abc_limit);
    assert_eq!(tcp.ssthresh_floor, config.ssthresh_floor);
    assert_eq!(tcp.whole_packets, config.whole_packets);
    assert_eq!(tcp.recovery, config.recovery);
    assert_eq!(tcp.timestamps, config.timestamps);
    assert_eq!(tcp.nagle, config.nagle);
    assert_eq!((tcp.keepalive, tcp.user_timeout), (config.keepalive, config.user_timeout));
}
