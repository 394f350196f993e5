//! Coupled congestion controls for the Multipath TCP of Linux, written in BPF, and their loader.
//!
//! For administrators' tools and test beds that use these congestion controls. Read [`examine`] first, which checks the
//! machine; then [`CONTROLS`] and [`find`], [`load`] and [`Settings`]; and [`run`], which starts a command whose
//! connections use one.
//!
//! ```
//! use anabranch_kernel::{CONTROLS, examine, find};
//!
//! // Each unmet requirement comes with its remedy.
//! for finding in examine().iter().filter(|finding| !finding.there) {
//!     println!("{}: {}; {}", finding.what, finding.detail, finding.remedy);
//!     assert!(!finding.remedy.is_empty());
//! }
//! // A congestion control has one name in scenarios, and one for `sysctl net.ipv4.tcp_congestion_control`.
//! assert_eq!(find("cmt-rpv1")?.kernel_name, "cmt_rpv1");
//! assert!(find("cubic").is_err_and(|error| error.to_string().contains(CONTROLS[0].name)));
//! # Ok::<(), anabranch_kernel::Error>(())
//! ```
//!
//! As root, with Linux 6.4 or newer:
//!
//! ```no_run
//! use anabranch_kernel::{Settings, find, list, load, unload};
//!
//! let lia = find("lia")?;
//! load(lia, Settings { coupled_start: true, ..Settings::default() })?;
//! for loaded in list()? {
//!     println!("{} {}: {} sockets", loaded.name, loaded.version, loaded.sockets);
//! }
//! unload(lia)?;
//! # Ok::<(), anabranch_kernel::Error>(())
//! ```
//!
//! The congestion controls are written in C, in `bpf/`: one file of arithmetic for each, and a common file that defines
//! the `tcp_congestion_ops`. They are compiled in advance (`make bpf`), and the loader contains the compiled objects.
//! Only these files are under the GPL, which the kernel requires.
#![cfg(target_os = "linux")]

mod control;
mod error;
mod inherited;
mod link;
mod loader;
mod log;
mod machine;
mod object;
mod pins;
mod select;

pub use control::{CONTROLS, Control, Settings, find};
pub use error::Error;
pub use loader::{Loaded, Outcome, Statistics, list, load, unload};
pub use machine::{Finding, examine};
pub use select::{detach, hold, run};
