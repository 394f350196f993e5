//! The page about results and the table of metrics, generated from the types and the table; the hand-written
//! parts are `intro.md` and `outro.md`.

use super::{
    Field, FlowResult, HostFacts, HostResult, LatenessResult, LinkResult, METRICS, MiddleboxResult,
    PathResult, RouterRecord, RouterResult, RunResult, StreamResult, WantedPathResult,
};
use core::fmt::Write;

/// The page about results, in Markdown.
pub fn results() -> String {
    let mut page = include_str!("intro.md").to_owned();
    let parts = [
        ("The run", RunResult::FIELDS),
        ("`flows[]`, in the order of the scenario", FlowResult::FIELDS),
        ("`flows[].streams[]`, if an SCTP flow has several", StreamResult::FIELDS),
        ("`flows[].paths[]`, from the sender's point of view", PathResult::FIELDS),
        ("`flows[].paths_wanted[]`, opened or not", WantedPathResult::FIELDS),
        ("`links[]`, one for each direction", LinkResult::FIELDS),
        ("`hosts[]`, where they are a kernel's or have a cost", HostResult::FIELDS),
        ("`host`, if it was a real machine", HostFacts::FIELDS),
        ("`host.lateness`", LatenessResult::FIELDS),
        ("`middleboxes[]`", MiddleboxResult::FIELDS),
        ("`routers[]`, if packets with a source route have arrived there", RouterResult::FIELDS),
        ("`flows[].paths[].network_control[]`", RouterRecord::FIELDS),
    ];
    for (title, fields) in parts {
        // Writing to a string cannot fail.
        let _ = write!(page, "\n## {title}\n\n| key | meaning |\n|---|---|\n");
        for Field { name, doc, .. } in fields {
            let _ = writeln!(page, "| `{name}` | {} |", doc.trim());
        }
    }
    page.push('\n');
    page.push_str(include_str!("outro.md"));
    page
}

/// The table of metrics, in Markdown.
pub fn metrics() -> String {
    let mut table = "| metric | meaning | unit | level |\n|---|---|---|---|\n".to_owned();
    for metric in METRICS {
        let level = metric.level.name();
        let _ = writeln!(table, "| `{}` | {} | {} | {level} |", metric.name, metric.label, metric.unit);
    }
    table
}
