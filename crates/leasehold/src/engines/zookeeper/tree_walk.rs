//! A walk through the values of a tree of nodes, in the order of their names.
//!
//! What lies below a node comes after the node, and after some of those beside it: `/a`,
//! `/a!`, `/a/b`. So a node and what is below it are two stations of the walk, the second
//! with a slash at its end, and the order of texts is the order of the walk.

use std::collections::BTreeMap;

use super::client::{ZkClient, children, data};
use super::layout::PathLayout;
use super::stored::Stored;
use super::wire::{Stat, ZkRequest};
use crate::engine::Scope;
use crate::engine::records::PAGE_BYTES;
use crate::engines::consensus::{Scan, StoredValue};
use crate::error::Result;
use crate::name::Name;

/// How many stations are looked at in one go, and at most ahead of what is wanted.
const TOGETHER: usize = 64;

/// What is known of a station.
#[derive(Debug, PartialEq, Eq)]
enum Station {
    /// There is such a node.
    Unread,
    /// There may be nodes below.
    Unlisted,
    Value(StoredValue),
}

/// What is left of a walk, by name.
#[derive(Debug)]
struct TreeWalk {
    scope: Scope,
    from: String,
    /// What is not walked through: our own root.
    own: String,
    left: BTreeMap<String, Station>,
}

impl TreeWalk {
    /// Through the names of a scope, from `from` on.
    fn new(scope: &Scope, from: &str, own: &str) -> Self {
        let (from, own) = (from.to_owned(), own.to_owned());
        let mut walk = Self { scope: scope.clone(), from, own, left: BTreeMap::new() };
        match scope.root() {
            root if scope.depth() == 0 => walk.add_node(root.to_owned()),
            "" => walk.add_below("/".into()),
            root => walk.add_below(root.to_owned()),
        }
        walk
    }

    fn add_node(&mut self, name: String) {
        if name >= self.from && self.scope.reaches(&name) {
            self.left.insert(name, Station::Unread);
        }
    }

    /// What lies below, if anything of it is in scope and not before the beginning.
    fn add_below(&mut self, path: String) {
        let ahead = path >= self.from || self.from.starts_with(&path);
        if ahead && self.scope.reaches(&path) {
            self.left.insert(path, Station::Unlisted);
        }
    }

    /// The next stations that have to be looked at, unless a value comes before them.
    fn asked(&self) -> Vec<String> {
        let near = self.left.iter().take(TOGETHER);
        let unknown = near.filter(|(_, station)| !matches!(station, Station::Value(_)));
        unknown.map(|(text, _)| text.clone()).collect()
    }

    /// The value that comes next, if it is known.
    fn next(&mut self) -> Option<(String, StoredValue)> {
        let first = self.left.first_entry()?;
        match first.get() {
            Station::Value(_) => match first.remove_entry() {
                (name, Station::Value(value)) => Some((name, value)),
                _ => None,
            },
            Station::Unread | Station::Unlisted => None,
        }
    }

    /// A node holds this, or has gone.
    fn read(&mut self, name: &str, found: Option<(Vec<u8>, Stat)>) {
        self.left.remove(name);
        let Some((bytes, stat)) = found else { return };
        if stat.children > 0 {
            self.add_below(format!("{name}/"));
        }
        let value = Stored::raw(bytes, stat).value();
        self.left.insert(name.to_owned(), Station::Value(value));
    }

    /// These nodes lie below a path.
    fn listed(&mut self, path: &str, segments: Vec<String>) {
        self.left.remove(path);
        for segment in segments {
            let name = format!("{path}{segment}");
            if name == self.own || Name::new(self.scope.namespace(), name.as_str()).is_err() {
                continue;
            }
            if name < self.from {
                // Nobody reads it, so nobody hears whether there is anything below.
                self.add_below(format!("{name}/"));
            } else {
                self.add_node(name);
            }
        }
    }

    fn is_over(&self) -> bool {
        self.left.is_empty()
    }
}

impl ZkClient {
    pub(super) async fn scan_tree(&self, scope: &Scope, from: &str, most: usize) -> Result<Scan> {
        PathLayout::check_path(scope.namespace(), scope.root())?;
        if self.layout.is_own(scope.root()) {
            return Ok((Vec::new(), false));
        }
        let mut walk = TreeWalk::new(scope, from, self.layout.own_name());
        let (mut found, mut bytes) = (Vec::new(), 0);
        while found.len() < most && bytes < PAGE_BYTES && !walk.is_over() {
            let Some((text, value)) = walk.next() else {
                self.go_on(&mut walk).await?;
                continue;
            };
            bytes += value.bytes.len();
            found.push((Name::new(scope.namespace(), text)?, value));
        }
        Ok((found, !walk.is_over()))
    }

