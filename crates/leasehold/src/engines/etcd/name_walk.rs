//! A walk through names in their order, though their keys lie in another one.
//!
//! What may follow the same text lies in this order: blanks up to `%`, the slash (which
//! is `%2F`), `&` up to `.`, the end of a name (a slash), everything else. Names come in
//! this one: the end, blanks up to `%`, `&` up to `.`, the slash, everything else. So
//! keys are in order where none of the low signs follows, and a stretch of them is taken
//! apart where one does.

use std::collections::BTreeSet;

use super::keys::{escape, unescape};
use super::txn::end_of;

/// Keys from here to before there. Whatever comes in it comes before the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyStretch {
    pub(super) from: Vec<u8>,
    pub(super) to: Vec<u8>,
    /// Up to which byte of a name the order of its keys is that of the names.
    settled: usize,
}

impl KeyStretch {
    /// What lies before a key of it, and the rest.
    pub(super) fn cut_at(self, key: Vec<u8>) -> (Self, Self) {
        (Self { to: key.clone(), ..self.clone() }, Self { from: key, ..self })
    }
}

/// What is left to be read, and what was found.
#[derive(Debug)]
pub(super) struct NameWalk {
    /// What all keys begin with.
    locks: String,
    /// The next one last.
    left: Vec<KeyStretch>,
    /// In order; nothing that is left comes before them.
    pub(super) found: Vec<String>,
}

impl NameWalk {
    /// Through the names that begin with `prefix`, after `after`.
    pub(super) fn new(locks: String, prefix: &str, after: Option<&str>) -> Self {
        let mut walk = Self { locks, left: Vec::new(), found: Vec::new() };
        let mut all = match after {
            Some(after) if after.starts_with(prefix) => walk.behind(prefix, after),
            Some(after) if after > prefix => Vec::new(),
            _ => vec![walk.below(prefix)],
        };
        all.reverse();
        walk.left = all;
        walk
    }

    pub(super) fn next(&mut self) -> Option<KeyStretch> {
        self.left.pop()
    }

    /// Puts back what was not read, or not to its end.
    pub(super) fn put_back(&mut self, stretch: KeyStretch) {
        if stretch.from < stretch.to {
            self.left.push(stretch);
        }
    }

    /// Takes the keys that a stretch begins with, or all of it unless there are more.
    pub(super) fn take<'a>(
        &mut self,
        stretch: KeyStretch,
        keys: impl Iterator<Item = &'a [u8]>,
        more: bool,
    ) {
        let (mut names, mut last_name, mut last_key) = (BTreeSet::new(), None, None);
        for key in keys {
            last_key = Some(key);
            last_name = self.name_of(key).or(last_name);
            names.extend(last_name.clone());
        }
        match (last_name, last_key) {
            _ if !more => self.found.extend(names),
            (Some(last), _) => self.cut(stretch, &last, names),
            // Keys of something else.
            (None, Some(key)) => {
                self.put_back(KeyStretch { from: [key, &[0]].concat(), ..stretch })
            }
            (None, None) => {}
        }
    }

    /// Takes what is read of a stretch up to this name, as far as nothing that is left
    /// comes before it. A long line is left behind at once.
    fn cut(&mut self, stretch: KeyStretch, last: &str, names: BTreeSet<String>) {
        let low = |at: &usize| is_low(last.as_bytes()[*at]);
        let Some(at) = (stretch.settled..last.len()).find(low) else {
            self.found.extend(names);
            return self.put_back(KeyStretch { from: self.key(last, "0"), ..stretch });
        };
        let before = &last[..at];
        self.found.extend(names.into_iter().filter(|name| !name.starts_with(before)));
        let mut parts = vec![self.part(before, "/", "0")];
        parts.extend(self.low_parts(before));
        parts.push(KeyStretch { from: self.key(before, "0"), ..stretch.clone() });
        for mut part in parts.into_iter().rev() {
            part.from = part.from.max(stretch.from.clone());
            part.to = part.to.min(stretch.to.clone());
            self.put_back(part);
        }
    }

    /// All that begin with this text.
    fn below(&self, text: &str) -> KeyStretch {
        let from = self.key(text, "");
        KeyStretch { to: end_of(&from), from, settled: text.len() }
    }

    /// All of them that come after a name, in order: what the name begins, and then what
    /// follows where one more of its signs is left off.
    fn behind(&self, prefix: &str, after: &str) -> Vec<KeyStretch> {
        let mut all = vec![KeyStretch { settled: after.len(), ..self.part(after, " ", "/") }];
        let mut from = self.key(after, "0");
        for at in (prefix.len()..after.len()).rev().filter(|at| is_low(after.as_bytes()[*at])) {
            let (before, through) = (&after[..at], &after[..=at]);
            let passed = self.below(through).to;
            all.push(KeyStretch { from, to: passed.clone(), settled: through.len() });
            if !through.ends_with('/') {
                let [low, middle, slash] = self.low_parts(before);
                let behind =
                    |part: KeyStretch| KeyStretch { from: part.from.max(passed.clone()), ..part };
                all.extend([behind(low), behind(middle), slash]);
            }
            from = self.key(before, "0");
        }
        let to = self.below(prefix).to;
        all.push(KeyStretch { from, to, settled: prefix.len() });
        all.retain(|stretch| stretch.from < stretch.to);
        all
    }

    /// What may follow a text and does not lie in order, in order.
    fn low_parts(&self, text: &str) -> [KeyStretch; 3] {
        [(" ", "%26"), ("&", "/"), ("%2F", "%2G")].map(|(from, to)| self.part(text, from, to))
    }

    fn part(&self, text: &str, from: &str, to: &str) -> KeyStretch {
        let (from, to) = (self.key(text, from), self.key(text, to));
        KeyStretch { from, to, settled: text.len() + 1 }
    }

    fn key(&self, text: &str, end: &str) -> Vec<u8> {
        [&self.locks, escape(text).as_str(), end].concat().into_bytes()
    }

    /// The name of a line whose key this is, if it is one of ours.
    pub(super) fn name_of(&self, key: &[u8]) -> Option<String> {
        let (segment, _) = str::from_utf8(key).ok()?.strip_prefix(&self.locks)?.split_once('/')?;
        unescape(segment).filter(|name| escape(name) == segment)
    }
}

