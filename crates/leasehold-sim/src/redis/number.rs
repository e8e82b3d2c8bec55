//! Numbers as C writes them with `%.17g`, and so Redis.

const DIGITS: i32 = 17;

/// The number in up to 17 digits.
pub(crate) fn shown(number: f64) -> String {
    if number == 0.0 || !number.is_finite() {
        return special(number);
    }
    let text = format!("{number:.16e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..DIGITS).contains(&exponent) {
        let places = usize::try_from(DIGITS - 1 - exponent).unwrap_or(0);
        return trimmed(&format!("{number:.places$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs())
}

fn special(number: f64) -> String {
    match number {
        f64::INFINITY => "inf",
        f64::NEG_INFINITY => "-inf",
        _ if number.is_nan() => "-nan",
        _ if number.is_sign_negative() => "-0",
        _ => "0",
    }
    .into()
}

fn trimmed(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn numbers_look_as_in_c() {
        for (number, text) in [
            (0.0, "0"),
            (5.0, "5"),
            (-1.5, "-1.5"),
            (0.1, "0.10000000000000001"),
            (1_700_000_000_000_000.0, "1700000000000000"),
            (1e17, "1e+17"),
            (18_446_744_073_709_551_616.0, "1.8446744073709552e+19"),
            (0.000_01, "1.0000000000000001e-05"),
        ] {
            assert_eq!(shown(number), text);
        }
    }
}
