//! Scenario files, one experiment each, and result documents, the same for every world.
//!
//! For authors of tools that read, write or run scenarios. Read [`Scenario`] first, the model of a file, then [`parse`],
//! and [`RunResult`](result::RunResult), the document of a run. [`schema`] and [`reference()`] describe the format;
//! they and all messages come from one table of keys. [`workload`] has the applications of flows, and [`measure`] the
//! measurement of results.
//!
//! ```
//! let text = r#"
//! duration = "10 s"
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
//! let scenario = anabranch_scenario::parse(text, "wire.toml", &[])?;
//! assert_eq!(scenario.links[0].forward, scenario.links[0].reverse);
//! // A canonical form spells out every default, and is a scenario with the same meaning.
//! let canonical = anabranch_scenario::to_toml(&scenario);
//! assert_eq!(anabranch_scenario::parse(&canonical, "canonical.toml", &[])?, scenario);
//! # Ok::<(), anabranch_scenario::InputError>(())
//! ```
//!
//! An error has its place and a remedy:
//!
//! ```
//! let text = r#"
//! duration = "10 s"
//!
//! [[link]]
//! between = ["client", "server"]
//! rate = "8 Mbit/s"
//! dely = "10 ms"
//!
//! [[flow]]
//! from = "client"
//! to = "server"
//! protocol = "tcp"
//! "#;
//! let error = anabranch_scenario::parse(text, "wire.toml", &[]).expect_err("a wrong key");
//! let message = r#"wire.toml:7: unknown key "dely" in link "client-server"; did you mean "delay"?"#;
//! assert_eq!(error.to_string(), message);
//! ```

pub mod measure;
pub mod model;
pub mod result;
pub mod workload;

mod build;
mod canonical;
pub mod catalogue;
pub mod characteristics;
mod check;
mod choices;
mod completion;
mod describe;
mod document;
mod error;
mod keys;
pub mod link_settings;
mod merge;
mod message_files;
mod middlebox_places;
mod order;
mod overrides;
mod reference;
mod schema;
mod source_routes;
mod table;
mod testbed;
mod trace;
mod values;
mod written;

use anabranch_settings::{quantity, suggest};

pub use canonical::{link_model_to_json, to_json, to_toml};
pub use completion::keys_to_json;
pub use error::InputError;
pub use middlebox_places::MiddleboxPlaces;
pub use model::Scenario;
pub use order::order;
pub use reference::reference;
pub use schema::schema;
pub use source_routes::{RouteByHops, SourceRouteError};

use std::path::Path;

/// Reads a scenario from the text of its file. `file` is the file's name for messages and the base of the
/// paths of traces; `overrides` are keys with values, applied in order as if they were in the file, for
/// example `("link.beta.rate", "20 Mbit/s")`.
///
/// # Errors
///
/// The first error found, in one sentence with file, line and remedy.
pub fn parse(text: &str, file: &str, overrides: &[(String, String)]) -> Result<Scenario, InputError> {
    parse_with(text, file, overrides, &trace::from_disk)
}

/// Like [`parse`], but `files` reads trace files instead of the file system: it returns the text of a path,
/// or the reason why there is none.
///
/// # Errors
/// As [`parse`].
pub fn parse_with(
    text: &str,
    file: &str,
    overrides: &[(String, String)],
    files: &dyn Fn(&Path) -> Result<String, String>,
) -> Result<Scenario, InputError> {
    let located = |fault: error::Fault| fault.located((file, text), overrides);
    let mut root = document::read(text).map_err(located)?;
    for (index, (path, value)) in overrides.iter().enumerate() {
        overrides::apply(&mut root, index, path, value).map_err(located)?;
    }
    build::scenario(&root, trace::Source { file, files }).map_err(located)
}

/// Gives a scenario another seed.
///
/// # Errors
///
/// If no scenario file could contain the seed, in one sentence with the limit.
pub fn reseed(scenario: &mut Scenario, seed: u64) -> Result<(), InputError> {
    if seed > model::MAX_SEED {
        let message = format!("the seed {seed} is too large; choose one from 0 to {}", model::MAX_SEED);
        return Err(InputError::without_place(message));
    }
    scenario.seed = seed;
    Ok(())
}

/// Names of the flows, links and hosts of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// Flows, in file order.
    pub flows: Vec<String>,
    /// Links, in file order.
    pub links: Vec<String>,
    /// Hosts with a table, in file order.
    pub hosts: Vec<String>,
}

/// The names in a scenario that may be incomplete, for example a study's template. Links and flows without a
/// name are named after their ends; those without ends are left out.
///
/// # Errors
///
/// If the text is not TOML.
pub fn names(text: &str, file: &str) -> Result<Names, InputError> {
    let root = document::read(text).map_err(|fault| fault.located((file, text), &[]))?;
    let names = |what| overrides::names(&root, what).into_iter().map(|(_, name)| name).collect();
    Ok(Names { flows: names("flow"), links: names("link"), hosts: names("host") })
}

#[cfg(test)]
mod tests;
