//! Schedules as text: one line for each thing that happens.
//!
//! ```text
//! stage contract
//! ttl 1000
//! 120 user 0.1 lock m0 within 500 fixed
//! 400 user 0.1 extend m0 600000
//! 300 fault deaf 0 for 800
//! ```

use std::fmt;
use std::str::{FromStr, SplitWhitespace};

use super::{Act, Ask, Fault, FaultKind, How, Patience, Schedule, Setting, Stage, Step, User};

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.setting.fmt(f)?;
        let mut lines: Vec<(u64, String)> = Vec::new();
        lines.extend(self.faults.iter().map(|fault| (fault.at, fault.to_string())));
        lines.extend(self.steps.iter().map(|step| (step.at, step.to_string())));
        lines.sort_by_key(|(at, _)| *at);
        lines.iter().try_for_each(|(_, line)| writeln!(f, "{line}"))
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "stage {}", self.stage)?;
        for (word, number) in [
            ("seed", self.seed),
            ("ttl", self.ttl),
            ("ttl-max", self.ttl_max),
            ("timeout", self.timeout),
            ("retries", u64::from(self.retries)),
            ("quickest", self.quickest),
            ("slowest", self.slowest),
        ] {
            writeln!(f, "{word} {number}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Contract => f.write_str("contract"),
            Self::Members(n) => write!(f, "members:{n}"),
            Self::Redis => f.write_str("redis"),
            Self::Redlock(n) => write!(f, "redlock:{n}"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} user {} {}", self.at, self.user, self.act)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} fault {} {}", self.at, self.kind.word(), self.whom)?;
        if self.by > 0 {
            write!(f, " by {}", self.by)?;
        }
        if self.span > 0 {
            write!(f, " for {}", self.span)?;
        }
        Ok(())
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ask(ask) => ask.fmt(f),
            Self::Extend(name, by) => write!(f, "extend {name} {by}"),
            Self::Convert(name) => write!(f, "convert {name}"),
            Self::Release(name) => write!(f, "release {name}"),
            Self::Drop(name) => write!(f, "drop {name}"),
            Self::Write(name, after) => write!(f, "store {name} {after}"),
            Self::Evict(name) => write!(f, "evict {name}"),
            Self::Want(name) => write!(f, "want {name}"),
            Self::Count(name) => write!(f, "count {name}"),
            Self::Bind(name) => write!(f, "bind {name}"),
            Self::Once(key, work) => write!(f, "once {key} {work}"),
            Self::Look(name) => write!(f, "look {name}"),
            Self::Shutdown(limit) => write!(f, "shutdown {limit}"),
        }
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.how {
            How::Lock => f.write_str("lock ")?,
            How::Read => f.write_str("read ")?,
            How::Write => f.write_str("write ")?,
            How::Permits(take) => write!(f, "permits:{take} ")?,
        }
        f.write_str(&self.names.join(","))?;
        match self.patience {
            Patience::Try => f.write_str(" try")?,
            Patience::Within(limit) => write!(f, " within {limit}")?,
            Patience::Attempts(count, every) => write!(f, " attempts {count} {every}")?,
        }
        if let Some(ttl) = self.ttl {
            write!(f, " ttl {ttl}")?;
        }
        if self.delay > 0 {
            write!(f, " delay {}", self.delay)?;
        }
        if let Some(poll) = self.dropped_at {
            write!(f, " dropped {poll}")?;
        }
        f.write_str(if self.fixed { " fixed" } else { "" })?;
        f.write_str(if self.owned { " owned" } else { "" })
    }
}

/// The words of a line that are still to be read.
struct Words<'a>(SplitWhitespace<'a>);

impl<'a> Words<'a> {
    fn word(&mut self) -> Result<&'a str, String> {
        self.0.next().ok_or_else(|| "the line ends too early".into())
    }

    fn name(&mut self) -> Result<String, String> {
        self.word().map(str::to_owned)
    }

    fn number<N: FromStr>(&mut self) -> Result<N, String> {
        let word = self.word()?;
        word.parse().map_err(|_| format!("`{word}` is no number here"))
    }
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut schedule =
            Self { setting: Setting::default(), steps: Vec::new(), faults: Vec::new() };
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            if !line.trim().is_empty() {
                let wrong = |why| format!("line {}: {why}", number + 1);
                schedule.read(line).map_err(wrong)?;
            }
        }
        Ok(schedule)
    }
}

impl Schedule {
    fn read(&mut self, line: &str) -> Result<(), String> {
        let mut words = Words(line.split_whitespace());
        let first = words.word()?;
        let Ok(at) = first.parse() else { return self.setting.read(first, &mut words) };
        match words.word()? {
            "user" => {
                let (user, act) = (words.word()?.parse()?, act(&mut words)?);
                self.steps.push(Step { at, user, act });
            }
            "fault" => self.faults.push(fault(at, &mut words)?),
            other => return Err(format!("`{other}` is neither `user` nor `fault`")),
        }
        Ok(())
    }
}

