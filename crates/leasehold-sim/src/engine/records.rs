//! Records through the same messages. What writes is never sent twice: it is
//! not idempotent, and the contract says so.

use leasehold::engine::{
    BoxFuture, Page, RawRecord, RecordEvents, RecordListing, RecordStore, Scope, Store,
};
use leasehold::{Error, ErrorKind, Name, Result};

use super::bus::Call;
use super::server::Server;
use super::{Line, server};

impl RecordStore for Line {
    fn load(&self, name: Name) -> BoxFuture<Result<Option<RawRecord>>> {
        let what = format!("loads {}", name.as_str());
        let ask = move |server: &mut Server, _| server.load(name.clone());
        let reply = self.ask(Call::again(what, ask, |_| "loaded".into()));
        Box::pin(async move { reply.await? })
    }

    fn store(&self, store: Store) -> BoxFuture<Result<Result<u64, Option<RawRecord>>>> {
        let what = format!("stores {}", store.name.as_str());
        let ask = move |server: &mut Server, _| server.store(store.clone());
        let reply = self.ask(Call::once(what, ask, |_| "answered".into()));
        Box::pin(async move { reply.await? })
    }

    fn add(&self, name: Name, amount: i64) -> BoxFuture<Result<i64>> {
        let what = format!("adds {amount} to {}", name.as_str());
        let ask = move |server: &mut Server, _| server.add(name.clone(), amount);
        let reply = self.ask(Call::once(what, ask, server::shown));
        Box::pin(async move { reply.await? })
    }

    fn list(&self, scope: Scope, page: Page) -> BoxFuture<Result<RecordListing>> {
        let ask = move |server: &mut Server, _| server.list(scope.clone(), page.clone());
        let reply = self.ask(Call::again("lists records".into(), ask, |_| "listed".into()));
        Box::pin(async move { reply.await? })
    }

    fn watch(&self, _: Scope) -> BoxFuture<Result<Box<dyn RecordEvents>>> {
        let text = "nobody watches records in a simulation";
        Box::pin(std::future::ready(Err(Error::new(ErrorKind::Unsupported, text))))
    }
}
