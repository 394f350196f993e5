//! The simulator as a module for pages: it opens scenarios, steps them, and returns values as JSON.
//!
//! For authors of displays in a browser. [`Lab`] has the functions; [`abi`] exports them from the WebAssembly module, and
//! `docs/reference/lab-abi.md` describes that interface. Both are thin: all decisions are in `anabranch_sim`.
//!
//! ```
//! let mut lab = anabranch_lab::Lab::default();
//! let scenario = r#"
//! duration = "1 s"
//!
//! [[link]]
//! name = "wire"
//! between = ["client", "server"]
//! rate = "8 Mbit/s"
//!
//! [[flow]]
//! from = "client"
//! to = "server"
//! protocol = "tcp"
//! "#;
//! let run = lab.open(scenario, None)?;
//! lab.step_until(run, 0.5e9)?;
//! lab.order(run, r#"{"link": "wire", "set": {"rate": "2 Mbit/s"}}"#)?;
//! lab.step_until(run, 1e9)?;
//! // The exported scenario contains the order, and runs to the same digest.
//! let again = lab.open(&lab.scenario(run)?, None)?;
//! lab.step_until(again, 1e9)?;
//! assert_eq!(lab.digest(again)?, lab.digest(run)?);
//! # Ok::<(), anabranch_lab::LabError>(())
//! ```

pub mod abi;
mod lab;
mod network;
mod packets;
mod row;

pub use lab::{Lab, LabError};