impl Setting {
    fn read(&mut self, word: &str, words: &mut Words<'_>) -> Result<(), String> {
        match word {
            "stage" => self.stage = words.word()?.parse()?,
            "seed" => self.seed = words.number()?,
            "ttl" => self.ttl = words.number()?,
            "ttl-max" => self.ttl_max = words.number()?,
            "timeout" => self.timeout = words.number()?,
            "retries" => self.retries = words.number()?,
            "quickest" => self.quickest = words.number()?,
            "slowest" => self.slowest = words.number()?,
            other => return Err(format!("there is no setting `{other}`")),
        }
        Ok(())
    }
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            seed: 0,
            stage: Stage::Contract,
            ttl: 1000,
            ttl_max: 10_000,
            timeout: 300,
            retries: 2,
            quickest: 1,
            slowest: 1,
        }
    }
}

impl FromStr for Stage {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (word, count) = text.split_once(':').unwrap_or((text, "1"));
        let count = count.parse().map_err(|_| format!("`{count}` is no number of servers"))?;
        match word {
            "contract" => Ok(Self::Contract),
            "members" => Ok(Self::Members(count)),
            "redis" => Ok(Self::Redis),
            "redlock" => Ok(Self::Redlock(count)),
            other => Err(format!("there is no stage `{other}`")),
        }
    }
}

impl FromStr for User {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('.').map(|(client, task)| (client.parse(), task.parse()));
        match parts {
            Some((Ok(client), Ok(task))) => Ok(Self { client, task }),
            _ => Err(format!("`{text}` is no user; write CLIENT.TASK")),
        }
    }
}

fn fault(at: u64, words: &mut Words<'_>) -> Result<Fault, String> {
    let word = words.word()?;
    let kind = FaultKind::of(word).ok_or_else(|| format!("there is no fault `{word}`"))?;
    let mut fault = Fault { at, kind, whom: words.number()?, by: 0, span: 0 };
    while let Ok(word) = words.word() {
        match word {
            "by" => fault.by = words.number()?,
            "for" => fault.span = words.number()?,
            other => return Err(format!("a fault has no `{other}`")),
        }
    }
    Ok(fault)
}

fn act(words: &mut Words<'_>) -> Result<Act, String> {
    let word = words.word()?;
    if let Some(how) = how(word)? {
        return ask(how, words).map(Act::Ask);
    }
    Ok(match word {
        "extend" => Act::Extend(words.name()?, words.number()?),
        "convert" => Act::Convert(words.name()?),
        "release" => Act::Release(words.name()?),
        "drop" => Act::Drop(words.name()?),
        "store" => Act::Write(words.name()?, words.number()?),
        "evict" => Act::Evict(words.name()?),
        "want" => Act::Want(words.name()?),
        "count" => Act::Count(words.name()?),
        "bind" => Act::Bind(words.name()?),
        "once" => Act::Once(words.name()?, words.number()?),
        "look" => Act::Look(words.name()?),
        "shutdown" => Act::Shutdown(words.number()?),
        other => return Err(format!("a user does not `{other}`")),
    })
}

fn how(word: &str) -> Result<Option<How>, String> {
    Ok(match word.split_once(':') {
        Some(("permits", take)) => {
            let take = take.parse().map_err(|_| format!("`{take}` is no number of permits"))?;
            Some(How::Permits(take))
        }
        _ if word == "lock" => Some(How::Lock),
        _ if word == "read" => Some(How::Read),
        _ if word == "write" => Some(How::Write),
        _ => None,
    })
}

fn ask(how: How, words: &mut Words<'_>) -> Result<Ask, String> {
    let names = words.word()?.split(',').map(str::to_owned).collect();
    let mut ask = Ask {
        how,
        names,
        patience: Patience::Try,
        ttl: None,
        fixed: false,
        owned: false,
        delay: 0,
        dropped_at: None,
    };
    while let Ok(word) = words.word() {
        match word {
            "try" => ask.patience = Patience::Try,
            "within" => ask.patience = Patience::Within(words.number()?),
            "attempts" => ask.patience = Patience::Attempts(words.number()?, words.number()?),
            "ttl" => ask.ttl = Some(words.number()?),
            "delay" => ask.delay = words.number()?,
            "dropped" => ask.dropped_at = Some(words.number()?),
            "fixed" => ask.fixed = true,
            "owned" => ask.owned = true,
            other => return Err(format!("a lock has no `{other}`")),
        }
    }
    Ok(ask)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::draw::draw;

    #[test]
    fn a_schedule_is_read_as_it_was_written() {
        for seed in 0..300 {
            let schedule = draw(seed, Stage::Contract);
            let read: Schedule = schedule.to_string().parse().unwrap();
            assert_eq!(read.to_string(), schedule.to_string());
        }
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named() {
        let read = |text: &str| text.parse::<Schedule>().unwrap_err();
        assert_eq!(read("ttl 5\n1 user 0.0 sing m0"), "line 2: a user does not `sing`");
        assert_eq!(read("1 fault flood 0"), "line 1: there is no fault `flood`");
        assert_eq!(read("ttl soon"), "line 1: `soon` is no number here");
        assert_eq!(read("1 user 0.0 lock"), "line 1: the line ends too early");
    }
}
