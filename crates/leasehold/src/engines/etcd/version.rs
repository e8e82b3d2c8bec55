//! The version of a server.

/// Major, minor and patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(u32, u32, u32);

impl Version {
    /// What follows the numbers (`-rc.0`) is not looked at.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let numbers = text.split(['-', '+']).next()?;
        let mut numbers = numbers.split('.').map(str::parse);
        let mut next = || numbers.next()?.ok();
        Some(Self(next()?, next()?, next()?))
    }

    /// Whether it lacks what came with these releases, one for each line that was
    /// mended; later lines have had it from their start.
    pub(super) fn is_before(self, fixed: &[(u32, u32, u32)]) -> bool {
        let fixed = || fixed.iter().map(|&(major, minor, patch)| Self(major, minor, patch));
        let same_line = fixed().find(|that| (that.0, that.1) == (self.0, self.1));
        match same_line {
            Some(that) => self < that,
            None => fixed().any(|that| self < that),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fix_counts_for_its_own_line_and_all_later_ones() {
        let lacks = |text| Version::parse(text).unwrap().is_before(&[(3, 4, 31), (3, 5, 13)]);
        assert!(lacks("3.4.23") && lacks("3.5.12") && lacks("3.3.99"));
        assert!(!lacks("3.4.31") && !lacks("3.5.13") && !lacks("3.6.0") && !lacks("3.7.1-rc.0"));
        assert_eq!(Version::parse("3.x"), None);
    }
}
