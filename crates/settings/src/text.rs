//! User input in messages.

/// User input in quotes, on one line, shortened for messages.
pub fn quoted(text: &str) -> String {
    format!("\"{}\"", shortened(text))
}

/// User input without line breaks, shortened for messages.
pub fn shortened(text: &str) -> String {
    cut(text, 60)
}

/// A sentence that may contain user input, without line breaks.
pub fn one_line(text: &str) -> String {
    cut(text, 300)
}

fn cut(text: &str, longest: usize) -> String {
    let mut shown: String = text.chars().take(longest).flat_map(escaped).collect();
    if text.chars().nth(longest).is_some() {
        shown.push('…');
    }
    shown
}

/// True if a character controls a terminal, ends a line, has no width or reverses the direction of text.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        )
}

fn escaped(c: char) -> impl Iterator<Item = char> {
    // Quotes are not escaped: messages show the input as the user typed it.
    let keep = !is_hidden(c);
    let escape = (!keep).then(|| c.escape_default());
    escape.into_iter().flatten().chain(keep.then_some(c))
}
