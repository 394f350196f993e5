//! Checks a tree against the table of keys and makes typed values of it.

use super::document::{Data, Node, Table, read_value};
use super::error::{Fault, Origin, is_hidden, one_line, quoted, shortened};
use super::keys::{Default, Key, Kind, Kinds, Section, Shape};
use super::model::{IpVersion, QueueLimit};
use super::quantity::{self, Family, PACKETS, RATE, SIZE, TIME};
use super::suggest::{nearest, remedy};
use super::values::{Checked, Value, Values};
use super::{choices, choices::Protocols, choices::of_kind};
use anabranch_base::time::Duration;
use anabranch_base::units::Rate;
use core::fmt;

/// The owner of the checked keys, and the mode of the check.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context<'a> {
    /// For example `link "beta"` or `[link_defaults]`; empty for the top of the file.
    pub owner: &'a str,
    /// The protocol of the flow, if there is one.
    pub protocol: Option<Protocols>,
    /// True if required keys must be given and defaults are filled in. False for tables that contain defaults.
    pub complete: bool,
}

/// The path to a value, for messages.
#[derive(Clone, Copy, Debug)]
struct Place<'a> {
    context: Context<'a>,
    parent: Option<&'a Place<'a>>,
    key: &'a str,
}

impl<'a> Place<'a> {
    fn below(&'a self, key: &'a str) -> Place<'a> {
        Place { context: self.context, parent: Some(self), key }
    }

    fn keys(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent.filter(|parent| !parent.key.is_empty()) {
            parent.keys(f)?;
            f.write_str(".")?;
        }
        f.write_str(self.key)
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.key, self.context.owner) {
            ("", "") => f.write_str("the scenario"),
            ("", owner) => f.write_str(owner),
            (_, "") => self.keys(f),
            (_, owner) => {
                self.keys(f)?;
                write!(f, " of {owner}")
            }
        }
    }
}

impl Context<'_> {
    /// The top of the file.
    pub fn top() -> Context<'static> {
        Context { owner: "", protocol: None, complete: true }
    }
}

/// Checks only the names of a table's keys.
pub(super) fn known_keys(
    table: &Table,
    section: &'static Section,
    context: Context<'_>,
) -> Result<(), Fault> {
    let place = Place { context, parent: None, key: "" };
    match table.entries.iter().find(|entry| section.key(&entry.key, context.protocol).is_none()) {
        None => Ok(()),
        Some(entry) => Err(Fault::new(entry.origin, unknown_key(&entry.key, section, &place))),
    }
}

/// Checks the keys of a table against a section.
pub(super) fn section(
    table: &Table,
    origin: Origin,
    section: &'static Section,
    context: Context<'_>,
) -> Result<Values, Fault> {
    let place = Place { context, parent: None, key: "" };
    section_at(table, origin, section, &place)
}

fn section_at(
    table: &Table,
    origin: Origin,
    section: &'static Section,
    place: &Place<'_>,
) -> Result<Values, Fault> {
    let Context { protocol, complete, .. } = place.context;
    let mut entries = Vec::with_capacity(section.keys().count());
    for entry in &table.entries {
        let Some(key) = section.key(&entry.key, protocol) else {
            return Err(Fault::new(entry.origin, unknown_key(&entry.key, section, place)));
        };
        let value = value_of(key, &entry.key, &entry.node, section, place)?;
        entries.push(Checked { key: key.name, origin: entry.node.origin, value });
    }
    if complete {
        let takes = |key: &&Key| protocol.is_none_or(|protocol| key.protocols.contains(protocol));
        for key in section.keys().filter(takes) {
            if entries.iter().any(|entry| entry.key == key.name) {
                continue;
            }
            if let Default::Required(example) = key.default {
                let example = written_assignment(key, example);
                return Err(Fault::new(origin, format!("{place} has no {}; add {example}", key.name)));
            }
            if !key.is_setting
                && let Some(value) = default_of(key, place)?
            {
                entries.push(Checked { key: key.name, origin: Origin::Nowhere, value });
            }
        }
    }
    Ok(Values { kind: None, entries })
}

