//! What a server answers, and how that is written (RESP3).

/// Bytes as clients and servers send them.
pub type Bytes = Vec<u8>;

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Nothing.
    Nil,
    /// A word of the server.
    Status(&'static str),
    /// A number.
    Int(i64),
    /// A value.
    Bulk(Bytes),
    /// Several.
    Array(Vec<Self>),
    /// Pairs.
    Map(Vec<(Self, Self)>),
    /// What a subscriber is told.
    Push(Vec<Self>),
    /// A refusal.
    Error(String),
}

impl Reply {
    pub(crate) const OK: Self = Self::Status("OK");

    pub(crate) fn bulk(text: impl Into<Bytes>) -> Self {
        Self::Bulk(text.into())
    }

    pub(crate) fn error(text: impl Into<String>) -> Self {
        Self::Error(text.into())
    }

    pub(crate) fn count(number: usize) -> Self {
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }

    pub(crate) fn flag(yes: bool) -> Self {
        Self::Int(i64::from(yes))
    }

    /// Writes it as it goes over the wire.
    pub fn encode(&self, out: &mut Bytes) {
        match self {
            Self::Nil => out.extend(b"_\r\n"),
            Self::Status(word) => line(out, b'+', word),
            Self::Int(number) => line(out, b':', &number.to_string()),
            Self::Error(text) => line(out, b'-', &text.replace(['\r', '\n'], " ")),
            Self::Bulk(bytes) => {
                line(out, b'$', &bytes.len().to_string());
                out.extend(bytes);
                out.extend(b"\r\n");
            }
            Self::Array(all) => list(out, b'*', all),
            Self::Push(all) => list(out, b'>', all),
            Self::Map(pairs) => {
                line(out, b'%', &pairs.len().to_string());
                pairs.iter().for_each(|(key, value)| {
                    key.encode(out);
                    value.encode(out);
                });
            }
        }
    }
}

fn line(out: &mut Bytes, kind: u8, text: &str) {
    out.push(kind);
    out.extend(text.as_bytes());
    out.extend(b"\r\n");
}

fn list(out: &mut Bytes, kind: u8, all: &[Reply]) {
    line(out, kind, &all.len().to_string());
    all.iter().for_each(|each| each.encode(out));
}
