//! Fingerprints: what a request is about, in sixteen bytes.

use std::fmt;

use serde::Serialize;
use serde_json::{Number, Value};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// What a request is about: two requests with one key and different
/// fingerprints are a mistake of the client, and the second is refused.
///
/// It is the first half of a SHA-256, so it can be stored and shown without
/// telling what the request was.
///
/// ```
/// use leasehold::once::Fingerprint;
///
/// let one = Fingerprint::of_json(br#"{"to": "ann", "amount": 10}"#)?;
/// let two = Fingerprint::of_json(br#"{ "amount": 1.0e1, "to": "ann" }"#)?;
/// assert_eq!(one, two, "order, blanks and the spelling of numbers do not count");
/// assert_ne!(one, Fingerprint::of_json(br#"{"to": "ann", "amount": 11}"#)?);
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 16]);

impl Fingerprint {
    /// No fingerprint: it is like every other one.
    #[must_use]
    pub const fn none() -> Self {
        Self([0; 16])
    }

    /// Of bytes as they are.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self::of_hash(&Sha256::digest(bytes).into())
    }

    /// Of JSON: the same for every order of keys, every spelling of a number and
    /// every use of blanks. Numbers are compared as JavaScript has them, or as
    /// integers of 64 bits.
    ///
    /// # Errors
    ///
    /// `Invalid` if it is no JSON.
    pub fn of_json(json: &[u8]) -> Result<Self> {
        Fields::all().of_json(json)
    }

    /// Of a value, as JSON.
    ///
    /// # Errors
    ///
    /// `Invalid` if it cannot be JSON.
    pub fn of(value: &impl Serialize) -> Result<Self> {
        Ok(canonical(&serde_json::to_value(value).map_err(no_json)?))
    }

    /// Whether two requests may be the same.
    pub(crate) fn fits(self, other: Self) -> bool {
        self == other || self == Self::none() || other == Self::none()
    }

    pub(crate) const fn to_bytes(self) -> [u8; 16] {
        self.0
    }

    pub(crate) const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    fn of_hash(hash: &[u8; 32]) -> Self {
        let mut half = [0; 16];
        half.copy_from_slice(&hash[..16]);
        Self(half)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({:032x})", u128::from_be_bytes(self.0))
    }
}

/// Which parts of a JSON document count, by JSON pointers (RFC 6901).
///
/// ```
/// use leasehold::once::Fields;
///
/// let fields = Fields::all().except("/sent_at");
/// let one = fields.of_json(br#"{"amount": 10, "sent_at": 1}"#)?;
/// assert_eq!(one, fields.of_json(br#"{"amount": 10, "sent_at": 2}"#)?);
///
/// let fields = Fields::all().only("/amount");
/// let one = fields.of_json(br#"{"amount": 10, "note": "a"}"#)?;
/// assert_eq!(one, fields.of_json(br#"{"amount": 10}"#)?);
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Fields {
    only: Vec<String>,
    except: Vec<String>,
}

impl Fields {
    /// All of them.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// What this pointer shows counts, and nothing that no such pointer shows.
    #[must_use]
    pub fn only(mut self, pointer: impl Into<String>) -> Self {
        self.only.push(pointer.into());
        self.only.sort();
        self
    }

    /// What this pointer shows does not count.
    #[must_use]
    pub fn except(mut self, pointer: impl Into<String>) -> Self {
        self.except.push(pointer.into());
        self
    }

    /// The fingerprint of what counts.
    ///
    /// # Errors
    ///
    /// `Invalid` if it is no JSON.
    pub fn of_json(&self, json: &[u8]) -> Result<Fingerprint> {
        let mut value: Value = serde_json::from_slice(json).map_err(no_json)?;
        for pointer in &self.except {
            remove(&mut value, pointer);
        }
        if self.only.is_empty() {
            return Ok(canonical(&value));
        }
        let part = |pointer: &String| {
            let found = value.pointer(pointer).cloned();
            Value::Array([Value::from(pointer.as_str())].into_iter().chain(found).collect())
        };
        Ok(canonical(&Value::Array(self.only.iter().map(part).collect())))
    }
}

fn remove(value: &mut Value, pointer: &str) {
    let Some((above, last)) = pointer.rsplit_once('/') else { return };
    let last = last.replace("~1", "/").replace("~0", "~");
    match value.pointer_mut(above) {
        Some(Value::Object(map)) => drop(map.remove(&last)),
        Some(Value::Array(list)) => {
            if let Some(item) = last.parse::<usize>().ok().and_then(|at| list.get_mut(at)) {
                *item = Value::Null;
            }
        }
        _ => {}
    }
}

