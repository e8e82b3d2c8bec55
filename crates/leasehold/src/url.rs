//! Engine URLs.

use std::time::Duration;

use crate::error::{Error, Result};

/// `scheme:rest?key=value&key=value`, percent-decoded.
pub(crate) struct Url {
    pub(crate) scheme: String,
    /// What stands between the scheme and the options.
    pub(crate) rest: String,
    /// The same, not decoded: where a part of it may contain its separators.
    #[cfg(feature = "_server")]
    pub(crate) raw: String,
    pub(crate) options: Options,
}

impl Url {
    pub(crate) fn parse(url: &str) -> Result<Self> {
        // Without a scheme it is all scheme, and unknown: it may be anything, a
        // secret included, so it is not repeated in an error.
        let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let options = Options::parse(query)?;
        Ok(Self {
            scheme: scheme.to_ascii_lowercase(),
            rest: decode(rest)?,
            #[cfg(feature = "_server")]
            raw: rest.to_owned(),
            options,
        })
    }
}

/// The options of a URL.
#[derive(Clone)]
pub(crate) struct Options(Vec<(String, String)>);

impl Options {
    /// What every engine takes.
    const COMMON: [&'static str; 2] = ["namespace", "retry"];

    fn parse(query: &str) -> Result<Self> {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let parsed = pairs.map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode(key)?, decode(value)?))
        });
        parsed.collect::<Result<_>>().map(Self)
    }

    /// The value of `key`; an option given twice is an error.
    pub(crate) fn get(&self, key: &str) -> Result<Option<&str>> {
        let mut values = self.0.iter().filter(|(other, _)| other == key).map(|(_, value)| value);
        match (values.next(), values.next()) {
            (_, Some(_)) => Err(Error::invalid(format!("option {key:?} is given twice"))),
            (value, None) => Ok(value.map(String::as_str)),
        }
    }

    /// A time span: a number with `ms`, `s`, `m` or `h`.
    #[cfg(any(feature = "sqlite", feature = "_server"))]
    pub(crate) fn duration(&self, key: &str) -> Result<Option<Duration>> {
        let Some(text) = self.get(key)? else { return Ok(None) };
        let wrong =
            || Error::invalid(format!("option {key:?} takes a time such as 500ms, 5s or 1h"));
        span(text).map(Some).ok_or_else(wrong)
    }

    /// A choice between yes and no; no unless given.
    #[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
    pub(crate) fn flag(&self, key: &str) -> Result<bool> {
        match self.get(key)? {
            None | Some("false" | "no" | "0") => Ok(false),
            Some("" | "true" | "yes" | "1") => Ok(true),
            Some(_) => Err(Error::invalid(format!("option {key:?} takes true or false"))),
        }
    }

    /// A number from 1 on.
    #[cfg(any(feature = "redis", feature = "postgres", feature = "mysql"))]
    pub(crate) fn number<T: std::str::FromStr + PartialOrd + From<u8>>(
        &self,
        key: &str,
    ) -> Result<Option<T>> {
        let Some(text) = self.get(key)? else { return Ok(None) };
        let number = text.parse().ok().filter(|number| *number >= T::from(1));
        let wrong = || Error::invalid(format!("option {key:?} takes a number from 1 on"));
        number.map(Some).ok_or_else(wrong)
    }

    /// Refuses what neither every engine nor this one knows.
    pub(crate) fn check(&self, scheme: &str, own: &[&str]) -> Result<()> {
        let known: Vec<&str> = Self::COMMON.iter().chain(own).copied().collect();
        match self.0.iter().find(|(key, _)| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some((key, _)) => Err(Error::invalid(format!(
                "unknown option {key:?} for {scheme}; valid options: {}",
                known.join(", ")
            ))),
        }
    }
}

/// A number with `ms`, `s`, `m` or `h`.
pub(crate) fn span(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let millis: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    Some(Duration::from_millis(digits.parse::<u64>().ok()?.checked_mul(millis)?))
}

/// `host`, `host:port`, `[::1]` or `[::1]:port`; the host decoded.
#[cfg(feature = "_server")]
pub(crate) fn host_and_port(text: &str, otherwise: u16) -> Option<(String, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            (host, if port.is_empty() { "" } else { port.strip_prefix(':')? })
        }
        None => text.split_once(':').unwrap_or((text, "")),
    };
    let host = decode(host).ok().filter(|host| !host.is_empty())?;
    let port = if port.is_empty() { otherwise } else { port.parse().ok()? };
    Some((host, port))
}

/// Undoes percent-encoding.
pub(crate) fn decode(text: &str) -> Result<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' { hex_pair(&mut rest)? } else { byte });
    }
    String::from_utf8(bytes).map_err(|_| Error::invalid("the engine URL is not UTF-8"))
}

fn hex_pair(rest: &mut std::str::Bytes<'_>) -> Result<u8> {
    let mut digit = || rest.next().and_then(|b| char::from(b).to_digit(16));
    match (digit(), digit()) {
        (Some(high), Some(low)) => Ok(u8::try_from(high * 16 + low).unwrap_or_default()),
        _ => Err(Error::invalid("a '%' in the engine URL is not followed by two hex digits")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parts_are_decoded() {
        let url = Url::parse("SQLite:/tmp/a%20b.db?namespace=shop&poll=1s").unwrap();
        assert_eq!((url.scheme.as_str(), url.rest.as_str()), ("sqlite", "/tmp/a b.db"));
        assert_eq!(url.options.get("poll").unwrap(), Some("1s"));
        assert_eq!(url.options.get("wake").unwrap(), None);
    }

    #[test]
    fn an_option_that_is_unknown_or_doubled_is_refused() {
        let options = Options::parse("namspace=x").unwrap();
        let error = options.check("memory", &["poll"]).unwrap_err().to_string();
        assert_eq!(
            error,
            "unknown option \"namspace\" for memory; valid options: namespace, retry, poll"
        );
        let twice = Options::parse("poll=1s&poll=2s").unwrap();
        assert!(twice.get("poll").unwrap_err().to_string().contains("given twice"));
    }

    #[test]
    #[cfg(feature = "sqlite")]
    fn spans_have_a_unit() {
        let options =
            Options::parse("a=500ms&b=5s&c=2h&d=5&e=s&f=-1s&g=99999999999999999999s").unwrap();
        let get = |key| options.duration(key);
        assert_eq!(get("a").unwrap(), Some(Duration::from_millis(500)));
        assert_eq!(get("b").unwrap(), Some(Duration::from_secs(5)));
        assert_eq!(get("c").unwrap(), Some(Duration::from_secs(7200)));
        assert_eq!(get("x").unwrap(), None);
        for bad in ["d", "e", "f", "g"] {
            assert!(get(bad).unwrap_err().to_string().contains("500ms, 5s"), "{bad}");
        }
    }

    #[test]
    fn broken_escapes_are_refused() {
        for bad in ["memory:%", "memory:%4", "memory:%zz", "memory:?a=%ff"] {
            assert!(Url::parse(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".*") {
            let _ = Url::parse(&text);
        }

        #[test]
        fn escaped_paths_come_back(path in "[^\\x00]{0,40}") {
            let escaped: String = path.bytes().map(|b| format!("%{b:02x}")).collect();
            prop_assert_eq!(Url::parse(&format!("sqlite:{escaped}")).unwrap().rest, path);
        }
    }
}
