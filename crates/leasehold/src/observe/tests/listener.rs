//! A subscriber that writes everything down, one line each.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::{Debug, Write};
use std::sync::{Mutex, MutexGuard, OnceLock};

use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};

/// Events may come from home, so the one listener hears the whole process.
static LOG: OnceLock<Log> = OnceLock::new();

/// What was heard of one engine.
pub(super) struct Listener(&'static str);

pub(super) fn listen(scheme: &'static str) -> Listener {
    LOG.get_or_init(|| {
        tracing::subscriber::set_global_default(Ear).expect("nobody else listens");
        Log::default()
    });
    Listener(scheme)
}

impl Listener {
    /// All lines, in order.
    pub(super) fn all(&self) -> Vec<String> {
        let log = lines();
        log.lines.iter().filter(|(of, _)| of == self.0).map(|(_, line)| line.clone()).collect()
    }

    /// The events with this text.
    pub(super) fn lines(&self, text: &str) -> Vec<String> {
        let is_it = |line: &String| {
            let rest = line.split_once(' ').map_or("", |(_, rest)| rest);
            rest.strip_prefix(text).is_some_and(|rest| rest.starts_with(" engine="))
        };
        self.all().into_iter().filter(is_it).collect()
    }
}

type Log = Mutex<Lines>;

#[derive(Default)]
struct Lines {
    /// The engine, and what was said.
    lines: Vec<(String, String)>,
    /// The engines and names of spans.
    spans: HashMap<u64, (String, &'static str)>,
}

thread_local! {
    /// The spans that this thread is in, from the outermost.
    static INSIDE: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

impl Lines {
    /// The innermost span of this thread, if it is in one.
    fn within(&self) -> String {
        let inside = INSIDE.with_borrow(|spans| spans.last().copied());
        inside.map_or_else(String::new, |id| format!(" within {}", self.spans[&id].1))
    }
}

fn lines() -> MutexGuard<'static, Lines> {
    LOG.get().expect("somebody listens").lock().unwrap()
}

struct Ear;

impl Subscriber for Ear {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "leasehold"
    }

    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        let (meta, mut said) = (span.metadata(), Said::default());
        span.record(&mut said);
        let mut log = lines();
        let id = log.spans.len() as u64 + 1;
        log.spans.insert(id, (said.engine.clone(), meta.name()));
        let within = log.within();
        let line = format!("{} span {}{}{within}", meta.level(), meta.name(), said.fields);
        log.lines.push((said.engine, line));
        span::Id::from_u64(id)
    }

    fn record(&self, span: &span::Id, values: &span::Record<'_>) {
        let mut said = Said::default();
        values.record(&mut said);
        let mut log = lines();
        let engine = log.spans[&span.into_u64()].0.clone();
        log.lines.push((engine, format!("record{}", said.fields)));
    }

    fn event(&self, event: &Event<'_>) {
        let mut said = Said::default();
        event.record(&mut said);
        let (level, mut log) = (event.metadata().level(), lines());
        let line = format!("{level} {}{}{}", said.message, said.fields, log.within());
        log.lines.push((said.engine, line));
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, span: &span::Id) {
        INSIDE.with_borrow_mut(|spans| spans.push(span.into_u64()));
    }

    fn exit(&self, span: &span::Id) {
        let left = INSIDE.with_borrow_mut(Vec::pop);
        assert_eq!(left, Some(span.into_u64()));
    }
}

#[derive(Default)]
struct Said {
    engine: String,
    message: String,
    fields: String,
}

impl Visit for Said {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => return self.message = format!("{value:?}"),
            "engine" => self.engine = format!("{value:?}"),
            _ => {}
        }
        write!(self.fields, " {field}={value:?}").expect("room");
    }
}
