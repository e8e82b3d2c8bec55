//! `id`: which kind of ids, how many, and how they are written.

use clap::{Args, Subcommand, ValueEnum};
use leasehold::ids::{Alphabet, Layout};

/// Make ids that are unique over all processes, or take one apart
#[derive(Args)]
#[command(after_help = "\
Examples:
  leasehold id segment orders                      1, then 2, then 3
  leasehold id segment orders -n 100 --start 1000000
  leasehold id snowflake orders -n 5
  leasehold id snowflake orders --text base62
  leasehold id decode 311936412098850817
  leasehold id decode --layout 41/5/7 1215190342862849

Segment ids count, without a gap: what a call does not use it gives back.
Snowflake ids tell when and by which worker they were made; the worker number is
leased for the time of the call.

JSON: a list of ids (texts with --text); for decode an object with
  id, at, millis, worker, cluster, machine, sequence")]
pub(crate) struct Id {
    #[command(subcommand)]
    pub(crate) kind: Kind,
}

#[derive(Subcommand)]
pub(crate) enum Kind {
    Segment(Segment),
    Snowflake(Snowflake),
    Decode(Decode),
}

/// Numbers that count
#[derive(Args)]
pub(crate) struct Segment {
    #[command(flatten)]
    pub(crate) many: Many,

    /// The smallest number to begin with
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) start: u64,
}

/// Time, worker and sequence in 63 bits
#[derive(Args)]
pub(crate) struct Snowflake {
    #[command(flatten)]
    pub(crate) many: Many,

    /// Bits of time, worker and sequence
    #[arg(long, value_name = "T/W/S", default_value = "41/10/12", value_parser = layout)]
    pub(crate) layout: Layout,
}

/// Say what a Snowflake id was made of
#[derive(Args)]
pub(crate) struct Decode {
    /// The id: a number, 13 characters of base 32 or 11 of base 62
    pub(crate) id: String,

    /// Bits of time, worker and sequence
    #[arg(long, value_name = "T/W/S", default_value = "41/10/12", value_parser = layout)]
    pub(crate) layout: Layout,
}

#[derive(Args)]
pub(crate) struct Many {
    /// What the ids are for: each tag has its own
    #[arg(default_value = "default")]
    pub(crate) tag: String,

    /// How many
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1)]
    pub(crate) count: usize,

    /// Write them as text of one width
    #[arg(long, value_enum)]
    pub(crate) text: Option<Text>,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Text {
    /// 13 capital letters and digits
    Base32,
    /// 11 letters and digits
    Base62,
}

impl From<Text> for Alphabet {
    fn from(text: Text) -> Self {
        match text {
            Text::Base32 => Self::Crockford,
            Text::Base62 => Self::Base62,
        }
    }
}

fn layout(text: &str) -> Result<Layout, String> {
    let bits: Option<Vec<u32>> = text.split('/').map(|part| part.parse().ok()).collect();
    match bits.as_deref() {
        Some(&[time, worker, sequence]) => {
            let layout = Layout::new(time, worker, sequence);
            layout.check().map(|()| layout).map_err(|why| why.to_string())
        }
        _ => Err("write the bits of time, worker and sequence, as in 41/10/12".into()),
    }
}
