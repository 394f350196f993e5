//! The table of path managers, and how a scenario spells them.

use super::PathManager;
use super::managers::{Default, DiffPorts, Disjoint, FullMesh};
use crate::MOST_PATHS;

/// A path manager, or a sentence that says why there is none.
type Built = Result<Box<dyn PathManager>, String>;

/// One path manager of the table.
#[derive(Debug)]
pub struct Entry {
    /// The name used in scenarios, without a parameter.
    pub name: &'static str,
    /// How it is spelt with its parameter, if it has one.
    pub usage: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Makes one from the text after the colon, if there is any.
    build: fn(Option<&str>) -> Built,
}

/// Every path manager there is.
pub static PATH_MANAGERS: &[Entry] = &[
    Entry {
        name: "default",
        usage: "default",
        summary: "the initial subflow only",
        build: |parameter| plain(parameter, Default),
    },
    Entry {
        name: "fullmesh",
        usage: "fullmesh",
        summary: "every local address with every remote address",
        build: |parameter| plain(parameter, FullMesh),
    },
    Entry {
        name: "disjoint",
        usage: "disjoint",
        summary: "the i-th local address with the i-th remote address",
        build: |parameter| plain(parameter, Disjoint),
    },
    Entry {
        name: "ndiffports",
        usage: "ndiffports:N",
        summary: "N subflows between the first two addresses, on different ports",
        build: |parameter| match parameter.map(str::parse) {
            Some(Ok(subflows @ 1..)) if usize::from(subflows) <= MOST_PATHS => {
                Ok(Box::new(DiffPorts { subflows }))
            }
            _ => Err(format!("it needs a number of subflows from 1 to {MOST_PATHS}, as in \"ndiffports:2\"")),
        },
    },
];

fn plain(
    parameter: Option<&str>,
    manager: impl PathManager + 'static,
) -> Result<Box<dyn PathManager>, String> {
    match parameter {
        None => Ok(Box::new(manager)),
        Some(text) => Err(format!("it takes no parameter, but \":{text}\" follows its name")),
    }
}

/// The path manager that a scenario spells as `text`: a name of the table, with its parameter after a colon.
///
/// # Errors
/// A sentence for the author of the scenario, if there is no such path manager or its parameter is wrong.
pub fn parse(text: &str) -> Result<Box<dyn PathManager>, String> {
    let (name, parameter) = match text.split_once(':') {
        Some((name, parameter)) => (name, Some(parameter)),
        None => (text, None),
    };
    let Some(entry) = PATH_MANAGERS.iter().find(|entry| entry.name == name) else {
        let usages: Vec<_> = PATH_MANAGERS.iter().map(|entry| entry.usage).collect();
        return Err(format!("there is no path manager \"{text}\"; there are {}", usages.join(", ")));
    };
    (entry.build)(parameter).map_err(|reason| format!("path manager \"{text}\": {reason}"))
}

#[cfg(test)]
mod tests {
    use super::super::{AddressId, Pair};
    use super::*;

    fn wanted(text: &str, local: &[u8], remote: &[u8]) -> Vec<(u8, u8, u8)> {
        let ids = |raw: &[u8]| raw.iter().map(|&id| AddressId(id)).collect::<Vec<_>>();
        let pairs = parse(text).unwrap().wanted(&ids(local), &ids(remote));
        pairs.iter().map(|&Pair { local, remote, port }| (local.0, remote.0, port)).collect()
    }

    #[test]
    fn pairs_by_hand() {
        assert_eq!(wanted("default", &[0, 7], &[0, 4]), [(0, 0, 0)]);
        assert_eq!(wanted("fullmesh", &[0, 7], &[0, 4]), [(0, 0, 0), (0, 4, 0), (7, 0, 0), (7, 4, 0)]);
        assert_eq!(wanted("disjoint", &[0, 7, 9], &[0, 4]), [(0, 0, 0), (7, 4, 0)]);
        assert_eq!(wanted("ndiffports:3", &[0, 7], &[0, 4]), [(0, 0, 0), (0, 0, 1), (0, 0, 2)]);
    }

    #[test]
    fn every_manager_starts_with_the_initial_subflow_and_survives_empty_lists() {
        for entry in PATH_MANAGERS {
            let text = entry.usage.replace('N', "4");
            assert_eq!(parse(&text).unwrap().name(), entry.name);
            assert!(!entry.summary.is_empty());
            assert_eq!(wanted(&text, &[0, 3, 5], &[0, 1])[0], (0, 0, 0), "{text}");
            assert_eq!(wanted(&text, &[], &[0]), [], "{text}");
            assert_eq!(wanted(&text, &[0], &[]), [], "{text}");
        }
    }

    #[test]
    fn mistakes_are_answered_with_a_remedy() {
        for text in
            ["ndiffports", "ndiffports:", "ndiffports:0", "ndiffports:65", "ndiffports:256", "ndiffports:-1"]
        {
            assert!(parse(text).unwrap_err().contains("from 1 to 64"), "{text}");
        }
        assert_eq!(wanted("ndiffports:64", &[0], &[0]).len(), MOST_PATHS);
        assert!(parse("fullmesh:2").unwrap_err().contains("no parameter"));
        assert!(parse("full-mesh").unwrap_err().contains("default, fullmesh, disjoint, ndiffports:N"));
    }
}
