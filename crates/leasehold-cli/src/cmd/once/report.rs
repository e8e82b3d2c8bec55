//! What a command said and how it ended.

use std::ffi::OsString;
use std::io;

use tokio::sync::watch;

use super::Stop;
use super::transcript::{Output, Transcript};
use crate::cmd::run::{Child, End, Lease, Plan, Streams, Watch};
use crate::failure::{Failure, INTERNAL, LOST};
use crate::output::tell;
use crate::signals::Signals;

/// The codes of commands that HUP, INT, QUIT or TERM has ended.
const CUT_OFF: [u8; 4] = [129, 130, 131, 143];

/// What a command said and how it ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) code: u8,
    /// Whether it said too much to be kept.
    cut: bool,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Report {
    /// Runs a command under a lease. What it says is passed on at once and taken
    /// down. Nothing of it outlives this process, nor this future.
    pub(crate) async fn of(
        command: &[OsString],
        environment: impl IntoIterator<Item = (&'static str, String)>,
        lease: &dyn Lease,
        plan: Plan,
    ) -> Result<Self, Stop> {
        let cannot = |cause: io::Error| Failure::internal(format!("cannot make a pipe: {cause}"));
        let mut signals = Signals::listen()?;
        signals.hear_children()?;
        let (out, stdout) = Transcript::new(Output::Standard).map_err(cannot)?;
        let (err, stderr) = Transcript::new(Output::Error).map_err(cannot)?;
        let streams = Streams::with_outputs(stdout, stderr)?;
        let child = Child::spawn(command, environment, streams, plan.latest(lease)).await?;
        let (running, over) = watch::channel(());
        let end = async {
            let end = Watch::new(plan, lease, child).until_end(&mut signals).await;
            drop(running);
            end
        };
        let (end, stdout, stderr) = tokio::join!(end, out.take(over.clone()), err.take(over));
        match end {
            End::Own(code) if CUT_OFF.contains(&code) => Err(Stop::CutOff(code)),
            End::Own(code) => Ok(Self { code, cut: false, stdout: stdout?, stderr: stderr? }),
            End::Stopped => Err(Stop::CutOff(LOST)),
            End::Unguarded => Err(Stop::CutOff(INTERNAL)),
        }
    }

    /// Code, whether it was cut, the length of standard output, both outputs;
    /// without the outputs if that is more than `most`.
    pub(crate) fn encode(&self, most: usize) -> Vec<u8> {
        let cut = self.stdout.len() + self.stderr.len() + 6 > most;
        let outputs: [&[u8]; 2] = if cut { [&[]; 2] } else { [&self.stdout, &self.stderr] };
        let mut bytes = vec![self.code, u8::from(cut)];
        bytes.extend(u32::try_from(outputs[0].len()).unwrap_or(0).to_be_bytes());
        outputs.iter().for_each(|output| bytes.extend(*output));
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Failure> {
        let garbled = || Failure::internal("the outcome was not written by this command");
        let (head, outputs) = bytes.split_at_checked(6).ok_or_else(garbled)?;
        let size = u32::from_be_bytes([head[2], head[3], head[4], head[5]]);
        let size = usize::try_from(size).map_err(|_| garbled())?;
        let (stdout, stderr) = outputs.split_at_checked(size).ok_or_else(garbled)?;
        let (stdout, stderr) = (stdout.to_vec(), stderr.to_vec());
        Ok(Self { code: head[0], cut: head[1] != 0, stdout, stderr })
    }

    /// Says it again, if that is all that is left to do; the code to exit with.
    pub(crate) fn show(&self, again: bool) -> Result<u8, Failure> {
        if !again {
            return Ok(self.code);
        }
        if self.cut {
            tell("it was done; what it said was too much to be kept");
        }
        Output::Standard.write(&self.stdout)?;
        Output::Error.write(&self.stderr)?;
        Ok(self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_it_was_written_or_without_its_outputs() {
        let report =
            Report { code: 3, cut: false, stdout: b"out".to_vec(), stderr: b"err".to_vec() };
        assert_eq!(Report::decode(&report.encode(100)).unwrap(), report);
        let short = Report::decode(&report.encode(11)).unwrap();
        assert!(short.cut && short.code == 3 && short.stdout.is_empty());
        assert!(Report::decode(b"").is_err());
    }
}
