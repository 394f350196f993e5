//! Error messages with the file's name and the line number.

use crate::error::Error;
use core::ops::Range;

/// The text of a file, and its name.
#[derive(Clone, Copy)]
pub struct Text<'a> {
    /// The text.
    pub text: &'a str,
    /// Name of the file.
    pub file: &'a str,
}

impl Text<'_> {
    /// Creates an error at a position of the file, as one line.
    pub fn error(&self, place: Option<Range<usize>>, message: &str) -> Error {
        let message = translate_message(&message.lines().collect::<Vec<_>>().join(", "));
        let Some(place) = place else { return Error::Input(format!("{}: {message}", self.file)) };
        let before = self.text.get(..place.start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let key = key_before(before).filter(|_| is_about_a_value(&message));
        let key = key.map_or_else(String::new, |key| format!("{key}: "));
        Error::Input(format!("{}:{line}: {key}{message}", self.file))
    }
}

/// Returns the key of the value that follows a text, if both are on one line.
fn key_before(text: &str) -> Option<&str> {
    let line = text.rsplit('\n').next()?;
    let (mut last_in_table, mut open_quote) = (vec![None], None);
    for (at, letter) in line.char_indices() {
        match letter {
            _ if open_quote == Some(letter) => open_quote = None,
            _ if open_quote.is_some() => {}
            '"' | '\'' => open_quote = Some(letter),
            '{' => last_in_table.push(None),
            '}' => drop(last_in_table.pop()),
            '=' => last_in_table.last_mut().into_iter().for_each(|last| *last = Some(at)),
            _ => {}
        }
    }
    let before = line[..last_in_table.into_iter().flatten().next_back()?].trim_end();
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
    before.rsplit(|letter| !is_part(letter)).next().filter(|key| !key.is_empty())
}

/// True for a message about the type or form of a value. Such a message names the value, but not its key.
fn is_about_a_value(message: &str) -> bool {
    ["expected ", "not an IP address", "unknown value "].iter().any(|start| message.starts_with(start))
}

/// Translates a message of the TOML parser: names are in quotation marks, and types have the names that TOML uses.
fn translate_message(message: &str) -> String {
    explain_key_or_value(message)
        .or_else(|| explain_syntax(message))
        .unwrap_or_else(|| message.replace('`', "\""))
}

/// Keys of `[limits]`. Users sometimes write them in another table.
const LIMITS: [&str; 7] = [
    "handshake_timeout",
    "connect_timeout",
    "max_connections",
    "max_per_source",
    "drain_timeout",
    "keep_alive",
    "idle_timeout",
];

/// Explains a message about a key or a value.
fn explain_key_or_value(message: &str) -> Option<String> {
    let (names, rest) = (quoted(message), message.split_once("`, ").map_or("", |(_, rest)| rest));
    let valid = names.get(1..).unwrap_or_default();
    if message.starts_with("unknown field ") && names.first().is_some_and(|name| LIMITS.contains(name)) {
        return Some(format!("\"{}\" does not belong here; write it in [limits]", names.first()?));
    }
    if message.starts_with("unknown field ") {
        return Some(format!(
            "unknown key \"{}\"; {}",
            names.first()?,
            remedy(names.first()?, valid, "valid keys")
        ));
    }
    if message.starts_with("unknown variant ") && rest.starts_with("expected ") {
        return Some(format!(
            "unknown value \"{}\"; {}",
            names.first()?,
            remedy(names.first()?, valid, "valid values")
        ));
    }
    if message.starts_with("missing field ") {
        let key = names.first()?;
        return Some(format!("the key \"{key}\" is missing; add: {}", example(key)));
    }
    match message {
        "invalid socket address syntax" => {
            return Some(
                "not an IP address with a port; write for example 127.0.0.1:1080 or [::1]:1080".to_owned(),
            );
        }
        "invalid IP address syntax" => {
            return Some("not an IP address; write for example 192.0.2.1 or 2001:db8::1".to_owned());
        }
        "wanted string or table" => return Some(format!("expected {TEXT}")),
        "duplicate key" => {
            return Some("this key is given twice in the table; remove one of the two".to_owned());
        }
        _ => {}
    }
    let mismatch = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    let (found, expected) = mismatch?.rsplit_once(", expected ")?;
    Some(format!("expected {}, but found {}", describe_expected(found, expected), describe_found(found)))
}

/// Explains a message about the syntax of TOML.
fn explain_syntax(message: &str) -> Option<String> {
    let (problem, _) = message.split_once(", expected ")?;
    Some(match problem {
        "unclosed table" | "unclosed array of tables" => {
            "the name of a table has no closing bracket; write [name] or [[name]]".to_owned()
        }
        "unclosed array" => "a list has no closing bracket; write [\"one\", \"another\"]".to_owned(),
        "string values must be quoted" => "a text needs quotation marks; write \"text\"".to_owned(),
        other => format!("not valid TOML: {}; see https://toml.io", other.replace('`', "\"")),
    })
}

/// Suggests the valid name with the nearest spelling, or lists all valid names.
fn remedy(name: &str, valid: &[&str], label: &str) -> String {
    match nearest(name, valid) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => format!("{label}: {}", valid.join(", ")),
    }
}

/// Returns the valid name with the nearest spelling to `name`. At most a third of the letters, and at most four, may
/// differ.
pub fn nearest<'a>(name: &str, valid: &[&'a str]) -> Option<&'a str> {
    let distance = |candidate: &str| strsim::damerau_levenshtein(&name.to_lowercase(), candidate);
    let near = valid.iter().map(|&candidate| (distance(candidate), candidate));
    let tolerance = name.chars().count().div_ceil(3).min(4);
    near.filter(|(distance, _)| *distance <= tolerance)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Returns the names that stand in backquotes in a message.
