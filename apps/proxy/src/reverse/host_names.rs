//! Table of the host names of a reverse proxy.

use std::collections::BTreeMap;

/// Host names with their values.
#[derive(Debug)]
pub struct HostNames<T> {
    exact: BTreeMap<String, T>,
    /// Endings of names such as `*.b.example`, from the dot on.
    endings: BTreeMap<String, T>,
}

impl<T> HostNames<T> {
    /// Creates the table from names in which `*.` stands for one or more labels.
    pub fn new(names: impl Iterator<Item = (String, T)>) -> Self {
        let mut table = Self { exact: BTreeMap::new(), endings: BTreeMap::new() };
        for (name, value) in names {
            let name = name.to_ascii_lowercase();
            match name.strip_prefix('*') {
                Some(ending) => table.endings.insert(ending.to_owned(), value),
                None => table.exact.insert(name, value),
            };
        }
        table
    }

    /// Returns the value of a requested name: that of the equal name, or else that of the longest ending. Upper and
    /// lower case, and a dot at the end, make no difference.
    pub fn find(&self, requested: &str) -> Option<&T> {
        let name = requested.strip_suffix('.').unwrap_or(requested).to_ascii_lowercase();
        let ending = || {
            let dots = name.match_indices('.').filter(|(at, _)| *at > 0);
            dots.map(|(at, _)| &name[at..]).find_map(|ending| self.endings.get(ending))
        };
        self.exact.get(&name).or_else(ending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_host_name_precedes_longest_wildcard() {
        let names = [("a.example", 1), ("*.Example", 2), ("*.b.example", 3), ("www.b.example", 4)];
        let table = HostNames::new(names.into_iter().map(|(name, value)| (name.to_owned(), value)));
        for (requested, expected) in [
            ("a.example", Some(1)),
            ("A.EXAMPLE.", Some(1)),
            ("www.a.example", Some(2)),
            ("b.example", Some(2)),
            ("x.y.b.example", Some(3)),
            ("www.b.example", Some(4)),
            ("example", None),
            (".example", None),
            ("a.example.org", None),
            ("notb.example2", None),
            ("", None),
            (".", None),
        ] {
            assert_eq!(table.find(requested).copied(), expected, "{requested}");
        }
    }
}
