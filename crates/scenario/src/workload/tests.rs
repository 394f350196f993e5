use super::timing::Interval;
use super::*;
use crate::model::{Arrivals, Bursts, Distribution, MessageSize, Recording, SizeList};
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

const fn file(message: Option<MessageSize>) -> Workload {
    Workload::File { size: MessageSize::Constant(2500), message, arrivals: None }
}

#[test]
fn file_workload_ends() {
    let mut app = application(&file(Some(MessageSize::Constant(1000))), Time::MAX);
    let sizes: Vec<u64> = writes(&mut app, ms(1)).0.iter().map(|w| w.1).collect();
    assert_eq!(sizes, [1000, 1000, 500]);
    let mut whole = application(&file(None), Time::MAX);
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

/// Bursts and silences of constant lengths, milliseconds.
const fn constant(on: u64, off: u64) -> Bursts {
    let (on, off) = (Duration::from_millis(on), Duration::from_millis(off));
    Bursts::Drawn { on, off, distribution: Distribution::Constant }
}

/// Writes of 1000 bytes at 8 Mbit/s within periods, and whether the application has closed.
fn writes_in(periods: &[[u64; 2]], start: u64) -> (Vec<Time>, bool) {
    let bursts = Bursts::Periods(periods.iter().map(|period| period.map(ms)).collect());
    let rate = Some(Rate::from_bits_per_second(8_000_000));
    let workload = Workload::OnOff { bursts, rate, message: MessageSize::Constant(1000) };
    let mut app = Application::new(&workload, [ms(start), Time::MAX], None, &Rng::new(4));
    let (log, closed) = writes(&mut app, ms(100));
    (log.into_iter().map(|write| write.0).collect(), closed)
}

#[test]
fn periods_have_writes_at_their_times() {
    let periods = [[1, 3], [5, 6], [6, 7]];
    assert_eq!(writes_in(&periods, 0), (vec![ms(1), ms(2), ms(5), ms(6)], true));
    assert_eq!(writes_in(&periods, 2), (vec![ms(2), ms(5), ms(6)], true), "cut at the start");
    assert_eq!(writes_in(&periods, 8), (vec![], true), "all before the start");
    let bursts = Bursts::Periods([[ms(1), ms(3)]].into());
    let saturated = Workload::OnOff { bursts, rate: None, message: MessageSize::Constant(9) };
    let mut app = application(&saturated, Time::MAX);
    assert_eq!((app.poll(ms(0)), app.wake()), (Step::Idle, ms(1)));
    assert!(matches!(app.poll(ms(1)), Step::Write { len: 9, .. }));
    app.accepted(9);
    assert_eq!(app.poll(ms(3)), Step::Close);
}

#[test]
fn million_pareto_lengths_have_the_quantiles() {
    for shape in [1.1, 1.5, 2.0] {
        let (mean_s, rng) = (2.0, Rng::new(8));
        let distribution = Distribution::Pareto { shape };
        let mut interval = Interval::new(Duration::from_secs_f64(mean_s), distribution, rng);
        let mut drawn: Vec<f64> = (0..1_000_000).map(|_| interval.draw().as_secs_f64()).collect();
        drawn.sort_unstable_by(f64::total_cmp);
        let min = mean_s * (shape - 1.0) / shape;
        assert!((drawn[0] / min - 1.0).abs() < 0.01, "{shape}: the minimum is {}", drawn[0]);
        for q in [0.1, 0.5, 0.9, 0.99_f64] {
            let expected = min * (1.0 - q).powf(-1.0 / shape);
            let found = drawn[(q * 1e6) as usize];
            assert!((found / expected - 1.0).abs() < 0.01, "{shape}, {q}: {found} for {expected}");
        }
    }
}

#[test]
fn on_off_workload_alternates() {
    let bursts = constant(2, 3);
    let workload = Workload::OnOff {
        bursts: bursts.clone(),
        rate: Some(Rate::from_bits_per_second(8_000_000)),
        message: MessageSize::Constant(1000),
    };
    let born: Vec<Time> =
        writes(&mut application(&workload, Time::MAX), ms(11)).0.iter().map(|w| w.0).collect();
    assert_eq!(born, [ms(0), ms(1), ms(5), ms(6), ms(10), ms(11)]);
    let saturated = Workload::OnOff { bursts, rate: None, message: MessageSize::Constant(1000) };
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
        bursts: constant(on, off),
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

/// The mean of a million draws, relative to the expected one.
fn relative_mean(mut draw: impl FnMut() -> f64, expected: f64) -> f64 {
    (0..1_000_000).map(|_| draw()).sum::<f64>() / 1e6 / expected
}

#[test]
fn million_draws_have_the_mean() {
    let sizes = |distribution| Sizes::new(distribution, Rng::new(5));
    let mut uniform = sizes(MessageSize::Uniform { low: 500, high: 1500 });
    let mut exponential = sizes(MessageSize::Exponential { mean: 100_000.0 });
    let every = |exponential| Arrivals {
        mean_interval: Duration::from_millis(50),
        exponential,
        count: None,
        max_open: 1,
    };
    let between = |exponential| {
        let mut arrivals = ArrivalProcess::new(
            &every(exponential),
            MessageSize::Constant(1),
            [Time::ZERO, Time::MAX],
            &Rng::new(6),
        );
        move || {
            let before = arrivals.due();
            arrivals.draw();
            arrivals.due().since(before).as_secs_f64()
        }
    };
    for (mean, what) in [
        (relative_mean(|| uniform.draw() as f64, 1000.0), "uniform sizes"),
        (relative_mean(|| exponential.draw() as f64, 100_000.0), "exponential sizes"),
        (relative_mean(between(false), 0.05), "constant intervals"),
        (relative_mean(between(true), 0.05), "exponential intervals"),
    ] {
        assert!((mean - 1.0).abs() < 0.01, "{what}: {mean}");
    }
}

#[test]
fn million_pareto_sizes_have_the_quantiles() {
    let (min, shape, max) = (10_000_u64, 1.2, 100_000_000_u64);
    let mut sizes = Sizes::new(MessageSize::Pareto { min, shape, max }, Rng::new(7));
    let mut drawn: Vec<u64> = (0..1_000_000).map(|_| sizes.draw()).collect();
    drawn.sort_unstable();
    // The inverse of F(x) = (1 - (min/x)^a) / (1 - (min/max)^a).
    let within = 1.0 - (min as f64 / max as f64).powf(shape);
    for q in [0.1, 0.5, 0.9, 0.99] {
        let expected = min as f64 * (1.0 - q * within).powf(-1.0 / shape);
        let found = drawn[(q * 1e6) as usize] as f64;
        assert!((found / expected - 1.0).abs() < 0.01, "{q}: {found} for {expected}");
    }
}

#[test]
fn arrivals_have_count_and_end() {
    let arrivals = Arrivals {
        mean_interval: Duration::from_millis(10),
        exponential: false,
        count: Some(3),
        max_open: 1,
    };
    let times = |stop| {
        let mut all = ArrivalProcess::new(&arrivals, MessageSize::Constant(5), [ms(20), stop], &Rng::new(1));
        let next = || (all.due() < Time::MAX).then(|| (all.due(), all.draw()));
        core::iter::from_fn(next).collect::<Vec<_>>()
    };
    assert_eq!(times(Time::MAX), [(ms(20), 5), (ms(30), 5), (ms(40), 5)]);
    assert_eq!(times(ms(40)), [(ms(20), 5), (ms(30), 5)], "none at the stop");
}

#[test]
fn listed_sizes_are_used_in_turn() {
    let list = SizeList { file: "sizes.csv".into(), sizes: vec![30, 10, 20] };
    let mut sizes = Sizes::new(MessageSize::Listed(list.into()), Rng::new(1));
    let drawn: Vec<u64> = (0..7).map(|_| sizes.draw()).collect();
    assert_eq!(drawn, [30, 10, 20, 30, 10, 20, 30]);
}

#[test]
fn recording_has_its_times_and_ends() {
    let messages = [(0, 160), (20, 7), (20, 9)].map(|(at, bytes)| (Duration::from_millis(at), bytes));
    let recording = Recording { file: "messages.csv".into(), messages: messages.into() };
    let workload = Workload::Recorded(recording.into());
    let mut app = Application::new(&workload, [ms(5), Time::MAX], None, &Rng::new(1));
    assert_eq!(writes(&mut app, ms(100)), (vec![(ms(5), 160), (ms(25), 7), (ms(25), 9)], true));
    assert!(app.completed());
    let mut stopped = Application::new(&workload, [ms(5), ms(25)], None, &Rng::new(1));
    assert_eq!(writes(&mut stopped, ms(100)), (vec![(ms(5), 160)], true));
}