fn quoted(message: &str) -> Vec<&str> {
    message.split('`').skip(1).step_by(2).collect()
}

/// Returns an example line for a required key.
fn example(key: &str) -> &'static str {
    match key {
        "name" => "name = \"a name\"",
        "password" => "password = \"a long password\"",
        "proxy" => "proxy = \"proxy.example.org:1080\"",
        "via" => "a table [router.via] with proxy = \"proxy.example.org:1080\"",
        "interfaces" => "interfaces = [\"lan0\"]",
        "interface" => "interface = \"wlan0\"",
        "listen" => "listen = [\"0.0.0.0:443\"]",
        "to" => "to = [\"192.0.2.1:443\"]",
        "bytes" => "bytes = \"20 GB\"",
        _ => "it; see the shipped example file",
    }
}

/// Expected form of a setting that is a string.
const TEXT: &str = "a text in quotation marks (with a unit for an amount, such as \"10 s\")";

fn describe_expected<'a>(found: &str, expected: &'a str) -> &'a str {
    match expected {
        "a sequence" if found == "map" => "a list of tables, each with the heading [[name]]",
        "a sequence" => "a list, such as [\"one\", \"another\"]",
        "a string" => TEXT,
        "a boolean" => "true or false",
        "i8" => "a whole number up to 127",
        "u16" => "a whole number up to 65535",
        "u32" => "a whole number up to 4294967295",
        "usize" => "a whole number from 0",
        "a map" => "a table",
        other if other.starts_with("struct ") => "a table",
        other => other,
    }
}

/// Describes the value in the file, with its type in TOML.
fn describe_found(found: &str) -> String {
    let kinds = [
        ("string ", "the text "),
        ("integer ", "the number "),
        ("floating point ", "the number "),
        ("boolean ", ""),
    ];
    let plain = kinds.iter().find_map(|(kind, plain)| Some(format!("{plain}{}", found.strip_prefix(kind)?)));
    plain.unwrap_or_else(|| found.replace("map", "a table").replace("sequence", "a list")).replace('`', "")
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    #[test]
    fn unknown_key_suggests_nearest_spelling() {
        for (text, message) in [
            ("[socks]\nlistne = []", "2: unknown key \"listne\"; did you mean \"listen\"?"),
            (
                "[socks]\nconnect_timeout = \"5 s\"",
                "2: \"connect_timeout\" does not belong here; write it in [limits]",
            ),
            ("[scoks]", "1: unknown key \"scoks\"; did you mean \"socks\"?"),
            ("[watch]\nport = 1", "2: unknown key \"port\"; valid keys: listen, beyond_loopback"),
            (
                "[socks.via]\nproxy = \"a:1\"\nprotocol = \"sock\"",
                "3: protocol: unknown value \"sock\"; did you mean \"socks\"?",
            ),
            (
                "[socks.via]\nproxy = \"a:1\"\nprotocol = \"http\"",
                "3: protocol: unknown value \"http\"; valid values: socks, convert",
            ),
            (
                "[[socks.user]]\nname = \"a\"",
                "1: the key \"password\" is missing; add: password = \"a long password\"",
            ),
            (
                "[socks]\nlisten = []\nlisten = []",
                "3: this key is given twice in the table; remove one of the two",
            ),
            ("[socks\n", "1: the name of a table has no closing bracket; write [name] or [[name]]"),
            ("[socks]\nlisten = abc", "2: a text needs quotation marks; write \"text\""),
        ] {
            let error = Config::parse(text, "proxy.toml").expect_err(text).to_string();
            assert_eq!(error, format!("proxy.toml:{message}"));
        }
    }

    #[test]
    fn key_belongs_to_the_value_after_it() {
        for (before, key) in [
            ("a = 1\nlisten = ", Some("listen")),
            ("to = [{ to = \"x=y\", weight = ", Some("weight")),
            ("to = [{ to = \"x\", weight = 2 }, ", Some("to")),
            ("to = [\"x=y\", ", Some("to")),
            ("to = ['x=\"', ", Some("to")),
            ("to = [\n  ", None),
            ("[reverse", None),
        ] {
            assert_eq!(super::key_before(before), key, "{before}");
        }
    }

    #[test]
    fn wrong_type_has_its_toml_name() {
        for (text, message) in [
            (
                "[socks]\nlisten = \"127.0.0.1:1080\"",
                "2: listen: expected a list, such as [\"one\", \"another\"], but found the text \"127.0.0.1:1080\"",
            ),
            (
                "[socks]\nlisten = [\"localhost:1080\"]",
                "2: listen: not an IP address with a port; write for example 127.0.0.1:1080 or [::1]:1080",
            ),
            (
                "[limits]\nhandshake_timeout = 10",
                "2: handshake_timeout: expected a text in quotation marks (with a unit for an amount, such as \"10 s\"), but found the number 10",
            ),
            (
                "[limits]\nmax_connections = -1",
                "2: max_connections: expected a whole number from 0, but found the number -1",
            ),
            (
                "[router]\nport = 70000",
                "2: port: expected a whole number up to 65535, but found the number 70000",
            ),
            (
                "[socks]\nmultipath_upstream = 1",
                "2: multipath_upstream: expected true or false, but found the number 1",
            ),
            (
                "[reverse]\nname = \"web\"",
                "1: expected a list of tables, each with the heading [[name]], but found a table",
            ),
            (
                "[[uplink]]\ninterface = \"w0\"\ngateway = \"there\"",
                "3: gateway: not an IP address; write for example 192.0.2.1 or 2001:db8::1",
            ),
        ] {
            let error = Config::parse(text, "proxy.toml").expect_err(text).to_string();
            assert_eq!(error, format!("proxy.toml:{message}"));
        }
    }
}
