//! From a URL to an engine.

use std::sync::Arc;

use crate::client::Locks;
use crate::clock::Clock;
use crate::engine::{BoxFuture, Engine};
use crate::engines::{self, Row};
use crate::error::{Error, Result};
use crate::home::Home;
use crate::parcel::Errand;

/// Opens the engine that `url` names.
///
/// | URL | engine |
/// |---|---|
/// | `memory:` | tasks and threads of this process |
/// | `sqlite:PATH` | processes of this host (feature `sqlite`) |
///
/// Every URL takes `?namespace=NAME`. Options an engine does not know are
/// refused, with the list of those it knows.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// let locks = leasehold::open("memory:?namespace=shop").await?;
/// let typo = leasehold::open("memory:?namespce=shop").await.unwrap_err();
/// assert!(typo.to_string().contains("namespace"));
/// # Ok(()) }
/// ```
pub fn open(url: impl Into<String>) -> Opening {
    Opening { url: url.into() }
}

/// An engine to be opened by awaiting it.
#[must_use = "does nothing unless awaited"]
pub struct Opening {
    url: String,
}

impl std::fmt::Debug for Opening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A URL may hold a password.
        f.write_str("Opening")
    }
}

impl Opening {
    async fn open(self) -> Result<Locks> {
        let url = Url::parse(&self.url)?;
        let row = engines::find(&url.scheme)?;
        let namespace = url.options.get("namespace")?.map(str::to_owned);
        url.options.check(row)?;
        let engine = open_at_home(row, url).await?;
        let locks = Locks::on(engine, Clock::System)?;
        namespace.map_or(Ok(locks.clone()), |namespace| locks.namespace(namespace))
    }
}

impl IntoFuture for Opening {
    type Output = Result<Locks>;
    type IntoFuture = BoxFuture<Result<Locks>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.open())
    }
}

/// Engines keep connections and tasks, and these belong on home.
async fn open_at_home(row: &'static Row, url: Url) -> Result<Arc<dyn Engine>> {
    let home = Home::find()?;
    let opened = Errand::new(home.handle().clone(), |parcel| async move {
        parcel.put((row.open)(url).await);
    });
    opened.await
}

/// `scheme:rest?key=value&key=value`, percent-decoded.
pub(crate) struct Url {
    pub(crate) scheme: String,
    /// What stands between the scheme and the options.
    pub(crate) rest: String,
    pub(crate) options: Options,
}

impl Url {
    fn parse(url: &str) -> Result<Self> {
        let Some((scheme, rest)) = url.split_once(':') else {
            // The text may be anything, a secret included: it is not repeated.
            return Err(Error::invalid(format!(
                "an engine URL starts with its scheme, one of {}",
                engines::schemes()
            )));
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let options = Options::parse(query)?;
        Ok(Self { scheme: scheme.to_ascii_lowercase(), rest: decode(rest)?, options })
    }
}

/// The options of a URL.
#[derive(Clone)]
pub(crate) struct Options(Vec<(String, String)>);

impl Options {
    /// What every engine takes.
    const COMMON: [&'static str; 1] = ["namespace"];

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

    fn check(&self, row: &Row) -> Result<()> {
        let known: Vec<&str> = Self::COMMON.iter().chain(row.options).copied().collect();
        match self.0.iter().find(|(key, _)| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some((key, _)) => Err(Error::invalid(format!(
                "unknown option {key:?} for {}; valid options: {}",
                row.scheme,
                known.join(", ")
            ))),
        }
    }
}

fn decode(text: &str) -> Result<String> {
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
