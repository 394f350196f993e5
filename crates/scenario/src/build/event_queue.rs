//! New queues of events. Each is completed from the queue that the link has at that time.

use super::{Source, link};
use crate::canonical;
use crate::check::{self, Context};
use crate::document::{Data, Entry, Node, Table, read_value};
use crate::error::{Fault, Origin};
use crate::keys::{Default, Key, Section, Shape};
use crate::merge::inherit;
use crate::model::{Change, Directions, Link, LinkEvent, Queue};
use crate::table::queue;

/// A section with the key `queue` only, to check the table of a queue.
static SET: Section = Section {
    title: "set = { … } of an event",
    doc: "",
    keys: &[&[Key::new("queue", Shape::Kinds(queue), Default::Nothing(""), "")]],
};

static EVENT: Section = Section {
    title: "[[event]]",
    doc: "",
    keys: &[&[Key::new("set", Shape::Section(|| &SET), Default::Nothing(""), "")]],
};

/// No queue reads files.
const NO_FILES: Source<'_> = Source { file: "", files: &|_| Err("an event reads no files".to_owned()) };

/// A table of an event, and its results.
#[derive(Debug)]
struct Written {
    table: Table,
    owner: String,
    /// Queues that the table has completed, with the results, since a repeated event often meets the same queue.
    known: Vec<(Queue, u32, Queue)>,
}

/// Present queues of all links, and the tables of events.
#[derive(Debug)]
pub(super) struct Queues {
    /// Forward and reverse, with the MTU.
    present: Vec<[(Queue, u32); 2]>,
    written: Vec<Written>,
}

impl Queues {
    /// The queues at the start.
    pub fn of(links: &[Link]) -> Self {
        let model = |model: &crate::model::LinkModel| (model.queue.clone(), model.mtu);
        let present = links.iter().map(|link| [model(&link.forward), model(&link.reverse)]).collect();
        Self { present, written: Vec::new() }
    }

    /// Checks the keys of a table that present queues will complete, and returns its index.
    pub fn add(&mut self, node: Node, owner: &str) -> Result<usize, Fault> {
        let context = Context { owner, protocol: None, complete: false };
        let table = table(node);
        check::section(&table, Origin::Nowhere, &EVENT, context)?;
        self.written.push(Written { table, owner: owner.to_owned(), known: Vec::new() });
        Ok(self.written.len() - 1)
    }

    /// Completes a table for each direction that changes; the results become the present queues.
    pub fn complete(
        &mut self,
        table: usize,
        link: usize,
        directions: Directions,
    ) -> Result<Vec<(Directions, Queue)>, Fault> {
        let mut new = Vec::new();
        for at in directions.ends() {
            let (present, mtu) = &mut self.present[link][at];
            *present = self.written[table].complete(present, *mtu)?;
            new.push((SIDES[at], present.clone()));
        }
        Ok(new)
    }

    /// Applies an event that is complete.
    pub fn apply(&mut self, event: &LinkEvent) {
        for change in &event.changes {
            if let Change::Queue(queue) = change {
                for at in event.directions.ends() {
                    self.present[event.link][at].0 = queue.clone();
                }
            }
        }
    }
}

const SIDES: [Directions; 2] = [Directions::Forward, Directions::Reverse];

/// Wraps the table of a queue as an event with that key only.
fn table(node: Node) -> Table {
    let only = |key: &str, node: Node| Table {
        entries: vec![Entry { key: key.to_owned(), origin: node.origin, node }],
    };
    let origin = node.origin;
    only("set", Node { origin, data: Data::Table(only("queue", node)) })
}

impl Written {
    fn complete(&mut self, present: &Queue, mtu: u32) -> Result<Queue, Fault> {
        if let Some((.., new)) = self.known.iter().find(|(old, of, _)| old == present && *of == mtu) {
            return Ok(new.clone());
        }
        let text = canonical::queue_by_share(present).toml();
        let node = read_value(&text, Origin::Nowhere).expect("a canonical queue is TOML");
        let complete = inherit(self.table.clone(), &table(node), &EVENT, None);
        let context = Context { owner: &self.owner, protocol: None, complete: true };
        let values = check::section(&complete, Origin::Nowhere, &EVENT, context)?;
        let new = link::queue(values.table("set").table("queue"), mtu, &self.owner, NO_FILES)?;
        self.known.push((present.clone(), mtu, new.clone()));
        Ok(new)
    }
}
