//! For any text, the parser returns a scenario or one sentence.

use super::super::parse_with;
use super::{EVERYTHING, files};
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// A mutation of a text.
#[derive(Clone, Debug)]
enum Edit {
    /// Removes a part of the text.
    Cut { at: Index, length: usize },
    /// Replaces one word by `word`.
    Replace { at: Index, word: String },
    /// Copies a line to another place.
    Copy { from: Index, to: Index },
}

fn words() -> Vec<String> {
    let own = EVERYTHING.split(|c: char| !(c.is_alphanumeric() || "-_/.".contains(c))).map(str::to_owned);
    let odd = [
        "",
        "\"",
        "[",
        "]]",
        "{ }",
        "= 1",
        "-1",
        "0",
        "\"0 s\"",
        "nan",
        "1e400",
        "\u{0}",
        "ü",
        "\n",
        "2024-01-01",
    ];
    own.chain(odd.map(str::to_owned)).collect()
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        (any::<Index>(), 0..40usize).prop_map(|(at, length)| Edit::Cut { at, length }),
        (any::<Index>(), select(words())).prop_map(|(at, word)| Edit::Replace { at, word }),
        (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Edit::Copy { from, to }),
    ]
}

fn apply(text: &str, edit: &Edit) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    match edit {
        Edit::Cut { at, length } => {
            let characters: Vec<char> = text.chars().collect();
            let at = at.index(characters.len() + 1);
            return characters[..at].iter().chain(characters.iter().skip(at + length)).collect();
        }
        Edit::Replace { at, word } => {
            let mut pieces: Vec<&str> = text.split_inclusive(|c: char| !c.is_alphanumeric()).collect();
            if !pieces.is_empty() {
                let at = at.index(pieces.len());
                pieces[at] = word;
            }
            return pieces.concat();
        }
        Edit::Copy { from, to } if !lines.is_empty() => {
            let line = lines[from.index(lines.len())].clone();
            lines.insert(to.index(lines.len()), line);
        }
        Edit::Copy { .. } => {}
    }
    lines.join("\n")
}

fn answers(text: &str, sets: &[(String, String)]) {
    if let Err(error) = parse_with(text, "s.toml", sets, &files) {
        let sentence = error.to_string();
        assert!(!sentence.contains('\n') && sentence.len() > "s.toml: ".len(), "{sentence:?}");
        assert!(sentence.chars().count() < 1000, "{sentence}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn mutated_scenarios_are_handled(edits in prop::collection::vec(edit(), 1..6)) {
        let text = edits.iter().fold(EVERYTHING.to_owned(), |text, edit| apply(&text, edit));
        answers(&text, &[]);
    }

    #[test]
    fn any_override_is_handled(path in prop::collection::vec(select(words()), 0..5), value in select(words())) {
        answers(EVERYTHING, &[(path.join("."), value)]);
    }

    #[test]
    fn any_text_is_handled(text in "\\PC*") {
        answers(&text, &[]);
    }
}
