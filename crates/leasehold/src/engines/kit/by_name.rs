//! What engines without an index show: one name, and no list.

use std::future::ready;

use crate::engine::{BoxFuture, Listing, Selector, Status};
use crate::error::{Error, ErrorKind, Result};
use crate::name::Name;

/// Shows the one name that is asked for; `status` looks at it.
pub(in crate::engines) fn inspect<F>(
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Namespace;

    fn looked(selector: Selector) -> BoxFuture<Result<Listing>> {
        inspect(selector, |name| async { Ok(Status::new(name)) })
    }

    #[tokio::test]
    async fn one_name_is_shown_and_a_list_is_refused() {
        let name = Name::new(&Namespace::default(), "n").unwrap();
        let shown = looked(Selector::Name(name.clone())).await.unwrap();
        assert!(shown.names.len() == 1 && shown.names[0].name == name && !shown.more);
        let list = Selector::Prefix(Namespace::default(), "".into());
        assert_eq!(looked(list).await.unwrap_err().kind(), ErrorKind::Unsupported);
    }
}
