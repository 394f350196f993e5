//! Texts of which most occur often.

use std::collections::BTreeMap;

/// Texts, each stored once.
#[derive(Debug, Default)]
pub struct Texts {
    /// For each row the index of its text.
    pub codes: Vec<u32>,
    /// The different texts, in the order in which they were added.
    pub distinct: Vec<String>,
    by_text: BTreeMap<String, u32>,
}

impl Texts {
    /// Adds a row.
    pub(super) fn add(&mut self, text: &str) {
        self.add_expected(text, self.codes.last().copied());
    }

    /// Adds a row whose text probably has a code, and returns true if it does.
    pub(super) fn add_expected(&mut self, text: &str, code: Option<u32>) -> bool {
        if let Some(code) = code.filter(|code| self.distinct[*code as usize] == text) {
            self.codes.push(code);
            return true;
        }
        let code = self.code(text);
        self.codes.push(code);
        false
    }

    fn code(&mut self, text: &str) -> u32 {
        if let Some(code) = self.by_text.get(text) {
            return *code;
        }
        let code = self.distinct.len() as u32;
        self.distinct.push(text.to_owned());
        self.by_text.insert(text.to_owned(), code);
        code
    }
}
