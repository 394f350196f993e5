//! Open runs, and the functions of the interface as safe code.

use crate::{network, packets, row};
use anabranch_base::time::Time;
use anabranch_sim::scenario::result::Document;
use anabranch_sim::scenario::{self, InputError, Scenario};
use anabranch_sim::{RunError, RunOptions, Simulation};
use core::fmt;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// An error of the caller, as a sentence, with the line and column of the scenario if they are known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LabError {
    /// The line of the scenario, counted from 1.
    pub line: Option<usize>,
    /// The column in characters, counted from 1.
    pub column: Option<usize>,
    /// The error and the remedy.
    pub message: String,
}

impl LabError {
    /// An error without a line and column.
    pub(crate) const fn new(message: String) -> Self {
        Self { line: None, column: None, message }
    }
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for LabError {}

impl From<InputError> for LabError {
    fn from(InputError { line, column, message, .. }: InputError) -> Self {
        Self { line, column, message }
    }
}

impl From<RunError> for LabError {
    fn from(error: RunError) -> Self {
        Self::new(error.to_string())
    }
}

/// A scenario with settings, as for `--set`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Variant {
    scenario: String,
    /// Settings "KEY=VALUE", applied in order.
    settings: Vec<String>,
}

impl Variant {
    /// Keys and values of the settings.
    fn pairs(&self) -> Result<Vec<(String, String)>, LabError> {
        let split = |setting: &String| {
            let parts = setting.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
            let message = || format!("{setting}: the value is missing; write KEY=VALUE");
            parts.ok_or_else(|| LabError::new(message()))
        };
        self.settings.iter().map(split).collect()
    }
}

/// All open runs.
#[derive(Default)]
pub struct Lab {
    runs: BTreeMap<u32, Simulation>,
    /// The last handle.
    last: u32,
}

impl Lab {
    /// Checks a scenario; returns its errors as a JSON list. The parser stops at the first one.
    pub fn check(text: &str) -> String {
        let errors: Vec<_> = simulation(text, &[], None).err().into_iter().collect();
        json(&errors)
    }

    /// Opens a run of a scenario with a seed, by default the scenario's own. Returns its handle, from 1 on.
    ///
    /// # Errors
    ///
    /// If the scenario or the seed is not valid.
    pub fn open(&mut self, text: &str, seed: Option<u64>) -> Result<u32, LabError> {
        Ok(self.insert(simulation(text, &[], seed)?))
    }

    /// Opens a run of a scenario with settings, JSON `{"scenario": "…", "settings": ["KEY=VALUE", …]}`, like
    /// [`Lab::open`].
    ///
    /// # Errors
    ///
    /// If the text is not such JSON, or the scenario, a setting or the seed is not valid.
    pub fn open_variant(&mut self, variant: &str, seed: Option<u64>) -> Result<u32, LabError> {
        let variant: Variant = serde_json::from_str(variant)
            .map_err(|error| LabError::new(format!("not a scenario with settings: {error}")))?;
        Ok(self.insert(simulation(&variant.scenario, &variant.pairs()?, seed)?))
    }

    /// Names of the congestion controls that couple the paths of a connection, as a JSON list.
    pub fn coupled() -> String {
        json(&scenario::catalogue::coupled().collect::<Vec<_>>())
    }

    /// Processes the events of a run before a time, in nanoseconds.
    ///
    /// # Errors
    ///
    /// If there is no such run, or the time is not a number.
    pub fn step_until(&mut self, run: u32, time_ns: f64) -> Result<(), LabError> {
        if time_ns.is_nan() {
            return Err(LabError::new("the time of a step is not a number".to_owned()));
        }
        // Negative times and infinity become the ends of the range.
        self.run(run)?.step_until(Time::from_nanos(time_ns as u64))?;
        Ok(())
    }

    /// The present time of a run in nanoseconds; `None` if there is no such run.
    pub fn now_ns(&self, run: u32) -> Option<f64> {
        self.runs.get(&run).map(|run| run.now().as_nanos() as f64)
    }

