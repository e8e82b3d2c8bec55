//! Where to look, and for what: `[URL] [PREFIX]`.

use clap::Args;
use leasehold::is_engine_url;

use super::Global;
use crate::failure::Failure;

/// Which names of which engine.
#[derive(Args)]
pub(crate) struct Aim {
    /// Only names that start with this text; before it, or alone, the URL of an
    /// engine, as --engine takes it
    #[arg(value_name = "URL | PREFIX", num_args = 0..=2)]
    words: Vec<String>,
}

impl Aim {
    /// The prefix; the engine goes to where it belongs.
    pub(crate) fn prefix(&self, global: &mut Global) -> Result<String, Failure> {
        Ok(aimed(&self.words, global)?.unwrap_or_default())
    }
}

/// The word that is not the URL of an engine.
pub(super) fn aimed(words: &[String], global: &mut Global) -> Result<Option<String>, Failure> {
    let (url, word) = match words {
        [url] if is_engine_url(url) => (Some(url), None),
        [word] => (None, Some(word)),
        [url, word] if is_engine_url(url) => (Some(url), Some(word)),
        [] => (None, None),
        _ => return Err(Failure::usage("of two words the first is the URL of an engine")),
    };
    if let Some(url) = url {
        global.take_engine(url)?;
    }
    Ok(word.cloned())
}

/// Refuses a name that was meant to be something else: it would be looked for,
/// or locked, on the default engine.
pub(super) fn is_name(word: &str) -> Result<(), Failure> {
    let advice = "say --engine URL, and a name";
    if is_engine_url(word) {
        return Err(Failure::usage(format!(
            "the name of a lock is the URL of an engine; {advice}"
        )));
    }
    Ok(())
}

impl Global {
    /// Takes an engine that stands among the arguments. The variable is only a
    /// default; the option is not. No URL is repeated: it may hold a password.
    fn take_engine(&mut self, url: &str) -> Result<(), Failure> {
        if is_option_given() && self.engine.as_deref() != Some(url) {
            let why = "--engine and the URL among the arguments are two engines; leave one out";
            return Err(Failure::usage(why));
        }
        self.engine = Some(url.to_owned());
        Ok(())
    }
}

fn is_option_given() -> bool {
    let is_option = |word: &std::ffi::OsStr| {
        word.as_encoded_bytes().split(|b| *b == b'=').next() == Some(b"--engine")
    };
    std::env::args_os().any(|word| is_option(&word))
}
