//! Texts of scenarios, with a line for each link, flow and event.

use core::fmt;
use core::ops::Deref;
use std::sync::LazyLock;

/// The text of a scenario. Keys of a table are written in one line, with commas between them and with single quotation
/// marks, which the text has as double ones:
///
/// ```
/// use anabranch_testkit::scenario_text::ScenarioText;
///
/// let text = ScenarioText::new("duration = '20 s'")
///     .link("a", ["S", "D"], "rate = '10 Mbit/s', delay = '5 ms'")
///     .flow("F", ["S", "D"], "protocol = 'tcp'");
/// assert!(text.contains("name = \"a\"\nbetween = [\"S\", \"D\"]\nrate = \"10 Mbit/s\"\ndelay = \"5 ms\"\n"));
/// ```
#[derive(Clone, Debug)]
pub struct ScenarioText(String);

impl ScenarioText {
    /// A scenario with these keys at the top level.
    pub fn new(keys: &str) -> Self {
        Self(String::new()).keys(keys)
    }

    /// Sets the defaults of all links.
    #[must_use]
    pub fn link_defaults(self, keys: &str) -> Self {
        self.table("[link_defaults]", keys)
    }

    /// Adds a link.
    #[must_use]
    pub fn link(self, name: &str, between: [&str; 2], keys: &str) -> Self {
        let [first, second] = between;
        self.table("[[link]]", &format!("name = '{name}', between = ['{first}', '{second}']")).keys(keys)
    }

    /// Adds a flow.
    #[must_use]
    pub fn flow(self, name: &str, ends: [&str; 2], keys: &str) -> Self {
        let [from, to] = ends;
        self.table("[[flow]]", &format!("name = '{name}', from = '{from}', to = '{to}'")).keys(keys)
    }

    /// Adds an event at a time.
    #[must_use]
    pub fn event(self, at: &str, keys: &str) -> Self {
        self.table("[[event]]", &format!("at = '{at}'")).keys(keys)
    }

    /// Adds a table with this header.
    #[must_use]
    pub fn table(mut self, header: &str, keys: &str) -> Self {
        self.0 += header;
        self.0.push('\n');
        self.keys(keys)
    }

    /// Adds keys to the last table, one a line: a comma outside of quotation marks and brackets separates two keys.
    #[must_use]
    pub fn keys(mut self, keys: &str) -> Self {
        let (mut depth, mut is_quoted) = (0_u32, false);
        for char in keys.chars() {
            match char {
                '\'' | '"' => is_quoted = !is_quoted,
                '[' | '{' if !is_quoted => depth += 1,
                ']' | '}' if !is_quoted => depth -= 1,
                _ => {}
            }
            match char {
                '\'' => self.0.push('"'),
                ',' if depth == 0 && !is_quoted => self.0.push('\n'),
                ' ' if self.0.ends_with('\n') => {}
                _ => self.0.push(char),
            }
        }
        if !keys.is_empty() {
            self.0.push('\n');
        }
        self
    }
}

impl Deref for ScenarioText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ScenarioText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text in a static, which is built at its first use.
pub struct LazyText(LazyLock<ScenarioText>);

impl LazyText {
    /// The text that `build` returns.
    pub const fn new(build: fn() -> ScenarioText) -> Self {
        Self(LazyLock::new(build))
    }
}

impl Deref for LazyText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LazyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_within_values_separate_no_keys() {
        let queue = "queue = { kind = 'fifo', limit = '9 packets' }";
        let text = ScenarioText::new(&format!("title = 'a, b', ip = 'v4', {queue}"));
        let expected = format!("title = 'a, b'\nip = 'v4'\n{queue}\n");
        assert_eq!(&*text, expected.replace('\'', "\""));
    }

    #[test]
    fn tables_follow_each_other() {
        let text = ScenarioText::new("").link("a", ["S", "D"], "").event("1 s", "link = 'a', state = 'down'");
        let expected = "[[link]]\nname = 'a'\nbetween = ['S', 'D']\n\
                        [[event]]\nat = '1 s'\nlink = 'a'\nstate = 'down'\n";
        assert_eq!(&*text, expected.replace('\'', "\""));
    }
}