/// The value of a key. A key may have variants for several protocols; if the protocol is not known yet, the first
/// variant that accepts the value counts.
fn value_of(
    key: &'static Key,
    name: &str,
    node: &Node,
    section: &'static Section,
    place: &Place<'_>,
) -> Result<Value, Fault> {
    let first = value(node, &key.shape, &place.below(key.name));
    if first.is_ok() || place.context.protocol.is_some() {
        return first;
    }
    let others = section.keys().filter(|other| other.name == name && !std::ptr::eq(*other, key));
    others
        .map(|other| value(node, &other.shape, &place.below(other.name)))
        .find(Result::is_ok)
        .unwrap_or(first)
}

fn written_assignment(key: &Key, example: &str) -> String {
    match key.shape {
        Shape::Tables(_) => format!("a {example} table"),
        _ => format!("{} = {example}", key.name),
    }
}

fn default_of(key: &'static Key, place: &Place<'_>) -> Result<Option<Value>, Fault> {
    let Some(text) = key.default_text(place.context.protocol) else {
        return Ok(None);
    };
    let node = read_value(text, Origin::Nowhere).expect("defaults are TOML");
    value(&node, &key.shape, &place.below(key.name)).map(Some)
}

fn unknown_key(name: &str, section: &'static Section, place: &Place<'_>) -> String {
    let shown = quoted(name);
    if let Some(protocol) = place.context.protocol {
        let others: Vec<_> =
            section.keys().filter(|key| key.name == name).flat_map(|key| key.protocols.names()).collect();
        if !others.is_empty() {
            let this = protocol.names().join(", ");
            return format!(
                "{place} is {this}, which does not take {shown}; only {} flows do",
                others.join(", ")
            );
        }
    }
    let valid = section.names(place.context.protocol);
    // Check for the same key on another level, which is a likelier mistake than a misspelling.
    if nearest(name, valid.iter().copied()).is_none() {
        if let Some(home) = home_of(name) {
            return format!("{place} does not take {shown}; it belongs to {home}");
        }
        if valid.is_empty() {
            return format!("{place} does not take {shown}; remove it");
        }
    }
    format!("unknown key {shown} in {place}; {}", remedy(name, &valid, "valid keys"))
}

/// The word for an automatic buffer size.
const AUTO_BUFFER: &str = "auto";

/// The section that has a key, for a hint.
fn home_of(name: &str) -> Option<&'static str> {
    let sections = [
        &super::table::ROOT,
        &super::table::LINK,
        super::table::flow(),
        &super::table::HOST,
        &super::table::ROUTER,
        &super::table::EVENT,
    ];
    let home = sections.into_iter().find(|section| section.key(name, None).is_some())?;
    Some(if std::ptr::eq(home, &raw const super::table::ROOT) { "the top of the file" } else { home.title })
}

