//! Who comes and goes.

use leasehold::{GroupEvent, Member};
use serde::Serialize;

use crate::args::Global;
use crate::cmd::follow;
use crate::failure::Failure;
use crate::text::visible;
use crate::{engine, output};

pub(super) async fn watch(global: &Global, name: &str) -> Result<(), Failure> {
    let locks = engine::open(global).await?;
    let name = locks.name(name)?;
    let group = locks.group(name.as_str());
    let mut news = engine::answer(async { Ok(group.watch().await?) }).await?;
    while let Some(event) = news.next().await {
        let (event, member) = told(&event);
        let namespace = name.namespace().as_str();
        let line = GroupLine::new(event, name.as_str(), namespace, member);
        line.print(global.json)?;
    }
    Ok(())
}

fn told(event: &GroupEvent) -> (&'static str, Option<&Member>) {
    match event {
        GroupEvent::Joined(member) => ("joined", Some(member)),
        GroupEvent::Changed(member) => ("changed", Some(member)),
        GroupEvent::Left(member) => ("left", Some(member)),
        GroupEvent::Synced => ("synced", None),
        _ => ("stale", None),
    }
}

/// Something that happened to a group. Field names are a promise.
#[derive(Serialize)]
struct GroupLine<'a> {
    at: String,
    event: &'static str,
    group: &'a str,
    namespace: &'a str,
    id: Option<&'a str>,
    payload: Option<&'a str>,
    label: Option<&'a str>,
}

impl<'a> GroupLine<'a> {
    fn new(
        event: &'static str,
        group: &'a str,
        namespace: &'a str,
        member: Option<&'a Member>,
    ) -> Self {
        let id = member.map(|member| &*member.id);
        let payload = member.map(|member| &*member.payload);
        let label = member.map(|member| &*member.label);
        Self { at: follow::now(), event, group, namespace, id, payload, label }
    }

    fn print(&self, json: bool) -> Result<(), Failure> {
        if json {
            return output::print_json_line(self);
        }
        let [id, payload, label] =
            [self.id, self.payload, self.label].map(|text| visible(text.unwrap_or_default()));
        let who = if id.is_empty() { id } else { format!("{id} ({label})  {payload}") };
        output::print(&follow::line(self.event, &format!("{}  {who}", visible(self.group))))
    }
}
