//! Samples computed by hand: packets of 1,000 bytes, times in milliseconds.

use super::*;

const PATH: PathId = PathId(3);
const BYTES: u64 = 1_000;

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn bits(sample: &RateSample) -> u64 {
    sample.rate.map_or(0, Rate::bits_per_second)
}

/// A path and its bytes in flight.
#[derive(Default)]
struct Line {
    estimator: DeliveryRate,
    in_flight: u64,
}

impl Line {
    /// Sends a packet at a time in milliseconds.
    fn send(&mut self, when: u64) -> Snapshot {
        self.in_flight += BYTES;
        self.estimator.sent(at(when), BYTES, self.in_flight, false)
    }

    /// Retransmits a packet at a time in milliseconds.
    fn resend(&mut self, when: u64) -> Snapshot {
        self.in_flight += BYTES;
        self.estimator.sent(at(when), BYTES, self.in_flight, true)
    }

    /// Marks a packet as lost at a time in milliseconds.
    fn lose(&mut self, when: u64, packet: &Snapshot) -> LostPacket {
        self.in_flight -= BYTES;
        self.estimator.lost((at(when), PATH), packet, BYTES)
    }

    /// Acknowledges packets at a time in milliseconds.
    fn ack(&mut self, when: u64, packets: &[Snapshot]) -> RateSample {
        for packet in packets {
            self.in_flight -= BYTES;
            self.estimator.delivered(at(when), packet, BYTES);
        }
        self.estimator.sample((at(when), PATH), self.in_flight, false).expect("something was delivered")
    }
}

#[test]
fn rate_is_delivery_during_a_round_trip() {
    // The path sends one packet every 10 ms, with a round-trip time of 50 ms.
    let mut line = Line::default();
    let packets: Vec<_> = (0..6).map(|i| line.send(10 * i)).collect();
    for (i, packet) in packets.iter().enumerate().take(5) {
        line.ack(50 + 10 * i as u64, &[*packet]);
    }
    // The sixth packet leaves at 50 ms, in this test before the acknowledgement of the first. At 100 ms all six are
    // delivered, 100 ms after the flight began.
    let sample = line.ack(100, &[packets[5]]);
    assert_eq!((sample.delivered, sample.prior_delivered, sample.total_delivered), (6_000, 0, 6_000));
    assert_eq!((sample.send_elapsed, sample.ack_elapsed), (ms(50), ms(100)));
    assert_eq!(bits(&sample), 480_000);
    assert_eq!((sample.rtt, sample.tx_in_flight, sample.in_flight), (Some(ms(50)), 6_000, 0));
}

#[test]
fn steady_sample_is_the_bottleneck_rate() {
    // A packet every 10 ms, each acknowledged after 50 ms, with five in flight.
    let mut line = Line::default();
    let mut flying: std::collections::VecDeque<_> = (0..5).map(|i| line.send(10 * i)).collect();
    let mut last = None;
    for step in 0..20 {
        let now = 50 + 10 * step;
        let packet = flying.pop_front().expect("five are in flight");
        last = Some(line.ack(now, &[packet]));
        flying.push_back(line.send(now));
    }
    // Five packets are delivered between a transmission and its acknowledgement, 50 ms later.
    let sample = last.expect("twenty acknowledgements");
    assert_eq!((sample.delivered, sample.ack_elapsed, bits(&sample)), (5_000, ms(50), 800_000));
}

#[test]
fn send_interval_limits_aggregated_acknowledgements() {
    // Ten packets leave over 90 ms; the first nine acknowledgements arrive 50 ms after their packets. Then the last
    // four of the next ten arrive at once.
    let mut line = Line::default();
    let first: Vec<_> = (0..5).map(|i| line.send(10 * i)).collect();
    let mut second = Vec::new();
    for (i, packet) in first.iter().enumerate() {
        let now = 50 + 10 * i as u64;
        line.ack(now, &[*packet]);
        second.push(line.send(now));
    }
    // The five packets of the second round would be acknowledged at 100, 110, … 140. They are held until 140
    // and arrive together. The newest one left at 90; 5,000 bytes have been delivered since.
    let sample = line.ack(140, &second);
    assert_eq!((sample.delivered, sample.newly_acked), (5_000, 5_000));
    // The newest packet left 10 ms after the delivery before it; the acknowledgements took 50 ms.
    assert_eq!((sample.send_elapsed, sample.ack_elapsed), (ms(50), ms(50)));
    assert_eq!(bits(&sample), 800_000);
}

