//! What a URL says about the user's table.

use std::time::Duration;

use crate::engines::kit::backoff::Backoff;
use crate::error::{Error, Result};
use crate::url::Options;

/// How often a waiter asks: first, and at the slowest.
const POLL: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// The user's table, by the names of its columns.
#[derive(Clone, Debug)]
pub(super) struct UserTable {
    pub(super) table: String,
    /// Holds the name of the lock; unique.
    pub(super) column: String,
    /// Holds the secret of the lease: only its owner deletes the row.
    pub(super) token: Option<String>,
    /// Holds the end of the lease, by the database's clock.
    pub(super) expires: Option<String>,
    /// Holds the label of the holder, for people.
    pub(super) owner: Option<String>,
    poll: Duration,
    poll_max: Duration,
}

impl UserTable {
    pub(super) fn from_options(options: &Options) -> Result<Self> {
        refuse_others(options)?;
        let given = |key| options.get(key).map(|value| value.map(str::to_owned));
        let needed = |key| {
            let text = format!("strategy=unique needs the option {key:?}: table=locks&column=name");
            given(key)?.ok_or_else(|| Error::invalid(text))
        };
        let poll = options.duration("poll")?.unwrap_or(POLL.0);
        let poll_max = options.duration("poll_max")?.unwrap_or(POLL.1.max(poll));
        if poll.is_zero() || poll_max < poll {
            return Err(Error::invalid("option \"poll\" is above zero and at most \"poll_max\""));
        }
        let form = Self {
            table: needed("table")?,
            column: needed("column")?,
            token: given("token")?,
            expires: given("expires")?,
            owner: given("owner")?,
            poll,
            poll_max,
        };
        form.checked()
    }

    /// A row that changes hands by itself must say whose it is: else a late
    /// holder would delete its successor's.
    fn checked(self) -> Result<Self> {
        if self.expires.is_some() && self.token.is_none() {
            return Err(Error::invalid(
                "option \"expires\" needs \"token\": who expired must not \
                 delete the row of the next one",
            ));
        }
        Ok(self)
    }

    /// Every column that has to be there.
    pub(super) fn columns(&self) -> impl Iterator<Item = &str> {
        let optional = [&self.token, &self.expires, &self.owner];
        std::iter::once(self.column.as_str())
            .chain(optional.into_iter().filter_map(Option::as_deref))
    }

    /// The pauses between looks in vain: waiters that began together must not go
    /// on together.
    pub(super) const fn backoff(&self) -> Backoff {
        Backoff::new(self.poll, self.poll_max)
    }
}

fn refuse_others(options: &Options) -> Result<()> {
    for key in ["prefix", "wake", "schema"] {
        if options.get(key)?.is_some() {
            return Err(Error::invalid(format!(
                "option {key:?} says nothing to strategy=unique; remove it"
            )));
        }
    }
    Ok(())
}
