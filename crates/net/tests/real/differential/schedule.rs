//! Random schedules of two applications and of the network between them.

use anabranch_base::rng::Rng;
use std::ops::Range;
use std::time::Duration;

/// A step of an application that writes.
#[derive(Clone, Debug)]
pub enum Step {
    /// Writes this number of bytes.
    Write(usize),
    /// Waits.
    Pause(Duration),
}

/// The program of one end. It reads at the same time.
#[derive(Clone, Debug)]
pub struct Script {
    /// Steps of the writing part.
    pub steps: Vec<Step>,
    /// The reading part rests when it has read this number of bytes.
    pub rest_after: u64,
    /// The length of that rest.
    pub rest: Duration,
}

impl Script {
    fn random(rng: &mut Rng) -> Self {
        let mut steps = Vec::new();
        for _ in 0..rng.next_u64() % 6 {
            // Most writes are small; some fill several windows.
            let largest = if rng.unit() < 0.3 { 200_000 } else { 3000 };
            steps.push(Step::Write(1 + (rng.next_u64() % largest) as usize));
            if rng.unit() < 0.5 {
                steps.push(Step::Pause(Duration::from_millis(rng.next_u64() % 60)));
            }
        }
        let rest = Duration::from_millis(rng.next_u64() % 120);
        Self { steps, rest_after: rng.next_u64() % 100_000, rest }
    }

    /// Number of bytes that this application writes.
    pub fn bytes(&self) -> u64 {
        let bytes = |step: &Step| if let Step::Write(bytes) = step { *bytes as u64 } else { 0 };
        self.steps.iter().map(bytes).sum()
    }
}

/// A schedule.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// The programs of the connecting and of the accepting end.
    pub scripts: [Script; 2],
    /// The end that aborts the connection when both have read everything; `None`: each ends its stream after its last step.
    pub aborts: Option<usize>,
    /// Share of lost packets.
    pub loss: f64,
    /// For each path, a time after the start in which it loses all packets.
    pub outages: [Range<Duration>; 2],
}

impl Schedule {
    /// The schedule with this number.
    pub fn random(number: u64) -> Self {
        let mut rng = Rng::new(number).fork("schedule");
        let scripts = [(); 2].map(|()| Script::random(&mut rng));
        let aborts = (rng.unit() < 0.3).then(|| usize::from(rng.unit() < 0.5));
        let loss = if rng.unit() < 0.5 { 0.03 * rng.unit() } else { 0.0 };
        let outages = [(); 2].map(|()| {
            let start = Duration::from_millis(20 + rng.next_u64() % 200);
            let len = if rng.unit() < 0.3 { rng.next_u64() % 300 } else { 0 };
            start..start + Duration::from_millis(len)
        });
        Self { scripts, aborts, loss, outages }
    }
}

/// Byte `at` of the stream of an end.
pub const fn byte(end: usize, at: u64) -> u8 {
    (at % 251) as u8 ^ (at / 251 % 253) as u8 ^ end as u8
}
