use super::*;
use crate::model::MessageSize;
use anabranch_base::time::Duration;
use anabranch_base::units::Rate;
use anabranch_settings::policy::Reliability;

fn ms(millis: u64) -> Time {
    Time::ZERO + Duration::from_millis(millis)
}

fn application(workload: &Workload, stop: Time) -> Application {
    Application::new(workload, [Time::ZERO, stop], None, &Rng::new(4))
}

/// Runs an application over a transport that accepts everything at once; returns its writes until `until`.
fn writes(app: &mut Application, until: Time) -> (Vec<(Time, u64)>, bool) {
    let (mut log, mut closed, mut now) = (Vec::new(), false, Time::ZERO);
    while now <= until {
        match app.poll(now) {
            Step::Write { len, born } => {
                assert!(born <= now);
                app.accepted(len);
                log.push((born, len));
            }
            Step::Close => closed = true,
            Step::Idle if app.wake() == Time::MAX => break,
            Step::Idle => {
                assert!(app.wake() > now);
                now = app.wake();
            }
        }
    }
    (log, closed)
}

#[test]
fn rate_gives_times_computed_by_hand() {
    let rate = Rate::from_bits_per_second(8_000_000);
    let mut app = application(&Workload::Rate { rate, message: MessageSize::Constant(1000) }, ms(3));
    assert_eq!(writes(&mut app, ms(10)), (vec![(ms(0), 1000), (ms(1), 1000), (ms(2), 1000)], true));
}

#[test]
fn unaccepted_message_is_sent_later_with_its_age() {
    let rate = Rate::from_bits_per_second(8_000_000);
    let mut app = application(&Workload::Rate { rate, message: MessageSize::Constant(1000) }, Time::MAX);
    assert_eq!(app.poll(ms(0)), Step::Write { len: 1000, born: ms(0) });
    app.accepted(400);
    assert_eq!(app.poll(ms(5)), Step::Write { len: 600, born: ms(0) });
    app.accepted(600);
    assert_eq!(app.poll(ms(5)), Step::Write { len: 1000, born: ms(1) });
}

#[test]
fn file_workload_ends() {
    let mut app =
        application(&Workload::File { size: 2500, message: Some(MessageSize::Constant(1000)) }, Time::MAX);
    let sizes: Vec<u64> = writes(&mut app, ms(1)).0.iter().map(|w| w.1).collect();
    assert_eq!(sizes, [1000, 1000, 500]);
    let mut whole = application(&Workload::File { size: 2500, message: None }, Time::MAX);
    assert_eq!(writes(&mut whole, ms(1)), (vec![(ms(0), 2500)], true));
    assert!(whole.is_closed());
}

#[test]
fn saturated_workload_stops_at_its_time() {
    let mut app = application(&Workload::Saturated { message: None }, ms(7));
    assert!(matches!(app.poll(ms(0)), Step::Write { len, .. } if len > 1 << 60));
    app.accepted(5000);
    assert_eq!(app.wake(), ms(7));
    assert_eq!(app.poll(ms(7)), Step::Close);
    assert_eq!(app.poll(ms(8)), Step::Idle);
}

#[test]
fn on_off_workload_alternates() {
    let workload = Workload::OnOff {
        on: Duration::from_millis(2),
        off: Duration::from_millis(3),
        exponential: false,
        rate: Some(Rate::from_bits_per_second(8_000_000)),
        message: MessageSize::Constant(1000),
    };
    let born: Vec<Time> =
        writes(&mut application(&workload, Time::MAX), ms(11)).0.iter().map(|w| w.0).collect();
    assert_eq!(born, [ms(0), ms(1), ms(5), ms(6), ms(10), ms(11)]);
    let Workload::OnOff { on, off, exponential, message, .. } = workload else { unreachable!() };
    let saturated = Workload::OnOff { on, off, exponential, rate: None, message };
    let mut app = application(&saturated, Time::MAX);
    assert!(matches!(app.poll(ms(1)), Step::Write { .. }));
    app.accepted(1000);
    assert_eq!(app.poll(ms(2)), Step::Idle);
    assert_eq!(app.wake(), ms(5));
    assert!(matches!(app.poll(ms(13)), Step::Idle), "13 ms lies in the third silence");
    assert_eq!(app.wake(), ms(15));
}

