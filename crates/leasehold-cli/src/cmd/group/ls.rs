//! Who is here.

use leasehold::{Group, Member};

use super::MemberJson;
use crate::failure::Failure;
use crate::{output, table, text};

const COLUMNS: [&str; 3] = ["ID", "PAYLOAD", "LABEL"];

pub(super) async fn ls(group: &Group, json: bool) -> Result<(), Failure> {
    let members = group.members().await?;
    if json {
        return output::print_json(&members.iter().map(MemberJson::from).collect::<Vec<_>>());
    }
    output::print(&if output::is_terminal() { table(&members) } else { lines(&members) })
}

/// For people.
fn table(members: &[Member]) -> String {
    if members.is_empty() {
        return "nobody is here\n".into();
    }
    table::table(COLUMNS, members.iter().map(|member| cells(member, text::visible)), &[])
}

/// For programs.
fn lines(members: &[Member]) -> String {
    members.iter().map(|member| cells(member, text::one_line).join("\t") + "\n").collect()
}

fn cells(member: &Member, show: fn(&str) -> String) -> [String; COLUMNS.len()] {
    [&member.id, &member.payload, &member.label].map(|text| show(text))
}
