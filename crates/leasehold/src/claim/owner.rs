//! Owners: who asks, to the library and to people.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
#[cfg(not(leasehold_sim))]
use std::sync::OnceLock;

use super::id::{process, random_bits};

/// The longest owner label in bytes.
pub const LABEL_MAX: usize = 255;

/// The identity of an owner: random, and never shown.
pub(crate) type OwnerId = u128;

/// Who asks: an identity that may re-enter, and a label for people to read.
///
/// An owner that is given to [`Locks::owned_by`](crate::Locks::owned_by) can
/// take what it already holds: the second guard costs no request, has the same
/// fence, and the lease ends with the last one.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> leasehold::Result<()> {
/// # let locks = leasehold::Locks::memory();
/// use leasehold::Owner;
///
/// let order = locks.owned_by(&Owner::new("checkout")).mutex("order/42");
/// let outer = order.lock().await?;
/// let inner = order.lock().await?;
/// assert_eq!(outer.fence(), inner.fence());
/// drop(outer);
/// inner.check()?;
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
#[cfg_attr(
    any(feature = "sqlite", feature = "postgres", feature = "mysql"),
    derive(serde::Serialize, serde::Deserialize)
)]
pub struct Owner {
    pub(crate) id: OwnerId,
    label: Arc<str>,
}

impl Owner {
    /// A new identity with this label; control characters become spaces and
    /// what is longer than 255 bytes is cut.
    #[must_use]
    pub fn new(label: impl AsRef<str>) -> Self {
        Self { id: random_bits(), label: tidy(label.as_ref(), LABEL_MAX).into() }
    }

    /// A new identity, labelled with host, process and thread.
    #[cfg(not(leasehold_sim))]
    pub(crate) fn of_this_thread() -> Self {
        match std::thread::current().name() {
            Some(thread) => Self::new(format!("{}/{thread}", process_label())),
            None => Self::new(process_label()),
        }
    }

    #[cfg(leasehold_sim)]
    pub(crate) fn of_this_thread() -> Self {
        Self::new(crate::sim::label())
    }

    /// The identity of the thread that asks, as long as it lives: random, because
    /// the system gives the number of a thread that has ended to another one.
    pub(crate) fn this_thread() -> Self {
        thread_local! {
            static ME: RefCell<Option<(u32, Owner)>> = const { RefCell::new(None) };
        }
        let here = process();
        let mine = ME.try_with(|me| {
            let mut me = me.borrow_mut();
            let known = me.take().filter(|(process, _)| *process == here);
            me.insert(known.unwrap_or_else(|| (here, Self::of_this_thread()))).1.clone()
        });
        // A thread at its very end has nothing left to re-enter.
        mine.unwrap_or_else(|_| Self::of_this_thread())
    }

    /// The same identity under another label.
    #[must_use]
    pub fn labelled(&self, label: impl AsRef<str>) -> Self {
        Self { id: self.id, ..Self::new(label) }
    }

    /// What people see in `ls`, in errors and in logs.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Owner").field(&self.label).finish()
    }
}

/// `host:process` of this process.
#[cfg(not(leasehold_sim))]
fn process_label() -> &'static str {
    static LABEL: OnceLock<String> = OnceLock::new();
    LABEL.get_or_init(|| {
        let host = rustix::system::uname();
        format!("{}:{}", host.nodename().to_string_lossy(), std::process::id())
    })
}

fn tidy(text: &str, most: usize) -> String {
    let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut size = 0;
    let fits = |c: &char| {
        size += c.len_utf8();
        size <= most
    };
    clean.take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_one_short_line() {
        let owner = Owner::new(format!("two\nlines {}", "é".repeat(300)));
        assert!(owner.label().starts_with("two lines é"));
        assert!(owner.label().len() <= LABEL_MAX);
    }
}
