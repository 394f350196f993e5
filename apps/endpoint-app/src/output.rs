//! Prints events and counters: as JSON lines, or as sentences and a table.

use crate::table;
use anabranch_net::ConnectionReport;
use serde_json::{Value, json};
use std::io::{IsTerminal as _, Write as _};
use std::sync::{Mutex, PoisonError};
use std::time;

/// Interval at which counters are printed.
pub const INTERVAL: time::Duration = time::Duration::from_secs(1);

/// Prints everything except received data.
pub struct Output {
    json: bool,
    quiet: bool,
    table: Mutex<table::Table>,
}

/// Removes the characters of a text that a terminal would interpret.
pub fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

impl Output {
    pub fn new(json: bool, quiet: bool) -> Self {
        Self { json, quiet, table: Mutex::default() }
    }

    /// True if counters are printed.
    pub fn shows_counters(&self) -> bool {
        self.json || !self.quiet && std::io::stderr().is_terminal()
    }

    /// Prints an event as a sentence, or as a JSON line with these fields.
    pub fn event(&self, name: &str, sentence: &str, mut fields: Value) {
        if self.json {
            fields["event"] = json!(name);
            print_line(&fields);
        } else if !self.quiet {
            // Ignore errors: the reader of the output has closed its end.
            let _ = writeln!(std::io::stderr(), "{}", printable(sentence));
        }
    }

    /// Prints the counters of all connections.
    pub fn counters(&self, connections: &[ConnectionReport]) {
        if self.json {
            // The texts of 10,000 connections need 5 MB, their JSON values ten times as much.
            let texts: Vec<String> = connections.iter().map(|report| report.to_json().to_string()).collect();
            print_line(&format_args!(r#"{{"connections":[{}],"event":"paths"}}"#, texts.join(",")));
        } else {
            let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = write!(std::io::stderr(), "{}", table.draw(connections, INTERVAL));
        }
    }
}

fn print_line(line: &dyn core::fmt::Display) {
    // Ignore errors: the reader of the output has closed its end.
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
