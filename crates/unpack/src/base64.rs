//! Base64 of RFC 4648 §4, without line breaks.

/// Value of a character that is none of the alphabet.
const INVALID: u8 = 64;

/// Value of each character.
const VALUES: [u8; 256] = values();

const fn values() -> [u8; 256] {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut values = [INVALID; 256];
    let mut value = 0_u8;
    while (value as usize) < alphabet.len() {
        values[alphabet[value as usize] as usize] = value;
        value += 1;
    }
    values
}

/// Decodes a text; `None` if it is no base64.
pub(crate) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let padding = text.iter().rev().take_while(|&&character| character == b'=').count();
    if padding > 2 || !text.len().is_multiple_of(4) {
        return None;
    }
    let mut data = Vec::with_capacity(text.len() / 4 * 3);
    let mut seen = 0;
    for group in text.get(..text.len() - padding)?.chunks(4) {
        let mut bits = 0_u32;
        for place in 0..4 {
            let value = VALUES[usize::from(*group.get(place).unwrap_or(&b'A'))];
            seen |= value;
            bits = bits << 6 | u32::from(value);
        }
        let [_, bytes @ ..] = bits.to_be_bytes();
        data.extend_from_slice(&bytes);
    }
    data.truncate(text.len() / 4 * 3 - padding);
    (seen & INVALID == 0).then_some(data)
}

#[cfg(test)]
mod tests {
    use super::decode;

    /// The examples of RFC 4648 §10.
    #[test]
    fn examples_of_the_standard_are_decoded() {
        for (text, data) in [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYg==", "foob"),
            ("Zm9vYmE=", "fooba"),
            ("Zm9vYmFy", "foobar"),
        ] {
            assert_eq!(decode(text.as_bytes()).as_deref(), Some(data.as_bytes()), "{text}");
        }
        assert_eq!(decode(b"+/+/"), Some(vec![0xfb, 0xff, 0xbf]));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["Zg", "Zg=", "Z===", "====", "Zm9v\n", "Zm-v", "Z=9v", "Zm9vZ=v="] {
            assert_eq!(decode(text.as_bytes()), None, "{text:?}");
        }
    }
}