    /// Number of processed events of a run; `None` if there is no such run.
    pub fn events(&self, run: u32) -> Option<f64> {
        self.runs.get(&run).map(|run| run.events() as f64)
    }

    /// The present values of a run ([`Sample`](anabranch_sim::report::sample::Sample)), as JSON.
    ///
    /// # Errors
    ///
    /// If there is no such run.
    pub fn sample(&mut self, run: u32) -> Result<String, LabError> {
        Ok(json(&self.run(run)?.sample()))
    }

    /// The values of [`Lab::sample`] that charts show, as numbers. `docs/reference/lab-abi.md` has their order.
    ///
    /// # Errors
    ///
    /// If there is no such run.
    pub fn row(&mut self, run: u32) -> Result<Vec<f64>, LabError> {
        Ok(row::of(&self.run(run)?.sample()))
    }

    /// Changes a link of a run ([`Simulation::order_json`]).
    ///
    /// # Errors
    ///
    /// If there is no such run, or the change is not valid.
    pub fn order(&mut self, run: u32, order: &str) -> Result<(), LabError> {
        Ok(self.run(run)?.order_json(order)?)
    }

    /// Nodes, links with their present values, flows with their paths, and events of a run, as JSON.
    ///
    /// # Errors
    ///
    /// If there is no such run.
    pub fn network(&mut self, run: u32) -> Result<String, LabError> {
        Ok(json(&network::describe(self.run(run)?)))
    }

    /// The packets on all links ([`packets`](crate::packets)), as a JSON list of numbers.
    ///
    /// # Errors
    ///
    /// If there is no such run.
    pub fn packets(&mut self, run: u32) -> Result<String, LabError> {
        Ok(packets::list(self.run(run)?))
    }

    /// The result document of a run that is over, as JSON.
    ///
    /// # Errors
    ///
    /// If there is no such run, or it is not over.
    pub fn result(&mut self, run: u32) -> Result<String, LabError> {
        let run = self.run(run)?;
        if !run.is_over() {
            let message = "the run is not over; step to its end before you read its result";
            return Err(LabError::new(message.to_owned()));
        }
        let result = run.result();
        Ok(json(&Document::new(result, run.scenario())))
    }

    /// The digest of a run until now: 16 hexadecimal digits.
    ///
    /// # Errors
    ///
    /// If there is no such run.
    pub fn digest(&mut self, run: u32) -> Result<String, LabError> {
        Ok(format!("{:016x}", self.run(run)?.digest()))
    }

    /// The scenario of a run as TOML, with every default, the seed of the run, and the caller's changes of
    /// links as events.
    ///
    /// # Errors
    ///
    /// If there is no such run.
    pub fn scenario(&self, run: u32) -> Result<String, LabError> {
        let run = self.runs.get(&run).ok_or_else(|| no_run(run))?;
        Ok(scenario::to_toml(&Scenario { seed: run.seed(), ..run.scenario().clone() }))
    }

    /// Ends a run.
    pub fn close(&mut self, run: u32) {
        self.runs.remove(&run);
    }

    fn insert(&mut self, run: Simulation) -> u32 {
        self.last += 1;
        self.runs.insert(self.last, run);
        self.last
    }

    fn run(&mut self, handle: u32) -> Result<&mut Simulation, LabError> {
        self.runs.get_mut(&handle).ok_or_else(|| no_run(handle))
    }
}

fn no_run(handle: u32) -> LabError {
    LabError::new(format!("there is no open run {handle}"))
}

/// A run of a scenario with settings at its start.
fn simulation(text: &str, settings: &[(String, String)], seed: Option<u64>) -> Result<Simulation, LabError> {
    let no_files = |_: &Path| Err("this page reads no files".to_owned());
    let mut scenario = scenario::parse_with(text, "scenario", settings, &no_files)?;
    if let Some(seed) = seed {
        scenario::reseed(&mut scenario, seed)?;
    }
    Ok(Simulation::new(scenario, &RunOptions::default())?)
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("the values have keys of text")
}
