//! The lists of `anabranch list`.

use super::choices::{self, Choice, PROTOCOLS};
use super::error::{InputError, quoted};
use super::keys::{Kind, Kinds};
use super::suggest::remedy;
use super::table::{WORKLOAD, loss, middlebox, queue};
use anabranch_multipath::congestion;

/// One entry of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The word that scenarios use.
    pub name: &'static str,
    /// Other names that scenarios may use.
    pub aliases: &'static [&'static str],
    /// Description in one line.
    pub summary: &'static str,
    /// The defining publication; empty if none is needed.
    pub source: &'static str,
}

/// The names of all lists.
pub const LISTS: &[&str] =
    &["protocols", "congestion", "schedulers", "path-managers", "queues", "loss", "middleboxes", "workloads"];

impl Listed {
    /// Description, source and other names of the entry, in one line.
    pub fn description(&self) -> String {
        let mut parts = vec![self.summary.to_owned()];
        if !self.source.is_empty() {
            parts.push(format!(" ({})", self.source));
        }
        if !self.aliases.is_empty() {
            parts.push(format!("; other names: {}", self.aliases.join(", ")));
        }
        parts.concat()
    }
}

/// The list called `name`, one of [`LISTS`].
///
/// # Errors
///
/// If there is no such list; the message names all lists.
pub fn list(name: &str) -> Result<Vec<Listed>, InputError> {
    if !LISTS.contains(&name) {
        let message = format!("there is no list {}; {}", quoted(name), remedy(name, LISTS, "lists"));
        return Err(InputError::without_place(message));
    }
    let listed = |Choice { name, aliases, summary, source }| Listed { name, aliases, summary, source };
    Ok(choices(name).into_iter().map(listed).collect())
}

/// The congestion controls that couple the paths of a connection, by name.
pub fn coupled() -> impl Iterator<Item = &'static str> {
    congestion::all().filter(|entry| entry.coupled).map(|entry| entry.name)
}

/// The list as choices, for messages and pages.
pub(super) fn choices(name: &str) -> Vec<Choice> {
    let kinds = |kinds: &'static Kinds| kinds.all.iter().map(Kind::choice).collect();
    match name {
        "protocols" => choices::choices(PROTOCOLS),
        "congestion" => choices::congestion(),
        "schedulers" => choices::schedulers(),
        "path-managers" => choices::path_managers(),
        "queues" => kinds(queue()),
        "middleboxes" => kinds(middlebox()),
        "loss" => kinds(loss()),
        "workloads" => kinds(&WORKLOAD),
        other => unreachable!("{other} is not in LISTS"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_has_entries_with_descriptions() {
        for name in LISTS {
            let list = list(name).unwrap();
            assert!(!list.is_empty(), "{name}");
            for entry in list {
                assert!(!entry.name.is_empty() && !entry.summary.is_empty(), "{name}: {entry:?}");
            }
        }
        let message = list("queue").unwrap_err().message;
        assert_eq!(message, "there is no list \"queue\"; did you mean \"queues\"?");
    }
}
