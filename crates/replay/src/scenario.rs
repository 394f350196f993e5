//! Recording and replay of a scenario in real time. Everything in such a run follows from the scenario, its seed and the
//! times that the clock returns, so a recording has these, and the packets to compare.

use super::difference::{Difference, Place, Sent, compare};
use super::error::ReplayError;
use super::image::Image;
use super::record::{Head, Record, Subject};
use super::stream::{Reader, Writer};
use anabranch_base::time::Time;
use anabranch_scenario::Scenario;
use anabranch_sim::{RealClock, RunError, RunOptions, Simulation};
use anabranch_wire::Packet;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, Read, Write};

/// The text of a scenario for its recording; `None` if the scenario names files of values over time, which a recording
/// cannot contain.
pub fn recordable(scenario: &Scenario) -> Option<String> {
    let text = anabranch_scenario::to_toml(scenario);
    parse(&text).is_ok_and(|parsed| parsed == *scenario).then_some(text)
}

/// The recording of a scenario's run.
pub struct ScenarioRecording(Writer);

impl ScenarioRecording {
    /// Begins a recording of a run with this seed and the [text](recordable) of a scenario.
    ///
    /// # Errors
    /// If the start of the recording cannot be written.
    pub fn new(out: Box<dyn Write + Send>, seed: u64, text: String) -> io::Result<Self> {
        let head = Head::of(Subject::Scenario { seed, text });
        Writer::new(out, &head).map(Self)
    }
}

/// A clock whose readings are recorded, if that is wanted, with the packets that hosts send after each.
pub struct RecordedClock<C> {
    clock: C,
    writer: RefCell<Option<Writer>>,
}

impl<C: RealClock> RecordedClock<C> {
    /// A clock and its recording.
    pub fn new(clock: C, recording: Option<ScenarioRecording>) -> Self {
        Self { clock, writer: RefCell::new(recording.map(|recording| recording.0)) }
    }

    /// Ends the recording, if there is one. Returns the clock, and the first error that occurred when the
    /// recording was written.
    pub fn finish(self) -> (C, io::Result<()>) {
        (self.clock, self.writer.into_inner().map_or(Ok(()), Writer::finish))
    }
}

impl<C: RealClock> RealClock for RecordedClock<C> {
    fn now(&self) -> Time {
        let now = self.clock.now();
        if let Some(writer) = &mut *self.writer.borrow_mut() {
            writer.clock(now);
        }
        now
    }

    fn wait(&mut self, due: Time) {
        self.clock.wait(due);
    }

    fn delivered(&mut self, due: Time, now: Time) {
        self.clock.delivered(due, now);
    }

    fn sent(&mut self, packet: &Packet) {
        if let Some(writer) = self.writer.get_mut() {
            writer.sent(&Image::of(packet), None);
        }
    }
}

/// The scenario of a canonical text without files.
fn parse(text: &str) -> Result<Scenario, String> {
    let files = |_: &std::path::Path| Err("a recording has no further files".to_owned());
    anabranch_scenario::parse_with(text, "scenario", &[], &files).map_err(|error| error.to_string())
}

/// Repeats the run of a scenario until the end of its recording or the first difference.
pub fn replay<R: Read>(
    reader: &mut Reader<R>,
    seed: u64,
    text: &str,
) -> Result<Option<Difference>, ReplayError> {
    let scenario = parse(text).map_err(ReplayError::Scenario)?;
    let options = RunOptions { seed: Some(seed), ..RunOptions::default() };
    let invalid = |error: RunError| ReplayError::Scenario(error.to_string());
    let mut simulation = Simulation::new(scenario, &options).map_err(invalid)?;
    simulation.keep_sent();
    let is_over = Cell::new(false);
    let replayed = Replayed { reader, sent: VecDeque::new(), end: None };
    let mut clock = ReplayedClock { replayed: RefCell::new(replayed), is_over: &is_over };
    let result = simulation.run_by(&mut clock, &mut |_| !is_over.get());
    let mut replayed = clock.replayed.into_inner();
    if replayed.end.is_none() {
        result.map_err(invalid)?;
        if replayed.next_time().is_some() {
            let place = Place::Call { number: replayed.reader.counts().calls, name: "clock" };
            let [goes_on, has_ended] = ["the run goes on", "the run has ended"].map(str::to_owned);
            let at = replayed.reader.now();
            return Ok(Some(Difference { at, place, recorded: goes_on, replayed: has_ended }));
        }
    }
    replayed.end.unwrap_or(Ok(None))
}

/// The state of a replay.
struct Replayed<'a, R> {
    reader: &'a mut Reader<R>,
    /// Packets that hosts sent after the last reading and that the recording does not have yet.
    sent: VecDeque<Sent>,
    /// The result of the replay; `None` while it goes on.
    end: Option<Result<Option<Difference>, ReplayError>>,
}

impl<R: Read> Replayed<'_, R> {
    /// The next recorded reading of the clock, after the packets before it have been compared. `None` if the replay is
    /// over.
    fn next_time(&mut self) -> Option<Time> {
        while self.end.is_none() {
            let record = match self.reader.read() {
                Ok(record) => record,
                Err(error) => {
                    self.end = Some(Err(error));
                    break;
                }
            };
            let (at, number) = (self.reader.now(), self.reader.counts().sent);
            if let Some(Record::Sent(image, digest)) = record {
                let recorded = Sent { image, digest };
                let difference = compare(number, at, Some(&recorded), self.sent.pop_front().as_ref());
                self.end = difference.map(|difference| Ok(Some(difference)));
                continue;
            }
            let surplus = compare(number + 1, at, None, self.sent.pop_front().as_ref());
            self.end = match record {
                Some(Record::Clock) if surplus.is_none() => return Some(at),
                Some(Record::Clock) | None => Some(Ok(surplus)),
                _ => Some(Err(self.reader.damaged())),
            };
        }
        None
    }
}

/// A clock with the recorded readings.
struct ReplayedClock<'a, R> {
    replayed: RefCell<Replayed<'a, R>>,
    is_over: &'a Cell<bool>,
}

impl<R: Read> RealClock for ReplayedClock<'_, R> {
    /// After the last recorded reading, the clock shows a time after the end, so that the run ends.
    fn now(&self) -> Time {
        let next = self.replayed.borrow_mut().next_time();
        self.is_over.set(next.is_none());
        next.unwrap_or(Time::MAX)
    }

    fn wait(&mut self, _: Time) {}

    fn delivered(&mut self, _: Time, _: Time) {}

    fn sent(&mut self, packet: &Packet) {
        self.replayed.get_mut().sent.push_back(Sent { image: Image::of(packet), digest: None });
    }
}
