//! Inheritance of a table from a table of defaults.

use super::choices::Protocols;
use super::document::{Data, Entry, Node, Table};
use super::keys::{Kinds, Section, Shape};

/// Adds to `own` the missing keys of `defaults` that `section` has (for flows of `protocol`). Tables are
/// completed key by key.
pub(super) fn inherit(
    mut own: Table,
    defaults: &Table,
    section: &'static Section,
    protocol: Option<Protocols>,
) -> Table {
    for entry in &defaults.entries {
        let Some(key) = section.key(&entry.key, protocol) else {
            continue;
        };
        match own.entries.iter_mut().find(|mine| mine.key == entry.key) {
            Some(mine) => complete(&mut mine.node, &entry.node, &key.shape),
            None => own.entries.push(entry.clone()),
        }
    }
    own
}

fn complete(own: &mut Node, defaults: &Node, shape: &'static Shape) {
    let (Data::Table(mine), Data::Table(theirs)) = (&mut own.data, &defaults.data) else {
        return;
    };
    match shape {
        Shape::Section(section) => {
            let inherited = inherit(std::mem::take(mine), theirs, section(), None);
            *mine = inherited;
        }
        Shape::Kinds(kinds) => complete_kind(mine, theirs, kinds()),
        // The alternatives have different types or exclude each other, so a given value is not completed.
        _ => {}
    }
}

/// A table of the same kind inherits everything; one of another kind inherits the common keys.
fn complete_kind(own: &mut Table, defaults: &Table, kinds: &'static Kinds) {
    let same = match (own.text(kinds.tag), defaults.text(kinds.tag)) {
        (None, _) => true,
        (Some(mine), theirs) => Some(mine) == theirs.or(kinds.default),
    };
    let other = own.text(kinds.tag).and_then(|name| kinds.kind(name));
    let inherits = |entry: &&Entry| {
        let known = || other.is_some_and(|kind| kind.section.key(&entry.key, None).is_some());
        own.get(&entry.key).is_none() && (same || known())
    };
    let inherited: Vec<_> = defaults.entries.iter().filter(inherits).cloned().collect();
    own.entries.extend(inherited);
}
