//! The log: lines on standard error, to which systemd adds the time. A line that cannot be written, as on a full disk,
//! is lost.

use std::fmt::Arguments;
use std::io::Write;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// Writes a line to the log.
pub fn log_line(line: Arguments<'_>) {
    drop(writeln!(std::io::stderr().lock(), "{}", printable(&line.to_string())));
}

/// Escapes control characters, line ends, and characters that change the direction of text. Clients choose some names
/// in log lines, so such characters could disguise a line.
pub fn printable(line: &str) -> String {
    let mut escaped = String::with_capacity(line.len());
    for letter in line.chars() {
        match letter {
            '"' | '\'' => escaped.push(letter),
            _ => escaped.extend(letter.escape_debug()),
        }
    }
    escaped
}

/// Minimum interval between two lines of one kind.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Rate limit for one kind of log lines that clients can cause: one line in ten seconds, which also contains the number
/// of lines suppressed before it.
pub struct RateLimited(Mutex<Option<(Instant, u64)>>);

impl RateLimited {
    /// Creates the rate limit; the first line is written.
    pub const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Writes a line, or counts it as suppressed.
    pub fn log_line(&self, line: Arguments<'_>) {
        let now = Instant::now();
        let mut last = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match last.as_mut() {
            Some((logged_at, suppressed)) if now.saturating_duration_since(*logged_at) < LINE_INTERVAL => {
                *suppressed += 1;
            }
            before => {
                let suppressed = before.map_or(0, |(_, suppressed)| *suppressed);
                *last = Some((now, 0));
                drop(last);
                if suppressed == 0 {
                    log_line(line);
                } else {
                    log_line(format_args!("{line} ({suppressed} similar lines suppressed)"));
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
