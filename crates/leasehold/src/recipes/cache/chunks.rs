//! A sorted table by name, whose copies are cheap: a copy shares all that has not
//! changed since.

use std::sync::Arc;

use crate::name::Name;

/// How many entries are copied at most when one changes.
const FULL: usize = 128;

type Chunk<V> = Arc<Vec<(Name, V)>>;

/// Entries in the order of their names, which are all of one namespace.
#[derive(Debug)]
pub(super) struct Chunks<V> {
    /// None of them is empty.
    chunks: Vec<Chunk<V>>,
    len: usize,
}

impl<V> Default for Chunks<V> {
    fn default() -> Self {
        Self { chunks: Vec::new(), len: 0 }
    }
}

impl<V> Clone for Chunks<V> {
    fn clone(&self) -> Self {
        Self { chunks: self.chunks.clone(), len: self.len }
    }
}

fn position<V>(chunk: &[(Name, V)], text: &str) -> Result<usize, usize> {
    chunk.binary_search_by(|(name, _)| name.as_str().cmp(text))
}

impl<V> Chunks<V> {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, text: &str) -> Option<&V> {
        let chunk = self.chunks.get(self.chunk_of(text))?;
        position(chunk, text).ok().map(|at| &chunk[at].1)
    }

    /// Where it is, or would be.
    fn chunk_of(&self, text: &str) -> usize {
        let after = self.chunks.partition_point(|chunk| chunk[0].0.as_str() <= text);
        after.saturating_sub(1)
    }

    /// All that come after `text`; all of them if there is none.
    pub(super) fn after<'a>(
        &'a self,
        text: Option<&'a str>,
    ) -> impl Iterator<Item = (&'a Name, &'a V)> {
        let from = text.map_or(0, |text| self.chunk_of(text));
        let all = self.chunks[from..].iter().flat_map(|chunk| chunk.iter());
        let before = move |(name, _): &&(Name, V)| text.is_some_and(|it| name.as_str() <= it);
        all.skip_while(before).map(|(name, value)| (name, value))
    }
}

impl<V: Clone> Chunks<V> {
    /// Puts a value in place of another one, if there was one.
    pub(super) fn insert(&mut self, name: Name, value: V) -> Option<V> {
        if self.chunks.is_empty() {
            self.chunks.push(Arc::new(vec![(name, value)]));
            self.len = 1;
            return None;
        }
        let at = self.chunk_of(name.as_str());
        match position(&self.chunks[at], name.as_str()) {
            Ok(place) => {
                let old = &mut Arc::make_mut(&mut self.chunks[at])[place].1;
                Some(std::mem::replace(old, value))
            }
            Err(place) => {
                self.len += 1;
                self.add(at, place, (name, value));
                None
            }
        }
    }

    /// Adds what was not there. A full chunk is cut in two; of names that come in
    /// their order, behind its last one.
    fn add(&mut self, at: usize, place: usize, entry: (Name, V)) {
        let chunk = Arc::make_mut(&mut self.chunks[at]);
        if chunk.len() < FULL {
            return chunk.insert(place, entry);
        }
        let cut = if place == FULL { FULL } else { FULL / 2 };
        let mut upper = chunk.split_off(cut);
        if place < cut {
            chunk.insert(place, entry)
        } else {
            upper.insert(place - cut, entry)
        }
        self.chunks.insert(at + 1, Arc::new(upper));
    }

    pub(super) fn remove(&mut self, text: &str) -> Option<V> {
        let at = self.chunk_of(text);
        let place = position(self.chunks.get(at)?, text).ok()?;
        let (_, value) = Arc::make_mut(&mut self.chunks[at]).remove(place);
        self.len -= 1;
        self.join(at);
        Some(value)
    }

    /// Small chunks are put together, so that few entries take little room.
    fn join(&mut self, at: usize) {
        if self.chunks[at].is_empty() {
            self.chunks.remove(at);
            return;
        }
        let lower = if at + 1 < self.chunks.len() { at } else { at.saturating_sub(1) };
        let Some(upper) = self.chunks.get(lower + 1) else { return };
        if self.chunks[lower].len() + upper.len() <= FULL / 2 {
            let upper = Arc::unwrap_or_clone(self.chunks.remove(lower + 1));
            Arc::make_mut(&mut self.chunks[lower]).extend(upper);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::name::Namespace;

    fn name(at: u16) -> Name {
        Name::new(&Namespace::default(), format!("{at:05}")).unwrap()
    }

    fn all(chunks: &Chunks<u16>) -> Vec<(String, u16)> {
        chunks.after(None).map(|(name, value)| (name.as_str().to_owned(), *value)).collect()
    }

    fn is_tidy(chunks: &Chunks<u16>) -> bool {
        chunks.chunks.iter().all(|chunk| (1..=FULL).contains(&chunk.len()))
    }

    proptest! {
        #[test]
        fn it_is_a_sorted_table_and_a_copy_stays_as_it_was(
            steps in proptest::collection::vec((0_u16..600, 0_u8..4), 1..1500),
            copied_at in 0_usize..1500,
        ) {
            let (mut chunks, mut model) = (Chunks::default(), BTreeMap::new());
            let mut copy = None;
            for (at, (key, verb)) in steps.into_iter().enumerate() {
                let (text, value) = (format!("{key:05}"), u16::try_from(at).unwrap());
                if at == copied_at {
                    copy = Some((chunks.clone(), all(&chunks)));
                }
                if verb == 0 {
                    prop_assert_eq!(chunks.remove(&text), model.remove(&text));
                } else {
                    prop_assert_eq!(chunks.insert(name(key), value), model.insert(text.clone(), value));
                }
                prop_assert_eq!(chunks.get(&text), model.get(&text));
                prop_assert_eq!(chunks.len(), model.len());
            }
            prop_assert!(is_tidy(&chunks));
            let from: Vec<_> = chunks.after(Some("00300")).map(|(_, value)| *value).collect();
            let wanted = model.iter().filter(|(text, _)| text.as_str() > "00300");
            prop_assert_eq!(from, wanted.map(|(_, value)| *value).collect::<Vec<_>>());
            prop_assert_eq!(all(&chunks), model.into_iter().collect::<Vec<_>>());
            if let Some((copy, was)) = copy {
                prop_assert_eq!(all(&copy), was);
            }
        }
    }

    #[test]
    fn names_in_order_fill_chunks_and_few_that_remain_share_one() {
        let mut chunks = Chunks::default();
        for at in 0..1280 {
            chunks.insert(name(at), at);
        }
        assert_eq!(chunks.chunks.len(), 10);
        for at in (0..1280).filter(|at| at % 64 != 0) {
            chunks.remove(&format!("{at:05}"));
        }
        assert_eq!((chunks.len(), chunks.chunks.len()), (20, 1));
    }
}
