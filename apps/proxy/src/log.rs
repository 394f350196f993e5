//! The log: lines on standard error, to which systemd adds the time. A line that cannot be written, as on a full disk, is lost.

use std::fmt::Arguments;
use std::io::Write;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// Says a line.
pub fn say(line: Arguments<'_>) {
    drop(writeln!(std::io::stderr().lock(), "{}", printable(&line.to_string())));
}

/// A line without what a terminal or a reader would take for something else: control characters, characters that turn the
/// direction of text, new lines. Names that strangers ask for are in some lines.
pub fn printable(line: &str) -> String {
    let mut said = String::with_capacity(line.len());
    for letter in line.chars() {
        match letter {
            '"' | '\'' => said.push(letter),
            _ => said.extend(letter.escape_debug()),
        }
    }
    said
}

/// How often a line of one kind may be said.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Lines of one kind that clients can cause: one in ten seconds is written, with the number of suppressed ones.
pub struct Limited(Mutex<Option<(Instant, u64)>>);

impl Limited {
    /// None has been said.
    pub const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Says a line, or counts it.
    pub fn say(&self, line: Arguments<'_>) {
        let now = Instant::now();
        let mut last = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match last.as_mut() {
            Some((said, kept)) if now.saturating_duration_since(*said) < LINE_INTERVAL => *kept += 1,
            before => {
                let kept = before.map_or(0, |(_, kept)| *kept);
                *last = Some((now, 0));
                drop(last);
                if kept == 0 {
                    say(line);
                } else {
                    say(format_args!("{line} ({kept} similar lines suppressed)"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_lines_have_no_invisible_characters() {
        assert_eq!(
            printable("a\u{202e}b\u{1b}[2J\u{200b}\nc\u{85}"),
            "a\\u{202e}b\\u{1b}[2J\\u{200b}\\nc\\u{85}"
        );
        assert_eq!(printable("says: \"it's müde\" 日本"), "says: \"it's müde\" 日本");
        assert_eq!(printable("\\u{1b}"), "\\\\u{1b}");
    }
}
