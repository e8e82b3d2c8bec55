//! The header that carries the key.

use http::{HeaderMap, HeaderName};

use crate::policy::Spelling;

/// The header that carries the key.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The header of a response that was given before.
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// How many seconds ago a response was given first.
pub const REPLAYED_AGE: HeaderName = HeaderName::from_static("idempotency-replayed-age");

/// The longest key.
const KEY_MAX: usize = 255;

/// What a request says about its key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Nothing,
    Key(String),
    /// It is wrong; in what way.
    Wrong(&'static str),
}

pub(crate) fn read(headers: &HeaderMap, spelling: Spelling) -> Said {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Said::Nothing };
    if values.next().is_some() {
        return Said::Wrong("The header is there twice");
    }
    let Ok(text) = value.to_str() else { return Said::Wrong("The key is not printable ASCII") };
    let key = match spelling {
        Spelling::Quoted => quoted(text.trim()),
        Spelling::Any => quoted(text.trim()).or_else(|| Some(text.trim().to_owned())),
    };
    match key {
        None => Said::Wrong("The key is not a string in double quotes"),
        Some(key) if key.is_empty() => Said::Wrong("The key is empty"),
        Some(key) if key.len() > KEY_MAX => Said::Wrong("The key is longer than 255 characters"),
        Some(key) => Said::Key(key),
    }
}

/// A string of a structured field (RFC 8941); what follows a semicolon are
/// parameters, which mean nothing here.
fn quoted(text: &str) -> Option<String> {
    let mut rest = text.strip_prefix('"')?.chars();
    let mut key = String::new();
    loop {
        match rest.next()? {
            '"' => break,
            '\\' => match rest.next()? {
                escaped @ ('"' | '\\') => key.push(escaped),
                _ => return None,
            },
            plain @ ' '..='~' => key.push(plain),
            _ => return None,
        }
    }
    let after = rest.as_str().trim_start();
    (after.is_empty() || after.starts_with(';')).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(values: &[&str], spelling: Spelling) -> Said {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(IDEMPOTENCY_KEY, value.parse().unwrap());
        }
        read(&headers, spelling)
    }

    #[test]
    fn a_key_is_a_string_of_a_structured_field() {
        for (text, key) in [
            ("\"8e03\"", "8e03"),
            ("  \"a b\"  ", "a b"),
            (r#""a\"b\\c""#, r#"a"b\c"#),
            ("\"k\";v=1", "k"),
        ] {
            assert_eq!(said(&[text], Spelling::Quoted), Said::Key(key.into()), "{text}");
        }
        for text in ["8e03", "\"", "\"a", "\"a\"b", r#""a\n""#, "\"\""] {
            assert!(matches!(said(&[text], Spelling::Quoted), Said::Wrong(_)), "{text}");
        }
        assert_eq!(said(&[], Spelling::Quoted), Said::Nothing);
        assert!(matches!(said(&["\"a\"", "\"b\""], Spelling::Quoted), Said::Wrong(_)));
    }

    #[test]
    fn some_clients_leave_the_quotes_out() {
        assert_eq!(said(&["8e03"], Spelling::Any), Said::Key("8e03".into()));
        assert_eq!(said(&["\"8e03\""], Spelling::Any), Said::Key("8e03".into()));
        assert!(matches!(said(&[&"x".repeat(256)], Spelling::Any), Said::Wrong(_)));
    }
}