/// Checks a value against a shape.
fn value(node: &Node, shape: &'static Shape, place: &Place<'_>) -> Result<Value, Fault> {
    match shape {
        Shape::Text => {
            text(node, place, &|| "a text in quotes".to_owned()).map(|text| Value::Text(text.to_owned()))
        }
        Shape::Name => name(node, place),
        Shape::Path => path(node, place),
        Shape::Flag => match node.data {
            Data::Flag(flag) => Ok(Value::Flag(flag)),
            _ => Err(mismatch(node, place, "true or false")),
        },
        Shape::Integer { min, max } => integer(node, (*min, *max), place).map(Value::Integer),
        Shape::Number { .. } | Shape::Above { .. } => number(node, shape, place),
        Shape::Time { zero } => {
            let nanos = quantity_of(node, &[&TIME], *zero, place)?.0;
            Ok(Value::Time(Duration::from_nanos(nanos)))
        }
        Shape::Rate { zero } => {
            let bits = quantity_of(node, &[&RATE], *zero, place)?.0;
            Ok(Value::Rate(Rate::from_bits_per_second(bits)))
        }
        Shape::Size => quantity_of(node, &[&SIZE], false, place).map(|(bytes, _)| Value::Size(bytes)),
        Shape::Buffer => match &node.data {
            Data::Text(text) if text == AUTO_BUFFER => Ok(Value::Text(text.clone())),
            _ => value(node, &Shape::Size, place),
        },
        Shape::Octets { min, max } => octets(node, (*min, *max), place),
        Shape::Limit => {
            let (value, family) = quantity_of(node, &[&PACKETS, &SIZE], false, place)?;
            let limit = if family == 0 { QueueLimit::Packets(value) } else { QueueLimit::Bytes(value) };
            Ok(Value::Limit(limit))
        }
        Shape::Packets => {
            quantity_of(node, &[&PACKETS], false, place).map(|(count, _)| Value::Integer(count))
        }
        Shape::OneOf(list) => one_of(node, &list(), place),
        Shape::Words(words) => one_of(node, &of_kind(words), place),
        Shape::PathManager => path_manager(node, place),
        Shape::Section(section) => {
            section_at(table(node, place)?, node.origin, section(), place).map(Value::Table)
        }
        Shape::Kinds(kinds) => tagged(node, kinds(), place).map(Value::Table),
        Shape::List { of, min, max } => list(node, of, (*min, *max), place),
        Shape::Tables(section) => Err(mismatch(node, place, &format!("a {} table", section().title))),
        Shape::Either(shapes) => either(node, shapes, place),
    }
}

fn mismatch(node: &Node, place: &Place<'_>, wanted: &str) -> Fault {
    Fault::new(node.origin, format!("{place} is {}; write {wanted}", node.described()))
}

/// The text of a value; `wanted` is its notation in words.
fn text<'n>(node: &'n Node, place: &Place<'_>, wanted: &dyn Fn() -> String) -> Result<&'n str, Fault> {
    match &node.data {
        Data::Text(text) => match text.chars().find(|&letter| is_hidden(letter)) {
            None => Ok(text),
            Some(hidden) => {
                let message =
                    format!("{place} has the control character {}; remove it", hidden.escape_debug());
                Err(Fault::new(node.origin, message))
            }
        },
        _ => Err(mismatch(node, place, &wanted())),
    }
}

/// A name in words.
fn any_name() -> String {
    "a name in quotes".to_owned()
}

fn name(node: &Node, place: &Place<'_>) -> Result<Value, Fault> {
    /// Names appear in tables and figures.
    const MAX_NAME_CHARS: usize = 100;
    let text = text(node, place, &any_name)?;
    let valid = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    if text.is_empty() || !text.chars().all(valid) || text.chars().nth(MAX_NAME_CHARS).is_some() {
        let shown = quoted(text);
        let rule = format!("names consist of 1 to {MAX_NAME_CHARS} letters, digits, \"-\" and \"_\"");
        return Err(Fault::new(node.origin, format!("{place} is {shown}; {rule}")));
    }
    Ok(Value::Text(text.to_owned()))
}

/// The link that a name selects, and the version of IP if the name ends with one.
pub(super) fn link_and_version(name: &str) -> (&str, Option<IpVersion>) {
    let ends_with = |version: IpVersion| Some((name.strip_suffix(version.suffix())?, Some(version)));
    [IpVersion::V4, IpVersion::V6].into_iter().find_map(ends_with).unwrap_or((name, None))
}

/// A name that may end with a version of IP.
fn path(node: &Node, place: &Place<'_>) -> Result<Value, Fault> {
    let text = text(node, place, &any_name)?;
    let (link, _) = link_and_version(text);
    name(&Node { data: Data::Text(link.to_owned()), origin: node.origin }, place)?;
    Ok(Value::Text(text.to_owned()))
}

