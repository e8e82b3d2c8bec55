//! Bytes as text.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

pub(crate) fn encode_to(bytes: &[u8], text: &mut String) {
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    encode_to(bytes, &mut text);
    text
}

/// Large or small letters; `None` if it is not hex.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pair = |pair: &[u8; 2]| u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok();
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(pair).collect()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        assert_eq!(encode(&[0, 127, 255]), "007fff");
        assert_eq!(decode("007FfF"), Some(vec![0, 127, 255]));
        assert_eq!((decode("0"), decode("0x"), decode("é")), (None, None, None));
    }
}
