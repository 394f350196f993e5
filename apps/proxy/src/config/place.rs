//! Where in a file something stands.

use crate::error::Error;
use core::ops::Range;

/// The text of a file, and its name.
#[derive(Clone, Copy)]
pub struct Text<'a> {
    /// The text.
    pub text: &'a str,
    /// Its name.
    pub file: &'a str,
}

impl Text<'_> {
    /// A mistake at a place, as a sentence.
    pub fn mistake(&self, place: Option<Range<usize>>, said: &str) -> Error {
        let said = plainly(&said.lines().collect::<Vec<_>>().join(", "));
        let Some(place) = place else { return Error::Input(format!("{}: {said}", self.file)) };
        let before = self.text.get(..place.start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        Error::Input(format!("{}:{line}: {said}", self.file))
    }
}

/// A message of the parser in the words of this program: TOML's kinds of values, and names in quotation marks.
fn plainly(message: &str) -> String {
    known(message).or_else(|| syntax(message)).unwrap_or_else(|| message.replace('`', "\""))
}

/// Keys of `[limits]`, which are sometimes looked for elsewhere.
const LIMITS: [&str; 7] = [
    "handshake_timeout",
    "connect_timeout",
    "max_connections",
    "max_per_source",
    "drain_timeout",
    "keep_alive",
    "idle_timeout",
];

/// Messages about keys and values.
fn known(message: &str) -> Option<String> {
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
            return Some("no address with a port; write one as 127.0.0.1:1080 or [::1]:1080".to_owned());
        }
        "invalid IP address syntax" => {
            return Some("no address; write one as 192.0.2.1 or 2001:db8::1".to_owned());
        }
        "wanted string or table" => return Some(format!("expected {TEXT}")),
        "duplicate key" => return Some("this key was given before; keep one of the two".to_owned()),
        _ => {}
    }
    let mismatch = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    let (found, expected) = mismatch?.rsplit_once(", expected ")?;
    Some(format!("expected {}, but found {}", wanted(found, expected), kind(found)))
}

/// Messages about TOML itself.
fn syntax(message: &str) -> Option<String> {
    let (what, _) = message.split_once(", expected ")?;
    Some(match what {
        "unclosed table" | "unclosed array of tables" => {
            "the name of a table has no closing bracket; write [name] or [[name]]".to_owned()
        }
        "unclosed array" => "a list has no closing bracket; write [\"one\", \"another\"]".to_owned(),
        "string values must be quoted" => "a text needs quotation marks; write \"text\"".to_owned(),
        other => format!("no TOML: {}; see https://toml.io", other.replace('`', "\"")),
    })
}

/// The nearest of the valid names, or all.
fn remedy(name: &str, valid: &[&str], label: &str) -> String {
    match nearest(name, valid) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => format!("{label}: {}", valid.join(", ")),
    }
}

/// The name with the nearest spelling: a third of the letters may be wrong.
pub fn nearest<'a>(name: &str, valid: &[&'a str]) -> Option<&'a str> {
    let distance = |candidate: &str| strsim::damerau_levenshtein(&name.to_lowercase(), candidate);
    let near = valid.iter().map(|&candidate| (distance(candidate), candidate));
    let tolerance = name.chars().count().div_ceil(3).min(4);
    near.filter(|(distance, _)| *distance <= tolerance)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// The names in a message.
fn quoted(message: &str) -> Vec<&str> {
    message.split('`').skip(1).step_by(2).collect()
}

/// A line of the file for each key that has to be there.
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
        _ => "it, as in the file that is shipped",
    }
}

const TEXT: &str = "a text in quotation marks, with its unit if it has one, such as \"10 s\"";

fn wanted<'a>(found: &str, expected: &'a str) -> &'a str {
    match expected {
        "a sequence" if found == "map" => {
            "a list of tables, each under its name in two pairs of brackets: [[name]]"
        }
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

/// The value that was found, by its kind in TOML.
fn kind(found: &str) -> String {
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
    fn wrong_names_have_the_nearest_spelling() {
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
                "3: unknown value \"sock\"; did you mean \"socks\"?",
            ),
            (
                "[socks.via]\nproxy = \"a:1\"\nprotocol = \"http\"",
                "3: unknown value \"http\"; valid values: socks, convert",
            ),
            (
                "[[socks.user]]\nname = \"a\"",
                "1: the key \"password\" is missing; add: password = \"a long password\"",
            ),
            ("[socks]\nlisten = []\nlisten = []", "3: this key was given before; keep one of the two"),
            ("[socks\n", "1: the name of a table has no closing bracket; write [name] or [[name]]"),
            ("[socks]\nlisten = abc", "2: a text needs quotation marks; write \"text\""),
        ] {
            let error = Config::parse(text, "proxy.toml").expect_err(text).to_string();
            assert_eq!(error, format!("proxy.toml:{message}"));
        }
    }

    #[test]
    fn wrong_kinds_are_named_as_in_toml() {
        for (text, said) in [
            (
                "[socks]\nlisten = \"127.0.0.1:1080\"",
                "2: expected a list, such as [\"one\", \"another\"], but found the text \"127.0.0.1:1080\"",
            ),
            (
                "[socks]\nlisten = [\"localhost:1080\"]",
                "2: no address with a port; write one as 127.0.0.1:1080 or [::1]:1080",
            ),
            (
                "[limits]\nhandshake_timeout = 10",
                "2: expected a text in quotation marks, with its unit if it has one, such as \"10 s\", but found the number 10",
            ),
            ("[limits]\nmax_connections = -1", "2: expected a whole number from 0, but found the number -1"),
            ("[router]\nport = 70000", "2: expected a whole number up to 65535, but found the number 70000"),
            ("[socks]\nmultipath_upstream = 1", "2: expected true or false, but found the number 1"),
            (
                "[reverse]\nname = \"web\"",
                "1: expected a list of tables, each under its name in two pairs of brackets: [[name]], but found a table",
            ),
            (
                "[[uplink]]\ninterface = \"w0\"\ngateway = \"there\"",
                "3: no address; write one as 192.0.2.1 or 2001:db8::1",
            ),
        ] {
            let error = Config::parse(text, "proxy.toml").expect_err(text).to_string();
            assert_eq!(error, format!("proxy.toml:{said}"));
        }
    }
}