fn integer(node: &Node, (min, max): (u64, u64), place: &Place<'_>) -> Result<u64, Fault> {
    let wanted = || {
        if max > u64::from(u32::MAX) {
            format!("a whole number from {min}")
        } else {
            format!("a whole number from {min} to {max}")
        }
    };
    match node.data {
        Data::Integer(number) => {
            let valid = u64::try_from(number).ok().filter(|number| (min..=max).contains(number));
            valid.ok_or_else(|| Fault::new(node.origin, format!("{place} is {number}; write {}", wanted())))
        }
        // An override is text if TOML has no such number.
        Data::Text(ref digits) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            let message =
                format!("{place} is {}; write a whole number from {min} to {max}", shortened(digits));
            Err(Fault::new(node.origin, message))
        }
        _ => Err(mismatch(node, place, &wanted())),
    }
}

fn number(node: &Node, shape: &Shape, place: &Place<'_>) -> Result<Value, Fault> {
    let wanted = || match shape {
        Shape::Number { min, max } => format!("a number from {min} to {max}"),
        Shape::Above { min } => format!("a number above {min}"),
        _ => unreachable!("only numbers are passed"),
    };
    let number = match node.data {
        Data::Integer(number) => number as f64,
        Data::Float(number) => number,
        _ => return Err(mismatch(node, place, &wanted())),
    };
    let is_valid = match shape {
        Shape::Number { min, max } => (*min..=*max).contains(&number),
        Shape::Above { min } => number > *min && number.is_finite(),
        _ => unreachable!("only numbers are passed"),
    };
    if is_valid {
        return Ok(Value::Number(number));
    }
    Err(Fault::new(node.origin, format!("{place} is {number}; write {}", wanted())))
}