#[test]
fn sending_rate_limits_sample_after_idle_time() {
    let mut line = Line::default();
    // Four packets leave 10 ms apart, all acknowledged at 80. The newest has a round trip of 50.
    let packets: Vec<_> = (0..4).map(|i| line.send(10 * i)).collect();
    let sample = line.ack(80, &packets);
    assert_eq!((sample.send_elapsed, sample.ack_elapsed), (ms(30), ms(80)));
    assert_eq!(bits(&sample), 4_000 * 8 * 1_000 / 80);
    // Four more leave over 60 ms from 80 on, and are acknowledged at 150, 10 ms after the last one left: the
    // acknowledgements alone would indicate 4,000 bytes in 70 ms.
    let packets: Vec<_> = (0..4).map(|i| line.send(80 + 20 * i)).collect();
    line.ack(145, &packets[..3]);
    let sample = line.ack(150, &packets[3..]);
    // The send interval begins with the transmission of the packet that was delivered last before: the first
    // of the flight, at 80, since no packet of this flight had been delivered when it left.
    assert_eq!((sample.send_elapsed, sample.ack_elapsed), (ms(60), ms(70)));
    assert_eq!(
        (sample.rtt, sample.rate),
        (Some(ms(10)), Some(Rate::from_bits_per_second(4_000 * 8_000 / 70)))
    );
}

#[test]
fn slow_sending_limits_the_sample() {
    // A network that holds packets back and then releases all at once.
    let mut line = Line::default();
    let a = line.send(0);
    line.ack(10, &[a]);
    let b = line.send(10);
    let c = line.send(60);
    line.ack(62, &[b]);
    let sample = line.ack(70, &[c]);
    // b left at 10 with nothing in flight: the flight begins there. c left 50 ms after it.
    assert_eq!((sample.delivered, sample.send_elapsed, sample.ack_elapsed), (2_000, ms(50), ms(60)));
    assert_eq!(bits(&sample), 2_000 * 8_000 / 60);
}

#[test]
fn samples_are_app_limited_until_bubble_is_gone() {
    let mut line = Line::default();
    let a = line.send(0);
    assert!(!line.estimator.is_app_limited());
    line.estimator.set_app_limited(line.in_flight); // until 1,000 bytes are delivered
    let b = line.send(5);
    assert!(!line.ack(50, &[a]).app_limited, "the packet left before the application ran out of data");
    assert!(
        line.estimator.is_app_limited(),
        "all data before the application-limited phase is delivered, and none after it"
    );
    let c = line.send(51);
    assert!(line.ack(55, &[b]).app_limited);
    assert!(!line.estimator.is_app_limited());
    let d = line.send(56);
    assert!(line.ack(101, &[c]).app_limited, "the packet left in the application-limited phase");
    assert!(!line.ack(106, &[d]).app_limited);
}

#[test]
fn empty_path_can_be_application_limited() {
    let mut estimator = DeliveryRate::new();
    estimator.set_app_limited(0);
    assert!(estimator.is_app_limited());
    assert!(estimator.sample((at(1), PATH), 0, false).is_none());
}

#[test]
fn ambiguous_retransmission_gives_no_rate_or_rtt() {
    let mut line = Line::default();
    let a = line.send(0);
    let b = line.send(1);
    line.ack(50, &[a]);
    line.lose(55, &b);
    let again = line.resend(55);
    // The acknowledgement of the original, 5 ms later.
    let sample = line.ack(60, &[again]);
    assert_eq!((sample.rtt, sample.delivered), (None, 1_000));
    // Nothing else was in flight at 55: the flight begins there, and 5 ms are less than the smallest round-trip time.
    assert_eq!((sample.ack_elapsed, sample.rate), (ms(5), None));
}

#[test]
fn losses_count_from_the_packet_transmission() {
    let mut line = Line::default();
    let packets: Vec<_> = (0..5).map(|i| line.send(i)).collect();
    let lost = line.lose(50, &packets[0]);
    assert_eq!((lost.bytes, lost.lost, lost.tx_in_flight), (1_000, 1_000, 1_000));
    let again = line.resend(50); // 5,000 in flight with it
    let lost = line.lose(51, &packets[1]);
    assert_eq!((lost.lost, lost.tx_in_flight, lost.total_delivered), (2_000, 2_000, 0));
    let sample = line.ack(52, &[packets[4]]);
    assert_eq!((sample.lost, sample.newly_lost, sample.tx_in_flight), (2_000, 2_000, 5_000));
    let sample = line.ack(100, &[again]);
    // One packet was lost after the retransmission had been sent.
    assert_eq!((sample.lost, sample.newly_lost, sample.tx_in_flight), (1_000, 0, 5_000));
}

#[test]
fn newest_packet_determines_the_sample() {
    let mut line = Line::default();
    let (a, b) = (line.send(0), line.send(7));
    let sample = line.ack(57, &[b, a]);
    assert_eq!((sample.rtt, sample.tx_in_flight, sample.delivered), (Some(ms(50)), 2_000, 2_000));
}
