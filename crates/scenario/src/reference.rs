//! The reference page, generated from the table of keys; the hand-written part is `reference_intro.md`.

use super::choices::{Choice, Protocols};
use super::describe;
use super::keys::{Key, Kinds, Section, Shape};
use super::table::{EVENT, HOST, LINK, LINK_DEFAULTS, MIDDLEBOX, ROOT, ROUTER, TESTBED, flow, flow_defaults};
use super::{catalogue, quantity};
use core::fmt::Write;

/// The reference page of scenario files, in Markdown.
pub fn reference() -> String {
    let mut page = Page { text: include_str!("reference_intro.md").to_owned(), written: Vec::new() };
    page.units();
    page.section(&ROOT, "##");
    page.prose(&LINK_DEFAULTS, "##");
    page.section(&LINK, "##");
    page.prose(flow_defaults(), "##");
    page.section(flow(), "##");
    page.section(&HOST, "##");
    page.section(&ROUTER, "##");
    page.section(&MIDDLEBOX, "##");
    page.section(&EVENT, "##");
    page.section(&TESTBED, "##");
    page.lists();
    page.text
}

/// The text of the page, and the tables that it already describes.
struct Page {
    text: String,
    written: Vec<&'static str>,
}

impl Page {
    fn line(&mut self, line: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{line}");
    }

    fn units(&mut self) {
        self.line("\n## Units\n\n| quantity | units | example |\n|---|---|---|");
        for family in [&quantity::TIME, &quantity::RATE, &quantity::SIZE, &quantity::PACKETS] {
            self.line(&format!("| {} | {} | `\"{}\"` |", family.what, family.unit_names(), family.example));
        }
    }

    fn prose(&mut self, section: &'static Section, level: &str) {
        self.line(&format!("\n{level} `{}`\n\n{}", section.title, section.doc));
    }

    /// A section, its table of keys, and the tables of its keys.
    fn section(&mut self, section: &'static Section, level: &str) {
        if std::ptr::eq(section, &raw const ROOT) {
            self.line(&format!("\n{level} {}\n\n{}", section.title, section.doc));
        } else {
            self.prose(section, level);
        }
        self.keys(section);
        for key in section.keys() {
            self.below(&key.shape);
        }
    }

    fn keys(&mut self, section: &'static Section) {
        let by_protocol = section.keys().any(|key| key.protocols != Protocols::ALL);
        let (head, rule) = if by_protocol { (" flows |", "---|") } else { ("", "") };
        self.line(&format!("\n| key | takes | default |{head} meaning |\n|---|---|---|{rule}---|"));
        for key in section.keys() {
            let protocols = match (by_protocol, key.protocols) {
                (false, _) => String::new(),
                (true, Protocols::ALL) => " all |".into(),
                (true, some) => format!(" {} |", some.names().join(", ")),
            };
            let takes = takes(key);
            let default = escaped(&describe::default(key));
            self.line(&format!("| `{}` | {takes} | {default} |{protocols} {} |", key.name, escaped(key.doc)));
        }
    }

    /// The tables of a key, each described once.
    fn below(&mut self, shape: &'static Shape) {
        match shape {
            Shape::Section(section) if is_below(section()) && self.is_new(section().title) => {
                self.section(section(), "###");
            }
            Shape::Kinds(kinds) if self.is_new(kinds().what) => self.kinds(kinds()),
            Shape::Either(shapes) => shapes.iter().for_each(|shape| self.below(shape)),
            _ => {}
        }
    }

    fn is_new(&mut self, title: &'static str) -> bool {
        let new = !self.written.contains(&title);
        if new {
            self.written.push(title);
        }
        new
    }

    fn kinds(&mut self, kinds: &'static Kinds) {
        self.line(&format!("\n### `{} = {{ {} = … }}`", kinds.what, kinds.tag));
        for kind in kinds.all {
            let source = if kind.source.is_empty() { String::new() } else { format!(" ({})", kind.source) };
            self.line(&format!("\n`{} = \"{}\"`: {}{source}.", kinds.tag, kind.name, kind.section.doc));
            if kind.section.keys().next().is_some() {
                self.keys(&kind.section);
            }
        }
        for key in kinds.all.iter().flat_map(|kind| kind.section.keys()) {
            self.below(&key.shape);
        }
    }

    /// Lists of the words of scenarios.
    fn lists(&mut self) {
        let lists = [
            ("Protocols", "protocols"),
            ("Congestion controls", "congestion"),
            ("Schedulers", "schedulers"),
            ("Path managers", "path-managers"),
        ];
        for (title, list) in lists {
            self.line(&format!("\n## {title}\n\n| name | what it does | source |\n|---|---|---|"));
            for choice in catalogue::choices(list) {
                let names: Vec<_> = std::iter::once(&choice.name)
                    .chain(choice.aliases)
                    .map(|name| format!("`{name}`"))
                    .collect();
                let (summary, source) = (escaped(choice.summary), escaped(choice.source));
                self.line(&format!("| {} | {summary} | {source} |", names.join(", ")));
            }
        }
    }
}

/// Sections of the top level have headings of their own.
fn is_below(section: &'static Section) -> bool {
    ![&LINK_DEFAULTS, flow_defaults(), &TESTBED].into_iter().any(|top| std::ptr::eq(top, section))
        && section.title != "reverse = { … } of a link"
}

/// The values of a key; long lists of words are replaced by a link to their section.
fn takes(key: &Key) -> String {
    match key.name {
        "congestion" => "a [congestion control](#congestion-controls)".into(),
        "scheduler" => format!("a [scheduler](#schedulers){}", exceptions(&key.shape)),
        _ => describe::briefly(&key.shape),
    }
}

/// The schedulers that a key excludes.
fn exceptions(shape: &Shape) -> String {
    let Shape::OneOf(taken) = shape else { return String::new() };
    let taken = taken();
    let is_missing = |choice: &Choice| taken.iter().all(|other| other.name != choice.name);
    let missing = catalogue::choices("schedulers").into_iter().filter(is_missing);
    let missing: Vec<_> = missing.map(|choice| format!("`{}`", choice.name)).collect();
    if missing.is_empty() { String::new() } else { format!(" but {}", missing.join(", ")) }
}

/// Bars end a cell.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
}
