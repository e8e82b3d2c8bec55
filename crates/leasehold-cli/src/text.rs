//! Text that is safe to show, and durations that people can read.

use std::time::Duration;

/// `text` with everything that could hide, reorder or forge output escaped:
/// control and format characters, odd spaces, unassigned code points.
pub(crate) fn visible(text: &str) -> String {
    escaped(text, |c| c != '\\' && is_visible(c))
}

/// A message as one safe line. It quotes names itself, so backslashes stay.
pub(crate) fn message(text: &str) -> String {
    escaped(text, is_visible)
}

/// `text` on one line and in one column: for programs that want it as it is.
pub(crate) fn one_line(text: &str) -> String {
    escaped(text, |c| !c.is_control())
}

/// JSON that is safe on a terminal, and still the same JSON.
pub(crate) fn visible_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        if is_visible(c) || c == '\n' {
            shown.push(c);
        } else {
            let mut units = [0; 2];
            shown.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    shown
}

fn escaped(text: &str, keep: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if keep(c) { shown.push(c) } else { shown.extend(c.escape_debug()) }
    }
    shown
}

/// What `{:?}` of a string leaves as it is, quotes and backslash included.
fn is_visible(c: char) -> bool {
    let mut pair = [b'.'; 5];
    let size = c.encode_utf8(&mut pair[1..]).len();
    let pair = std::str::from_utf8(&pair[..=size]).unwrap_or("");
    matches!(c, '"' | '\'' | '\\') || pair.escape_debug().eq(pair.chars())
}

/// As many characters of `text` as surely fit into `columns`.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    let mut left = columns;
    let fits = |c: &char| {
        let width = if c.is_ascii() { 1 } else { 2 };
        left.checked_sub(width).inspect(|rest| left = *rest).is_some()
    };
    text.chars().take_while(fits).collect()
}

/// `3m 2s`, `120ms`: no more digits than people can use.
pub(crate) fn span(span: Duration) -> String {
    let short = if span < Duration::from_secs(1) {
        Duration::from_millis(u64::try_from(span.as_millis()).unwrap_or(0))
    } else {
        Duration::from_secs(span.as_secs())
    };
    humantime::format_duration(short).to_string()
}

/// `850 µs`, `1.25 ms`, `2.1 s`: three digits, for measurements.
pub(crate) fn brief(span: Duration) -> String {
    let micros = span.as_secs_f64() * 1e6;
    let (number, unit) = match micros {
        _ if micros < 1e3 => (micros, "µs"),
        _ if micros < 1e6 => (micros / 1e3, "ms"),
        _ => (micros / 1e6, "s"),
    };
    let digits = if number < 10.0 { 2 } else { usize::from(number < 100.0) };
    format!("{number:.digits$} {unit}")
}

/// An engine and where it is; an endpoint may already say which engine.
pub(crate) fn place(scheme: &str, endpoint: &str) -> String {
    if endpoint.starts_with(scheme) { endpoint.into() } else { format!("{scheme} {endpoint}") }
}

/// Microseconds to a tenth, for programs.
pub(crate) fn micros(span: Duration) -> f64 {
    (span.as_secs_f64() * 1e7).round() / 10.0
}

/// Seconds to the millisecond, for programs.
pub(crate) fn seconds(span: Duration) -> f64 {
    (span.as_secs_f64() * 1000.0).trunc() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tricks_are_shown_and_words_are_not_touched() {
        assert_eq!(visible("order/42 'é' हिन्दी \"x\""), "order/42 'é' हिन्दी \"x\"");
        assert_eq!(visible("a\u{202e}b"), "a\\u{202e}b");
        assert_eq!(visible("a\u{200b}\u{feff}"), "a\\u{200b}\\u{feff}");
        assert_eq!(visible("\x1b[31mred\n"), "\\u{1b}[31mred\\n");
        assert_eq!(visible("\u{9b}31m"), "\\u{9b}31m");
        assert_eq!(visible(r"a\u{202e}"), r"a\\u{202e}", "an escape cannot be forged");
    }

    #[test]
    fn programs_get_the_text_in_one_column() {
        assert_eq!(one_line("a\tb\\c\u{202e}"), "a\\tb\\c\u{202e}");
    }

    #[test]
    fn json_stays_the_same_json() {
        let text = "a\u{202e}\u{9b}\u{e0001}é";
        let json = serde_json::to_string(text).unwrap();
        let shown = visible_json(&json);
        assert!(shown.contains("\\u202e\\u009b\\udb40\\udc01é"), "{shown}");
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
    }

    #[test]
    fn cutting_never_leaves_too_much() {
        assert_eq!(cut("abcdef", 3), "abc");
        assert_eq!(cut("日本語", 5), "日本");
    }

    #[test]
    fn durations_are_short() {
        assert_eq!(span(Duration::from_millis(182_999)), "3m 2s");
        assert_eq!(span(Duration::from_micros(120_900)), "120ms");
        assert_eq!(span(Duration::ZERO), "0s");
        assert_eq!(brief(Duration::from_nanos(1_234)), "1.23 µs");
        assert_eq!(brief(Duration::from_micros(12_345)), "12.3 ms");
        assert_eq!(brief(Duration::from_millis(123_456)), "123 s");
        assert!((micros(Duration::from_nanos(1_260)) - 1.3).abs() < 1e-9);
        assert!((seconds(Duration::from_micros(1_234_567)) - 1.234).abs() < 1e-9);
    }
}