/// The value in the base unit, and the family of its unit.
fn quantity_of(
    node: &Node,
    families: &[&'static Family],
    zero: bool,
    place: &Place<'_>,
) -> Result<(u64, usize), Fault> {
    let fault = |message: String| Fault::new(node.origin, message);
    let text = match &node.data {
        Data::Text(text) => text,
        Data::Integer(number) => {
            let completed = quantity::with_unit(&number.unsigned_abs().to_string(), families);
            let problem = if *number < 0 { "is negative and has no unit" } else { "has no unit" };
            return Err(fault(format!("{place} is {number}, which {problem}; write {completed}")));
        }
        Data::Float(number) => {
            let completed = quantity::with_unit(&number.abs().to_string(), families);
            let problem = if *number < 0.0 { "is negative and has no unit" } else { "has no unit" };
            return Err(fault(format!("{place} is {number}, which {problem}; write {completed}")));
        }
        _ => return Err(mismatch(node, place, &quantity::wanted(families))),
    };
    let quantity = quantity::parse(text, families).map_err(|problem| fault(format!("{place}: {problem}")))?;
    if quantity.value == 0 && !zero {
        let example = families[quantity.family].example;
        return Err(fault(format!(
            "{place} is {}, but must be greater than 0; write for example \"{example}\"",
            quoted(text)
        )));
    }
    Ok((quantity.value, quantity.family))
}

fn octets(node: &Node, (min, max): (u64, u64), place: &Place<'_>) -> Result<Value, Fault> {
    let bytes = match node.data {
        Data::Integer(_) => return integer(node, (min, max), place).map(Value::Integer),
        Data::Text(_) => quantity_of(node, &[&SIZE], true, place)?.0,
        _ => return Err(mismatch(node, place, &format!("a number of bytes from {min} to {max}"))),
    };
    if (min..=max).contains(&bytes) {
        return Ok(Value::Integer(bytes));
    }
    Err(Fault::new(node.origin, format!("{place} is {bytes} bytes; write {min} to {max} bytes")))
}

fn one_of(node: &Node, list: &[choices::Choice], place: &Place<'_>) -> Result<Value, Fault> {
    let names = || list.iter().map(|choice| choice.name).collect::<Vec<_>>();
    let word = text(node, place, &|| format!("one of {}", names().join(", ")))?;
    let found = list.iter().find(|choice| choice.name == word || choice.aliases.contains(&word));
    if let Some(choice) = found {
        return Ok(Value::Text(choice.name.to_owned()));
    }
    let message = if place.key == "scheduler" && choices::schedulers().iter().any(|other| other.name == word)
    {
        let names = names().join(", ");
        format!("{place} is {}, which only mptcp supports; the valid values are {names}", quoted(word))
    } else {
        format!("{place} is {}; {}", quoted(word), remedy(word, &names(), "valid values"))
    };
    Err(Fault::new(node.origin, message))
}

fn path_manager(node: &Node, place: &Place<'_>) -> Result<Value, Fault> {
    let list = choices::path_managers();
    let usages: Vec<_> = list.iter().map(|choice| choice.name).collect();
    let word = text(node, place, &|| format!("one of {}", usages.join(", ")))?;
    match anabranch_multipath::path_manager::parse(word) {
        Ok(_) => Ok(Value::Text(word.to_owned())),
        Err(reason) => {
            let stem = |text: &'static str| text.split(':').next().unwrap_or(text);
            let given = word.split(':').next().unwrap_or(word);
            let known = usages.iter().any(|usage| stem(usage) == given);
            let near = nearest(given, usages.iter().map(|usage| stem(usage)));
            let message = match near {
                // The name of the path manager is valid, so its parameter is wrong. The path manager's message
                // contains the reason.
                _ if known => format!("{place}: {}", one_line(&reason)),
                Some(near) => {
                    format!("{place} is {}; did you mean {}?", quoted(word), quoted(near))
                }
                None => format!("{place} is {}; the valid values are {}", quoted(word), usages.join(", ")),
            };
            Err(Fault::new(node.origin, message))
        }
    }
}

fn table<'n>(node: &'n Node, place: &Place<'_>) -> Result<&'n Table, Fault> {
    match &node.data {
        Data::Table(table) => Ok(table),
        _ => Err(mismatch(node, place, &format!("a table: {} = {{ … }}", place.key))),
    }
}

fn list(
    node: &Node,
    of: &'static Shape,
    (min, max): (usize, usize),
    place: &Place<'_>,
) -> Result<Value, Fault> {
    let Data::List(items) = &node.data else {
        return Err(mismatch(node, place, &format!("a list, as in {}", example(of))));
    };
    if !(min..=max).contains(&items.len()) {
        let wanted = if min == max { format!("exactly {min}") } else { format!("from {min} to {max}") };
        let found = items.len();
        return Err(Fault::new(
            node.origin,
            format!(
                "{place} has the wrong number of values ({found}); write {wanted}, as in {}",
                example(of)
            ),
        ));
    }
    items.iter().map(|item| value(item, of, place)).collect::<Result<_, _>>().map(Value::List)
}

/// An example of a list of this shape.
fn example(shape: &Shape) -> &'static str {
    match shape {
        Shape::Size => "[\"500 B\", \"1452 B\"]",
        Shape::Integer { .. } => "[1, 7]",
        _ => "[\"A\", \"B\"]",
    }
}

/// Checks a value with several possible shapes; the TOML type of the value determines the shape.
fn either(node: &Node, shapes: &'static [Shape], place: &Place<'_>) -> Result<Value, Fault> {
    let is_number = matches!(node.data, Data::Integer(_) | Data::Float(_));
    let quantity = |shape: &&Shape| {
        matches!(shape, Shape::Time { .. } | Shape::Rate { .. } | Shape::Size | Shape::Limit)
    };
    let of_type = |shape: &&Shape| match shape {
        Shape::Flag => matches!(node.data, Data::Flag(_)),
        Shape::Integer { .. } | Shape::Number { .. } => is_number,
        Shape::Section(_) => matches!(node.data, Data::Table(_)),
        Shape::List { .. } => matches!(node.data, Data::List(_)),
        _ => matches!(node.data, Data::Text(_)),
    };
    if let Some(found) = word_or_quantity(node, shapes, place) {
        return found;
    }
    // A bare number lacks its unit if a quantity is allowed, and the message should report that.
    let shape = shapes.iter().find(of_type).or_else(|| shapes.iter().filter(|_| is_number).find(quantity));
    if let Some(shape) = shape {
        return value(node, shape, place);
    }
    Err(mismatch(node, place, &any_of(shapes)))
}

