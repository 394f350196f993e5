//! Where in a file something stands.

use crate::error::Error;
use core::ops::Range;

/// The text of a file, and what the file is called.
#[derive(Clone, Copy)]
pub struct Text<'a> {
    /// What it says.
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

/// What the parser says, without the words of the language that this is written in.
fn plainly(said: &str) -> String {
    let mismatch = said.strip_prefix("invalid type: ").or_else(|| said.strip_prefix("invalid value: "));
    match (said, mismatch.and_then(|mismatch| mismatch.rsplit_once(", expected "))) {
        ("invalid socket address syntax", _) => {
            "this is no address and port; write one as 127.0.0.1:1080 or [::1]:1080".to_owned()
        }
        ("invalid IP address syntax", _) => {
            "this is no address; write one as 192.0.2.1 or 2001:db8::1".to_owned()
        }
        ("wanted string or table", _) => format!("{TEXT} is wanted here"),
        (_, Some((found, expected))) => {
            format!("{} is wanted here, and not {}", wanted(found, expected), kind(found))
        }
        _ => said.to_owned(),
    }
}

const TEXT: &str = "a text in quotation marks, with its unit if it has one, such as \"10 s\",";

fn wanted<'a>(found: &str, expected: &'a str) -> &'a str {
    match expected {
        "a sequence" if found == "map" => {
            "a list of tables, each with its name in two pairs of brackets, as [[name]],"
        }
        "a sequence" => "a list, such as [\"one\", \"another\"],",
        "a string" => TEXT,
        "a boolean" => "true or false",
        "i8" => "a whole number up to 127",
        "u16" => "a whole number up to 65535",
        "u32" => "a whole number up to 4294967295",
        "usize" => "a whole number, not below 0,",
        other => other,
    }
}

/// What was found, by its kind in TOML.
fn kind(found: &str) -> String {
    let kinds = [
        ("string ", "the text "),
        ("integer ", "the number "),
        ("floating point ", "the number "),
        ("boolean ", ""),
    ];
    let plain = kinds.iter().find_map(|(kind, plain)| Some(format!("{plain}{}", found.strip_prefix(kind)?)));
    plain.unwrap_or_else(|| found.replace("map", "a table").replace("sequence", "a list"))
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    #[test]
    fn mistakes_of_kind_are_told_in_plain_words() {
        for (text, said) in [
            (
                "[socks]\nlisten = \"127.0.0.1:1080\"",
                "2: a list, such as [\"one\", \"another\"], is wanted here, and not the text \"127.0.0.1:1080\"",
            ),
            (
                "[socks]\nlisten = [\"localhost:1080\"]",
                "2: this is no address and port; write one as 127.0.0.1:1080 or [::1]:1080",
            ),
            (
                "[limits]\nhandshake_timeout = 10",
                "2: a text in quotation marks, with its unit if it has one, such as \"10 s\", is wanted here, and not the number `10`",
            ),
            (
                "[limits]\nmax_connections = -1",
                "2: a whole number, not below 0, is wanted here, and not the number `-1`",
            ),
            (
                "[router]\nport = 70000",
                "2: a whole number up to 65535 is wanted here, and not the number `70000`",
            ),
            ("[socks]\nmultipath_upstream = 1", "2: true or false is wanted here, and not the number `1`"),
            (
                "[reverse]\nname = \"web\"",
                "1: a list of tables, each with its name in two pairs of brackets, as [[name]], is wanted here, and not a table",
            ),
            (
                "[[uplink]]\ninterface = \"w0\"\ngateway = \"there\"",
                "3: this is no address; write one as 192.0.2.1 or 2001:db8::1",
            ),
        ] {
            let error = Config::parse(text, "proxy.toml").expect_err(text).to_string();
            assert_eq!(error, format!("proxy.toml:{said}"));
        }
    }
}