/// Bytes per second of a workload with bursts of constant lengths, over 100 s.
fn offered(on: u64, off: u64, rate: u64, len: u64) -> f64 {
    let workload = Workload::OnOff {
        on: Duration::from_millis(on),
        off: Duration::from_millis(off),
        exponential: false,
        rate: Some(Rate::from_bits_per_second(rate)),
        message: MessageSize::Constant(len),
    };
    let log = writes(&mut application(&workload, Time::MAX), ms(100_000)).0;
    log.iter().map(|write| write.1 as f64).sum::<f64>() / 100.0
}

#[test]
fn bursts_offer_their_share_of_the_rate() {
    // Half the time at 10 Mbit/s, where a message takes 1.16 ms; a tenth of it at 1 Mbit/s, where one takes 11.6 ms.
    for (offered, expected) in
        [(offered(10, 10, 10_000_000, 1452), 625_000.0), (offered(1, 9, 1_000_000, 1452), 12_500.0)]
    {
        assert!((offered / expected - 1.0).abs() < 0.002, "{offered} for {expected}");
    }
}

#[test]
fn message_workload_has_count_and_intervals() {
    let workload = |exponential| Workload::Messages {
        message: MessageSize::Uniform { low: 10, high: 20 },
        interval: Duration::from_millis(10),
        exponential,
        count: Some(2000),
        reliability: Reliability::Full,
    };
    let (log, closed) = writes(&mut application(&workload(true), Time::MAX), Time::MAX);
    assert!(closed && log.len() == 2000 && log.iter().all(|w| (10..=20).contains(&w.1)));
    let mean = log.last().unwrap().0.as_secs_f64() / 1999.0;
    assert!((mean - 0.01).abs() < 0.001, "{mean}");
    let (log, _) = writes(&mut application(&workload(false), Time::MAX), Time::MAX);
    assert_eq!(log.last().unwrap().0, ms(19_990));
}

#[test]
fn sizes_have_their_means() {
    let mean = |distribution| {
        let mut sizes = Sizes::new(distribution, Rng::new(2));
        (0..100_000).map(|_| sizes.draw() as f64).sum::<f64>() / 1e5
    };
    assert!((mean(MessageSize::Constant(7)) - 7.0).abs() < 1e-9);
    assert!((mean(MessageSize::Uniform { low: 500, high: 1500 }) - 1000.0).abs() < 5.0);
    assert!((mean(MessageSize::Exponential { mean: 1000.0 }) - 1000.0).abs() < 15.0);
    // Pareto with shape 3: mean = 3/2 · min; the truncation at 100·min hardly changes it.
    assert!((mean(MessageSize::Pareto { min: 1000, shape: 3.0, max: 100_000 }) - 1500.0).abs() < 25.0);
}

#[test]
fn bounded_pareto_is_truncated_not_clipped() {
    let (min, shape, max) = (1000_u64, 1.2, 10_000_u64);
    let mut sizes = Sizes::new(MessageSize::Pareto { min, shape, max }, Rng::new(2));
    let drawn: Vec<u64> = (0..200_000).map(|_| sizes.draw()).collect();
    let share = |test: &dyn Fn(u64) -> bool| drawn.iter().filter(|&&size| test(size)).count() as f64 / 2e5;
    assert!(share(&|size| size == max) < 0.001, "there is no peak at the maximum");
    // F(x) = (1 - (min/x)^a) / (1 - (min/max)^a); the mean follows by integration.
    let (low, high) = (min as f64, max as f64);
    let within = 1.0 - (low / high).powf(shape);
    let mean =
        low.powf(shape) / within * shape / (shape - 1.0) * (low.powf(1.0 - shape) - high.powf(1.0 - shape));
    let found = drawn.iter().sum::<u64>() as f64 / 2e5;
    assert!((found / mean - 1.0).abs() < 0.01, "{found} for {mean}");
    let below = (1.0 - (low / 2000.0).powf(shape)) / within;
    assert!((share(&|size| size < 2000) - below).abs() < 0.005);
}