fn canonical(value: &Value) -> Fingerprint {
    let mut bytes = Vec::with_capacity(256);
    write(value, &mut bytes);
    Fingerprint::of_bytes(&bytes)
}

/// Every value is a tag and either a fixed number of bytes or its length first,
/// so no two values are written the same way.
fn write(value: &Value, to: &mut Vec<u8>) {
    match value {
        Value::Null => to.push(b'n'),
        Value::Bool(yes) => to.push(if *yes { b't' } else { b'f' }),
        Value::Number(number) => write_number(number, to),
        Value::String(text) => write_text(text, to),
        Value::Array(list) => {
            write_head(b'a', list.len(), to);
            list.iter().for_each(|item| write(item, to));
        }
        Value::Object(map) => {
            write_head(b'o', map.len(), to);
            let mut pairs: Vec<_> = map.iter().collect();
            // Sorted already, unless somebody has turned on `preserve_order`.
            pairs.sort_unstable_by_key(|(key, _)| *key);
            for (key, item) in pairs {
                write_text(key, to);
                write(item, to);
            }
        }
    }
}

fn write_head(tag: u8, count: usize, to: &mut Vec<u8>) {
    to.push(tag);
    to.extend((count as u64).to_be_bytes());
}

fn write_text(text: &str, to: &mut Vec<u8>) {
    write_head(b's', text.len(), to);
    to.extend(text.as_bytes());
}

fn write_number(number: &Number, to: &mut Vec<u8>) {
    let whole = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    let float = number.as_f64().unwrap_or(f64::NAN);
    if let Some(whole) = whole.or_else(|| whole_of(float)) {
        to.push(b'i');
        to.extend(whole.to_be_bytes());
    } else {
        to.push(b'd');
        to.extend(float.to_bits().to_be_bytes());
    }
}

/// The integer that a number such as `1.0e1` is.
#[expect(clippy::cast_possible_truncation, reason = "looked at before")]
fn whole_of(float: f64) -> Option<i128> {
    (float.fract() == 0.0 && float.abs() < 1e20).then_some(float as i128)
}

fn no_json(cause: serde_json::Error) -> Error {
    Error::invalid("this is no JSON, so it has no fingerprint of its meaning").caused_by(cause)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str) -> Fingerprint {
        Fingerprint::of_json(text.as_bytes()).unwrap()
    }

    #[test]
    fn spelling_does_not_count() {
        assert_eq!(of(r#"{"a":1,"b":[1,2]}"#), of("{ \"b\" : [1.0, 2e0],\n\"a\" : 10e-1 }"));
        assert_eq!(of(r#""é""#), of(r#""\u00e9""#));
        assert_eq!(of("-0.0"), of("0"));
        assert_eq!(of("18446744073709551615"), of("18446744073709551615"));
        assert_eq!(of("1e19"), of("10000000000000000000"));
    }

    #[test]
    fn meaning_does() {
        let all =
            ["1", "\"1\"", "[1]", "{}", "[]", "null", "false", "\"\"", "1.5", "[[]]", "[1,1]"];
        for (at, one) in all.iter().enumerate() {
            all[at + 1..].iter().for_each(|two| assert_ne!(of(one), of(two), "{one} {two}"));
        }
        assert_ne!(of(r#"{"a":"bc"}"#), of(r#"{"ab":"c"}"#));
        assert_ne!(of("9007199254740993"), of("9007199254740992"));
    }

    #[test]
    fn what_is_no_json_has_none() {
        for text in ["", "{", "{'a': 1}", "1 2", "NaN"] {
            assert!(Fingerprint::of_json(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn pointers_reach_into_lists_and_escaped_keys() {
        let fields = Fields::all().except("/a~1b").except("/list/1");
        let one = fields.of_json(br#"{"a/b": 1, "list": [1, 2]}"#).unwrap();
        assert_eq!(one, fields.of_json(br#"{"list": [1, 3]}"#).unwrap());
        assert_ne!(one, fields.of_json(br#"{"list": [2, 2]}"#).unwrap());
    }

    #[test]
    fn none_fits_all() {
        assert!(Fingerprint::none().fits(of("1")) && of("1").fits(Fingerprint::none()));
        assert!(!of("1").fits(of("2")));
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(".{0,4}", inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_document_printed_in_another_way_is_the_same(value in json(), other in json()) {
            let pretty = serde_json::to_vec_pretty(&value).unwrap();
            prop_assert_eq!(Fingerprint::of_json(&pretty).unwrap(), Fingerprint::of(&value).unwrap());
            let same = Fingerprint::of(&value).unwrap() == Fingerprint::of(&other).unwrap();
            prop_assert_eq!(same, value == other);
        }
    }
}
