//! The table of path managers, and their notation in scenarios.

use super::PathManager;
use super::binder::Binder;
use super::managers::{Default, DiffPorts, Disjoint, FullMesh};
use crate::MAX_PATHS;
use core::fmt;

/// A path manager, as listed in the table of all path managers.
#[derive(Debug)]
pub struct Entry {
    /// The name used in scenarios, without a parameter.
    pub name: &'static str,
    /// The notation of the path manager in scenarios, with its parameter if it has one.
    pub usage: &'static str,
    /// Description in one line.
    pub summary: &'static str,
    /// The path manager's parameter, if it has one.
    pub parameter: Option<Parameter>,
    /// True if subflows have source routes through the gateways of their host.
    pub uses_gateways: bool,
    /// Creates a path manager.
    build: fn(&Given) -> Box<dyn PathManager>,
}

/// The values with which a path manager is created.
struct Given {
    /// The parameter; 0 if the path manager has none.
    parameter: u8,
    /// Number of gateways of the connecting host.
    gateways: u8,
}

/// The parameter of a path manager: a whole number.
#[derive(Debug)]
pub struct Parameter {
    /// Meaning of the number, for messages, for example "subflows".
    pub what: &'static str,
    /// The smallest and the largest valid value.
    pub bounds: [u8; 2],
}

/// A path manager as a setting: the entry and its parameter.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// The entry in the table of path managers.
    pub entry: &'static Entry,
    /// The parameter; 0 if the path manager has none.
    parameter: u8,
}

impl Choice {
    /// Creates a path manager for a connection whose connecting host has this number of gateways.
    pub fn build(&self, gateways: usize) -> Box<dyn PathManager> {
        let gateways = gateways.min(MAX_PATHS - 1) as u8;
        (self.entry.build)(&Given { parameter: self.parameter, gateways })
    }
}

impl PartialEq for Choice {
    fn eq(&self, other: &Self) -> bool {
        self.entry.name == other.entry.name && self.parameter == other.parameter
    }
}

/// The notation in scenarios, which [`parse`] reads.
impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.entry.parameter {
            Some(_) => write!(f, "{}:{}", self.entry.name, self.parameter),
            None => f.write_str(self.entry.name),
        }
    }
}

/// All path managers.
pub static PATH_MANAGERS: &[Entry] = &[
    Entry {
        name: "default",
        usage: "default",
        summary: "the initial subflow only",
        parameter: None,
        uses_gateways: false,
        build: |_| Box::new(Default),
    },
    Entry {
        name: "fullmesh",
        usage: "fullmesh",
        summary: "every local address with every remote address",
        parameter: None,
        uses_gateways: false,
        build: |_| Box::new(FullMesh),
    },
    Entry {
        name: "disjoint",
        usage: "disjoint",
        summary: "the i-th local address with the i-th remote address",
        parameter: None,
        uses_gateways: false,
        build: |_| Box::new(Disjoint),
    },
    Entry {
        name: "ndiffports",
        usage: "ndiffports:N",
        summary: "N subflows between the first two addresses, on different ports",
        parameter: Some(Parameter { what: "subflows", bounds: [1, MAX_PATHS as u8] }),
        uses_gateways: false,
        build: |given| Box::new(DiffPorts { subflows: given.parameter }),
    },
    Entry {
        name: "binder",
        usage: "binder",
        summary: "the initial subflow, and one through each gateway of the connecting host (Boccassi et al. 2013)",
        parameter: None,
        uses_gateways: true,
        build: |given| Box::new(Binder { gateways: given.gateways }),
    },
];

/// The path manager that a scenario writes as `text`: a name of the table, and its parameter after a colon.
///
/// # Errors
///
/// A message for the author of the scenario, if there is no such path manager or its parameter is wrong.
pub fn parse(text: &str) -> Result<Choice, String> {
    let (name, given) = match text.split_once(':') {
        Some((name, given)) => (name, Some(given)),
        None => (text, None),
    };
    let Some(entry) = PATH_MANAGERS.iter().find(|entry| entry.name == name) else {
        let usages: Vec<_> = PATH_MANAGERS.iter().map(|entry| entry.usage).collect();
        return Err(format!("unknown path manager \"{text}\"; the path managers are {}", usages.join(", ")));
    };
    let parameter = parameter(entry, given).map_err(|reason| format!("path manager \"{text}\": {reason}"))?;
    Ok(Choice { entry, parameter })
}

fn parameter(entry: &Entry, given: Option<&str>) -> Result<u8, String> {
    let Some(Parameter { what, bounds: [least, most] }) = entry.parameter else {
        return match given {
            None => Ok(0),
            Some(text) => Err(format!("this path manager has no parameter; remove \":{text}\"")),
        };
    };
    let number = given.and_then(|text| text.parse().ok()).filter(|number| (least..=most).contains(number));
    let name = entry.name;
    number.ok_or_else(|| format!("the number of {what} must be from {least} to {most}, as in \"{name}:2\""))
}

#[cfg(test)]
mod tests {
    use super::super::{AddressId, Pair};
    use super::*;

    fn wanted(text: &str, local: &[u8], remote: &[u8]) -> Vec<(u8, u8, u8)> {
        let ids = |raw: &[u8]| raw.iter().map(|&id| AddressId(id)).collect::<Vec<_>>();
        let pairs = parse(text).unwrap().build(2).wanted(&ids(local), &ids(remote));
        pairs.iter().map(|&Pair { local, remote, port }| (local.0, remote.0, port)).collect()
    }

    #[test]
    fn managers_return_expected_pairs() {
        assert_eq!(wanted("default", &[0, 7], &[0, 4]), [(0, 0, 0)]);
        assert_eq!(wanted("fullmesh", &[0, 7], &[0, 4]), [(0, 0, 0), (0, 4, 0), (7, 0, 0), (7, 4, 0)]);
        assert_eq!(wanted("disjoint", &[0, 7, 9], &[0, 4]), [(0, 0, 0), (7, 4, 0)]);
        assert_eq!(wanted("ndiffports:3", &[0, 7], &[0, 4]), [(0, 0, 0), (0, 0, 1), (0, 0, 2)]);
        assert_eq!(wanted("binder", &[0, 7], &[0, 4]), [(0, 0, 0), (0, 0, 1), (0, 0, 2)]);
    }

    #[test]
    fn managers_start_with_the_initial_subflow() {
        for entry in PATH_MANAGERS {
            let text = entry.usage.replace('N', "4");
            let choice = parse(&text).unwrap();
            assert_eq!((choice.entry.name, choice.build(2).name()), (entry.name, entry.name));
            assert_eq!(choice.to_string(), text, "the notation is parsed as the same choice");
            assert!(!entry.summary.is_empty());
            assert_eq!(wanted(&text, &[0, 3, 5], &[0, 1])[0], (0, 0, 0), "{text}");
            assert_eq!(wanted(&text, &[], &[0]), [], "{text}");
            assert_eq!(wanted(&text, &[0], &[]), [], "{text}");
        }
    }

    #[test]
    fn errors_contain_a_remedy() {
        for text in
            ["ndiffports", "ndiffports:", "ndiffports:0", "ndiffports:65", "ndiffports:256", "ndiffports:-1"]
        {
            assert!(parse(text).unwrap_err().contains("from 1 to 64"), "{text}");
        }
        assert_eq!(wanted("ndiffports:64", &[0], &[0]).len(), MAX_PATHS);
        assert!(parse("fullmesh:2").unwrap_err().contains("no parameter"));
        assert!(
            parse("full-mesh").unwrap_err().contains("default, fullmesh, disjoint, ndiffports:N, binder")
        );
    }
}
