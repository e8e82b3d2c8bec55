//! Which engines this run was told to test.

/// The variable through which `cargo xtask test --engines` narrows a run.
pub const VARIABLE: &str = "LEASEHOLD_TEST_ENGINES";

/// The engines that were chosen, or `None` when the run is not narrowed.
#[must_use]
pub fn chosen() -> Option<Vec<String>> {
    let list = std::env::var(VARIABLE).ok()?;
    Some(names(&list)).filter(|names| !names.is_empty())
}

/// Says whether `engine` belongs to this run.
///
/// Mark the trials of other engines as ignored, so that they count as skipped.
#[must_use]
pub fn includes(engine: &str) -> bool {
    chosen().is_none_or(|names| names.iter().any(|name| name == engine))
}

fn names(list: &str) -> Vec<String> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn a_list_is_split_at_commas_and_trimmed() {
        assert_eq!(names("memory, sqlite,"), ["memory", "sqlite"]);
        assert!(names(" ").is_empty());
    }
}
