//! What comes out of a run, the same for every world: the document, and the metrics that read it.

mod document;
mod metrics;
mod page;

pub use document::{
    DIRECTIONS, Document, FORMAT, Field, FlowResult, LinkResult, MeanMax, PathResult, Quantiles, RunResult,
    jain,
};
pub use metrics::{Level, METRICS, Metric};
pub use page::{metrics, results};
