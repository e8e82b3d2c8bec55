//! Numbers as people read them.

/// Three digits that count, with commas between thousands.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        it if it >= 100.0 => thousands(value.round() as u64),
        it if it >= 10.0 => format!("{value:.0}"),
        it if it >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

pub(crate) fn thousands(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// What one grows with, between two points: 0 is flat, 1 in step, 2 quadratic.
pub(crate) fn exponent((n, value): (f64, f64), (m, other): (f64, f64)) -> f64 {
    (other / value).ln() / (m / n).ln()
}

#[cfg(test)]
mod tests {
    use super::{exponent, short, thousands};

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 0.123, 4.56, 45.6, 1234.5].map(short);
        assert_eq!(shown, ["0", "0.12", "4.6", "46", "1,235"]);
        assert_eq!(thousands(1_234_567), "1,234,567");
    }

    #[test]
    fn growth_is_an_exponent() {
        assert!(exponent((10.0, 3.0), (100.0, 3.0)).abs() < 1e-9);
        assert!((exponent((10.0, 1.0), (100.0, 100.0)) - 2.0).abs() < 1e-9);
    }
}
