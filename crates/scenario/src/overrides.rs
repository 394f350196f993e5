//! Overrides of single keys: `link.beta.rate=20 Mbit/s`.

use super::document::{Data, Node, Table, read_value};
use super::error::{Fault, Origin, quoted};
use super::keys::{Key, Section, Shape};
use super::suggest::remedy;
use super::table::ROOT;

/// Writes an override into the tree, as if it were in the file. If the path is invalid, the fault names the
/// valid continuations.
pub(super) fn apply(root: &mut Table, index: usize, path: &str, value: &str) -> Result<(), Fault> {
    let origin = Origin::Set(index);
    let fault = |message: String| Fault::new(origin, message);
    let segments: Vec<&str> = path.split('.').map(str::trim).collect();
    if segments.iter().any(|segment| segment.is_empty()) {
        return Err(fault(
            "the key is missing before the equals sign; write for example link.NAME.rate=VALUE".into(),
        ));
    }
    let (first, rest) = (segments[0], &segments[1..]);
    let names = ROOT.names(None);
    let Some(key) = ROOT.key(first, None) else {
        return Err(fault(format!("there is no key {}; {}", quoted(first), remedy(first, &names, "keys"))));
    };
    match &key.shape {
        Shape::Tables(section) => {
            let Some((&name, rest)) = rest.split_first() else {
                return Err(fault(format!(
                    "the {first} and its key are missing; write {first}.NAME.KEY=VALUE"
                )));
            };
            let table = element(root, first, name, origin)?;
            descend(table, section(), rest, value, origin)
        }
        _ => descend(root, &ROOT, &segments, value, origin),
    }
}

/// The table of the link, flow, host, middlebox or event with this name.
fn element<'t>(root: &'t mut Table, what: &str, name: &str, origin: Origin) -> Result<&'t mut Table, Fault> {
    let names = names(root, what);
    let Some((index, _)) = names.iter().find(|(_, own)| own == name) else {
        let names: Vec<_> = names.iter().map(|(_, own)| own.as_str()).collect();
        let plural = if what == "middlebox" { "middleboxes".to_owned() } else { format!("{what}s") };
        let remedy = remedy(name, &names, &plural);
        return Err(Fault::new(origin, format!("there is no {what} {}; {remedy}", quoted(name))));
    };
    let node = root.entries.iter_mut().find(|entry| entry.key == what).map(|entry| &mut entry.node);
    match node.map(|node| &mut node.data) {
        Some(Data::List(items)) => match &mut items[*index].data {
            Data::Table(table) => Ok(table),
            _ => unreachable!("only tables have names"),
        },
        _ => unreachable!("the name was found in a list"),
    }
}

/// The links, flows, hosts, middleboxes or events with their indices in the list and their names. The name of a
/// middlebox is that of its node, the name of an event its index.
pub(super) fn names(root: &Table, what: &str) -> Vec<(usize, String)> {
    let Some(Node { data: Data::List(items), .. }) = root.get(what) else { return Vec::new() };
    let name = |(index, item): (usize, &Node)| {
        let Data::Table(table) = &item.data else { return None };
        let name = match what {
            "event" => Some(index.to_string()),
            "middlebox" => table.text("node").map(str::to_owned),
            _ => name_of(table),
        };
        Some((index, name?))
    };
    items.iter().enumerate().filter_map(name).collect()
}

/// The name of a link or flow, given or derived from its ends.
pub(super) fn name_of(table: &Table) -> Option<String> {
    if let Some(name) = table.get("name") {
        return match &name.data {
            Data::Text(name) => Some(name.clone()),
            _ => None,
        };
    }
    if let (Some(from), Some(to)) = (table.text("from"), table.text("to")) {
        return Some(format!("{from}-{to}"));
    }
    match table.get("between").map(|node| &node.data) {
        Some(Data::List(nodes)) => match nodes.as_slice() {
            [Node { data: Data::Text(a), .. }, Node { data: Data::Text(b), .. }] => Some(format!("{a}-{b}")),
            _ => None,
        },
        _ => None,
    }
}

/// Follows `path` from `table`, which has the keys of `section`, and writes the value at its end.
pub(super) fn descend(
    mut table: &mut Table,
    section: &'static Section,
    path: &[&str],
    value: &str,
    origin: Origin,
) -> Result<(), Fault> {
    let fault = |message: String| Fault::new(origin, message);
    let mut parts = Parts::Of(section);
    let Some((last, way)) = path.split_last() else {
        let names = section.names(None).join(", ");
        return Err(fault(format!("the key of {} is missing; write one of {names}", section.title)));
    };
    for segment in way {
        let key = parts.find(segment).map_err(fault)?;
        parts = key.map_or(Parts::None, |key| Parts::below(&key.shape));
        if matches!(parts, Parts::None) {
            return Err(fault(format!("{} has no keys; remove the rest of the path", quoted(segment))));
        }
        let empty = || Node { origin, data: Data::Table(Table::default()) };
        let node = table.get_or_insert(segment, empty);
        if !matches!(node.data, Data::Table(_)) {
            *node = empty();
        }
        table = match &mut node.data {
            Data::Table(table) => table,
            _ => unreachable!("a table was inserted above"),
        };
    }
    let key = parts.find(last).map_err(fault)?;
    let node = read(value, key, origin);
    let slot = table.get_or_insert(last, || node.clone());
    *slot = node;
    Ok(())
}

/// The value as TOML if it is valid, otherwise as plain text, which avoids quotes in a shell.
fn read(value: &str, key: Option<&Key>, origin: Origin) -> Node {
    let text = || Node { origin, data: Data::Text(value.trim().to_owned()) };
    let is_text = key.is_none_or(|key| key.shape.is_text());
    match read_value(value, origin) {
        // `--set title=2024` is text, although TOML would read a number.
        Some(node) if is_text && !matches!(node.data, Data::Text(_)) => text(),
        Some(node) => node,
        None => text(),
    }
}

/// The possible continuations of a path.
enum Parts {
    Of(&'static Section),
    Kinds(&'static super::keys::Kinds),
    None,
}

impl Parts {
    fn below(shape: &'static Shape) -> Self {
        match shape {
            Shape::Section(section) => Self::Of(section()),
            Shape::Kinds(kinds) => Self::Kinds(kinds()),
            Shape::Either(shapes) => shapes
                .iter()
                .map(Self::below)
                .find(|parts| !matches!(parts, Self::None))
                .unwrap_or(Self::None),
            _ => Self::None,
        }
    }

    /// The key with this name; `None` for the tag of a kind, which is not a key.
    fn find(&self, name: &str) -> Result<Option<&'static Key>, String> {
        let (key, names) = match self {
            Self::Of(section) => (section.key(name, None), section.names(None)),
            Self::Kinds(kinds) if name == kinds.tag => return Ok(None),
            Self::Kinds(kinds) => {
                let mut names = vec![kinds.tag];
                for key in kinds.all.iter().flat_map(|kind| kind.section.keys()) {
                    if !names.contains(&key.name) {
                        names.push(key.name);
                    }
                }
                let key = kinds.all.iter().find_map(|kind| kind.section.key(name, None));
                (key, names)
            }
            Self::None => (None, Vec::new()),
        };
        key.map(Some).ok_or_else(|| {
            format!("there is no key {} here; {}", quoted(name), remedy(name, &names, "valid keys"))
        })
    }
}
