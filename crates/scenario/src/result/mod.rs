//! Results of a run, the same for every world: the document, the metrics that read it, and traces.

pub mod capture;
pub mod columns;
mod document;
mod limits;
mod links;
mod metrics;
mod names;
mod page;
mod table;
mod values;

pub use document::{
    DIRECTIONS, Document, FORMAT, Field, FlowResult, HostFacts, HostResult, LatenessResult, LinkResult,
    MiddleboxResult, PathResult, RouterRecord, RouterResult, RunResult, StreamResult, WantedPathResult,
    parts,
};
pub use limits::{Times, blocked};
pub use links::Measured;
pub use metrics::{Level, METRICS, Metric};
pub use names::PathNames;
pub use page::{metrics, results};
pub use table::{INTERVAL, Sink, Subject, Table};
pub use values::{MeanMax, Quantiles, jain};