/// Several shapes in words.
fn any_of(shapes: &[Shape]) -> String {
    shapes.iter().map(super::describe::shape).collect::<Vec<_>>().join(", or ")
}

/// The word or the time in a text; `None` if the key has only one of these forms, or the value is not a text.
fn word_or_quantity(
    node: &Node,
    shapes: &'static [Shape],
    place: &Place<'_>,
) -> Option<Result<Value, Fault>> {
    let Data::Text(text) = &node.data else { return None };
    let words = shapes.iter().find(|shape| matches!(shape, Shape::OneOf(_)))?;
    let quantity = shapes.iter().find(|shape| matches!(shape, Shape::Time { .. }))?;
    let is_quantity =
        text.trim_start().starts_with(|first: char| first.is_ascii_digit() || ".-+".contains(first));
    if is_quantity {
        return Some(value(node, quantity, place));
    }
    Some(value(node, words, place).map_err(|_| mismatch(node, place, &any_of(shapes))))
}

/// A table whose tag determines its other keys.
fn tagged(node: &Node, kinds: &'static Kinds, place: &Place<'_>) -> Result<Values, Fault> {
    let table = table(node, place)?;
    let tag = table.get(kinds.tag);
    let name = match tag {
        Some(tag) => {
            let words = || kinds.all.iter().map(Kind::choice).collect::<Vec<_>>();
            match one_of(tag, &words(), &place.below(kinds.tag))? {
                Value::Text(word) => Some(word),
                _ => unreachable!("a name is text"),
            }
        }
        None => kinds.default.map(str::to_owned),
    };
    let Some(name) = name.or_else(|| (!place.context.complete).then(|| kinds.all[0].name.to_owned())) else {
        let names = kinds.names();
        let example = format!("{} = \"{}\"", kinds.tag, names[names.len().min(2) - 1]);
        let all = names.join(", ");
        return Err(Fault::new(
            node.origin,
            format!("{place} has no {0}; add {example} or another {0} of {all}", kinds.tag),
        ));
    };
    let open = tag.is_none() && !place.context.complete;
    let kind = kinds.kind(&name).expect("the kind was checked against the same list");
    let mut rest = Table::default();
    for entry in table.entries.iter().filter(|entry| entry.key != kinds.tag) {
        if kind.section.key(&entry.key, None).is_none() {
            let others = kinds.all.iter().filter(|other| other.section.key(&entry.key, None).is_some());
            let others: Vec<_> = others.collect();
            // If the kind is inherited, the keys of any kind are allowed.
            if open && let Some(other) = others.first() {
                let key = other.section.key(&entry.key, None).expect("the search has found this key");
                value(&entry.node, &key.shape, &place.below(key.name))?;
                continue;
            }
            if !others.is_empty() {
                let shown = quoted(&entry.key);
                let others: Vec<_> = others.iter().map(|other| quoted(other.name)).collect();
                return Err(Fault::new(
                    entry.origin,
                    format!(
                        "{place} is {}, which does not take {shown}; only {} does",
                        quoted(&name),
                        others.join(", ")
                    ),
                ));
            }
        }
        rest.entries.push(entry.clone());
    }
    let values = section_at(&rest, node.origin, &kind.section, place)?;
    Ok(Values { kind: Some(kind.name), ..values })
}