/// Whether a sign comes before the digits: those do not lie in order.
const fn is_low(sign: u8) -> bool {
    sign >= b' ' && sign <= b'/'
}

#[cfg(test)]
mod tests {
    use proptest::collection::btree_set;
    use proptest::prelude::*;

    use super::*;

    const LOCKS: &str = "top/locks/";

    /// The keys of these names, two for each and many for the first, and what is none
    /// of ours.
    fn keys(names: &BTreeSet<String>) -> BTreeSet<Vec<u8>> {
        let claims = |(at, name): (usize, &String)| {
            let base = format!("{LOCKS}{}/", escape(name));
            let many = if at == 0 { 9 } else { 2 };
            (0..many).map(move |n| format!("{base}{n}").into_bytes())
        };
        let strange = ["top/locks/x", "top/locks/%2f/1", "top/locks/a%/2", "top/locksmith", "top/"];
        names.iter().enumerate().flat_map(claims).chain(strange.map(Into::into)).collect()
    }

    /// A page of a walk, and how many ranges were read for it.
    fn page(
        keys: &BTreeSet<Vec<u8>>,
        prefix: &str,
        after: Option<&str>,
        most: usize,
    ) -> (Vec<String>, usize) {
        let (mut walk, mut ranges) = (NameWalk::new(LOCKS.into(), prefix, after), 0);
        while walk.found.len() < most
            && let Some(stretch) = walk.next()
        {
            ranges += 1;
            let mut found = keys.range(stretch.from.clone()..stretch.to.clone());
            let read: Vec<_> = found.by_ref().take(most).map(|key| &key[..]).collect();
            walk.take(stretch, read.into_iter(), found.next().is_some());
        }
        walk.found.truncate(most);
        (walk.found, ranges)
    }

    #[test]
    fn names_of_one_kind_take_few_ranges_from_wherever() {
        let names: BTreeSet<_> = (0..5000).map(|n| format!("jobs/{n:07}")).collect();
        let keys = keys(&names);
        for after in [None, Some("jobs/0000100"), Some("jobs/0004321")] {
            let (found, ranges) = page(&keys, "", after, 100);
            assert_eq!(found.len(), 100);
            assert!(ranges <= 7, "{ranges} after {after:?}");
        }
    }

    proptest! {
        #[test]
        fn a_walk_finds_every_name_once_and_in_order(
            names in btree_set("[a0 !%&./é]{1,6}", 1..60),
            prefix in "[a0 %/]{0,2}",
            most in 1_usize..20,
        ) {
            let keys = keys(&names);
            let (mut seen, mut after) = (Vec::new(), None::<String>);
            loop {
                let (found, _) = page(&keys, &prefix, after.as_deref(), most);
                let Some(last) = found.last().cloned() else { break };
                seen.extend(found);
                after = Some(last);
            }
            let all: Vec<_> = names.into_iter().filter(|name| name.starts_with(&prefix)).collect();
            prop_assert_eq!(seen, all);
        }

        #[test]
        fn any_text_may_be_what_is_gone_on_after(
            names in btree_set("[a0 %/.]{1,5}", 1..40),
            prefix in "[a0/]{0,2}",
            after in "[a0 %/.é]{1,5}",
        ) {
            let (found, _) = page(&keys(&names), &prefix, Some(&after), 1000);
            let wanted = |name: &String| name.starts_with(&prefix) && *name > after;
            let all: Vec<_> = names.into_iter().filter(wanted).collect();
            prop_assert_eq!(found, all);
        }
    }
}