    async fn go_on(&self, walk: &mut TreeWalk) -> Result<()> {
        let asked = walk.asked();
        let look = |text: &String| self.look_at_station(text);
        let answers = self.ask_now(asked.iter().map(look).collect()).await?;
        for (text, answer) in asked.iter().zip(answers) {
            if text.ends_with('/') {
                walk.listed(text, children(answer)?);
            } else {
                walk.read(text, data(answer)?);
            }
        }
        Ok(())
    }

    fn look_at_station(&self, text: &str) -> ZkRequest {
        match text.strip_suffix('/') {
            Some(above) => ZkRequest::GetChildren { path: self.layout.path(above), watch: false },
            None => ZkRequest::GetData { path: self.layout.path(text), watch: false },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::btree_set;
    use proptest::prelude::*;

    use super::*;
    use crate::name::Namespace;

    /// All nodes that are there if these are.
    fn tree(names: &BTreeSet<String>) -> BTreeSet<String> {
        let above = |name: &String| super::super::paths::above(name);
        names.iter().flat_map(above).chain(names.iter().cloned()).collect()
    }

    fn below(tree: &BTreeSet<String>, path: &str) -> Vec<String> {
        let rest = tree.iter().filter_map(|name| name.strip_prefix(path));
        rest.filter(|rest| !rest.is_empty() && !rest.contains('/')).map(str::to_owned).collect()
    }

    /// What a walk finds, and how many looks it takes.
    fn walked(
        tree: &BTreeSet<String>,
        scope: &Scope,
        from: &str,
        most: usize,
    ) -> (Vec<String>, usize) {
        let mut walk = TreeWalk::new(scope, from, "/own");
        let (mut found, mut looks) = (Vec::new(), 0);
        while found.len() < most && !walk.is_over() {
            let Some((name, _)) = walk.next() else {
                for text in walk.asked() {
                    looks += 1;
                    let children = below(tree, &format!("{}/", text.trim_end_matches('/')));
                    if text.ends_with('/') {
                        walk.listed(&text, children);
                    } else {
                        let children = i32::try_from(children.len()).unwrap();
                        walk.read(&text, Some((vec![], Stat { children, ..Stat::default() })));
                    }
                }
                continue;
            };
            found.push(name);
        }
        (found, looks)
    }

    fn wanted(tree: &BTreeSet<String>, scope: &Scope, from: &str) -> Vec<String> {
        let is_wanted = |name: &&String| {
            let hidden = *name == "/own" || name.starts_with("/own/");
            name.starts_with(scope.root())
                && scope.reaches(name)
                && name.as_str() >= from
                && !hidden
        };
        tree.iter().filter(is_wanted).cloned().collect()
    }

    #[test]
    fn a_page_looks_at_no_more_than_lies_near_it() {
        let wide = (0..500).map(|n| format!("/w/{n:04}"));
        let deep = (0..500).map(|n| format!("/w/{n:04}/deep/er"));
        let tree = tree(&wide.chain(deep).collect());
        let scope = |depth| Scope::below(&Namespace::default(), "/w", depth);
        let (found, looks) = walked(&tree, &scope(1), "/w/0250", 10);
        assert_eq!((found.len(), found[0].as_str()), (10, "/w/0250"));
        assert!(looks <= 2 * TOGETHER, "{looks}");
        let (found, looks) = walked(&tree, &scope(usize::MAX), "/w/0250/deep", 10);
        assert_eq!(found[..3], ["/w/0250/deep", "/w/0250/deep/er", "/w/0251"]);
        assert!(looks <= 12 * TOGETHER, "{looks}");
    }

    proptest! {
        #[test]
        fn a_walk_finds_what_is_in_scope_in_order(
            names in btree_set("(/(a|b|a!|a0|own|é)){1,4}", 0..40),
            root in "|/|/a|/a/b|/own2|/a!",
            from in "[/ab!0]{0,5}",
            depth in 0_usize..5,
            most in 1_usize..50,
        ) {
            let tree = tree(&names);
            let scope = Scope::below(&Namespace::default(), &root, depth);
            prop_assume!(!(depth == 0 && (root.is_empty() || root == "/")));
            let from = from.max(scope.root().to_owned());
            let mut all = wanted(&tree, &scope, &from);
            if depth == 0 {
                // A node that is asked for by name is looked for, there or not.
                all = if scope.root() >= from.as_str() { vec![root] } else { vec![] };
            }
            all.truncate(most);
            prop_assert_eq!(walked(&tree, &scope, &from, most).0, all);
        }
    }
}
