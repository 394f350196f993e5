//! The simulated world: a deterministic discrete-event engine that drives the protocol cores over modelled links, from a
//! scenario file to a result document.
//!
//! For researchers who run scenarios from Rust, and for authors of controls and schedulers. Read [`run`] first, with
//! [`RunOptions`] and [`RunResult`]; then [`Simulation`], a run with progress and access to its flows and links.
//! [`presets`] builds scenarios in code. `examples/own_control.rs` and `own_scheduler.rs` run an algorithm that is not in
//! the tables, and `read_pcap.rs` reads the capture of a run.
//!
//! ```
//! use anabranch_sim::{RunOptions, run, scenario};
//!
//! let text = r#"
//! duration = "5 s"
//! warmup = "1 s"
//!
//! [link_defaults]
//! rate = "8 Mbit/s"
//! delay = "10 ms"
//!
//! [[link]]
//! name = "upper"
//! between = ["phone", "server"]
//!
//! [[link]]
//! name = "lower"
//! between = ["phone", "server"]
//!
//! [[flow]]
//! name = "upload"
//! from = "phone"
//! to = "server"
//! protocol = "mptcp"
//! congestion = "lia"
//! paths = "disjoint"
//! "#;
//! let scenario = scenario::parse(text, "phone.toml", &[])?;
//! let result = run(&scenario, &RunOptions::default())?;
//! // Two links of 8 Mbit/s, less headers.
//! assert!((14e6..16e6).contains(&result.flows[0].goodput_bps));
//! // The digest covers every packet: equal scenario, seed and version give equal runs.
//! assert_eq!(run(&scenario, &RunOptions::default())?.digest, result.digest);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The same in steps. `progress` is called regularly; a run ends early if it returns false:
//!
//! ```
//! use anabranch_sim::{RunError, RunOptions, Simulation, presets};
//!
//! let scenario = presets::disjoint(2, 2, presets::mptcp(), "lia");
//! let mut simulation = Simulation::new(scenario.clone(), &RunOptions::default())?;
//! let mut reports = 0;
//! simulation.run(&mut |progress| {
//!     reports += 1;
//!     progress.now <= progress.end
//! })?;
//! assert!(reports > 0 && simulation.events() > 1000);
//! assert_eq!(simulation.result().flows[0].paths.len(), 2);
//!
//! let mut stopped = Simulation::new(scenario.clone(), &RunOptions::default())?;
//! assert!(matches!(stopped.run(&mut |_| false), Err(RunError::Interrupted { .. })));
//! # Ok::<(), RunError>(())
//! ```

pub mod engine;
pub mod host;
pub mod measure;
pub mod presets;
pub mod report;
pub mod simulation;

pub use anabranch_scenario as scenario;
pub use anabranch_scenario::result::RunResult;
pub use simulation::{Progress, RealClock, RunError, RunOptions, Simulation, run, run_with};
