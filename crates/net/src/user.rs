//! The world in user space: every host of a scenario runs the protocol cores in real time, and the hosts exchange
//! serialised packets over the modelled links, in one thread and without devices or rights.
//!
//! Links, workloads, events and measurements are the simulator's. Time is the machine's: processing takes time, and
//! the thread passes packets and timeouts to hosts at or after their due time. This lateness is measured.

use crate::clock::{Clock, prefer_this_thread};
use crate::emulator::Lateness;
use crate::machine::Machine;
use crate::recording_file::create_recording;
use anabranch_base::time::{Duration, Time};
use anabranch_replay::{RecordedClock, ScenarioRecording, recordable};
use anabranch_scenario::Scenario;
use anabranch_scenario::result::RunResult;
use anabranch_sim::{Progress, RealClock, RunError, RunOptions, Simulation};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Name of this world in results.
const WORLD: &str = "user";

/// Interval of the reports of progress to the caller, which may stop the run.
const REPORT_INTERVAL: std::time::Duration = std::time::Duration::from_millis(50);

/// The machine's clock, relative to the start of a run, and the lateness of delivered packets.
struct WallClock {
    clock: Clock,
    lateness: Lateness,
}

impl RealClock for WallClock {
    fn now(&self) -> Time {
        self.clock.now()
    }

    fn wait(&mut self, due: Time) {
        let left = due.since(self.clock.now());
        if left > Duration::ZERO {
            std::thread::sleep(std::time::Duration::from_nanos(left.as_nanos()));
        }
    }

    fn delivered(&mut self, due: Time, now: Time) {
        self.lateness.add(due, now);
    }
}

/// Progress of a run in another thread.
#[derive(Default)]
struct Shared {
    now_ns: AtomicU64,
    events: AtomicU64,
    stop: AtomicBool,
}

/// Runs a scenario in real time, in a separate thread. `record` is a file for a recording for
/// [`replay`](anabranch_replay::replay). `begun` is called with the number of that thread, to set its priority. `progress`
/// is called every 50 ms; if it returns false, the run stops.
///
/// # Errors
///
/// If the scenario is invalid, a file cannot be written, a packet arrives with changed contents, or the run is stopped.
///
/// # Panics
///
/// If the thread panics, because of a bug in a protocol core.
pub fn run(
    scenario: &Scenario,
    options: &RunOptions,
    record: Option<&Path>,
    begun: &mut dyn FnMut(i32),
    progress: &mut dyn FnMut(Progress) -> bool,
) -> Result<RunResult, RunError> {
    let shared = Shared::default();
    let (tell, id) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // The calling thread waits for this message.
            let _ = tell.send(rustix::thread::gettid().as_raw_nonzero().get());
            run_here(scenario, options, record, &shared)
        });
        begun(id.recv().unwrap_or_default());
        let end = Time::ZERO + scenario.duration;
        while !thread.is_finished() {
            let now = Time::from_nanos(shared.now_ns.load(Ordering::Relaxed));
            if !progress(Progress { now, end, events: shared.events.load(Ordering::Relaxed) }) {
                shared.stop.store(true, Ordering::Relaxed);
            }
            std::thread::sleep(REPORT_INTERVAL);
        }
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn run_here(
    scenario: &Scenario,
    options: &RunOptions,
    record: Option<&Path>,
    shared: &Shared,
) -> Result<RunResult, RunError> {
    let machine = Machine::before(BTreeMap::new(), Vec::new());
    let mut simulation = Simulation::new(scenario.clone(), options)?;
    // The recording replaces an existing file only after all checks of the scenario.
    let recording = record.map(|file| begin_recording(file, &simulation)).transpose()?;
    if recording.is_some() {
        simulation.keep_sent();
    }
    prefer_this_thread();
    let wall = WallClock { clock: Clock::new(), lateness: Lateness::default() };
    let mut wall = RecordedClock::new(wall, recording);
    let outcome = simulation.run_by(&mut wall, &mut |progress| {
        shared.now_ns.store(progress.now.as_nanos(), Ordering::Relaxed);
        shared.events.store(progress.events, Ordering::Relaxed);
        !shared.stop.load(Ordering::Relaxed)
    });
    // The recording of a stopped run ends when it was stopped.
    let (wall, recorded) = wall.finish();
    outcome?;
    if let (Err(error), Some(file)) = (recorded, record) {
        return Err(RunError::file(file, error));
    }
    let wall_s = wall.clock.elapsed().as_secs_f64();
    Ok(RunResult {
        world: WORLD.to_owned(),
        // Runs in real time are not reproducible, so they have no digest.
        digest: None,
        wall_s,
        host: Some(machine.after(wall.lateness.result(0))),
        ..simulation.result()
    })
}

fn begin_recording(file: &Path, simulation: &Simulation) -> Result<ScenarioRecording, RunError> {
    let text = recordable(simulation.scenario()).ok_or_else(|| {
        let sentence = "a recording cannot contain the files that the scenario names; omit --record";
        RunError::Unknown(sentence.to_owned())
    })?;
    let begun =
        create_recording(file).and_then(|out| ScenarioRecording::new(Box::new(out), simulation.seed(), text));
    begun.map_err(|error| RunError::file(file, error))
}
