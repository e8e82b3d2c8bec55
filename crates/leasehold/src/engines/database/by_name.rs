//! What strategies without an index show: one name, and no list.

use std::future::ready;

use crate::engine::{BoxFuture, Listing, Selector, Status};
use crate::error::{Error, ErrorKind, Result};
use crate::name::Name;

/// Shows the one name that is asked for; `status` looks at it.
pub(super) fn inspect<F>(
    selector: Selector,
    status: impl FnOnce(Name) -> F,
) -> BoxFuture<Result<Listing>>
where
    F: Future<Output = Result<Status>> + Send + 'static,
{
    let Selector::Name(name) = selector else {
        let error = Error::new(ErrorKind::Unsupported, "there is no index; ask by name");
        return Box::pin(ready(Err(error)));
    };
    let status = status(name);
    Box::pin(async move { Ok(Listing::new(vec![status.await?], false)) })
}
