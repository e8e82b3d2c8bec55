//! What a command said and how it ended.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

use crate::args::START;
use crate::cmd::run::own_binary;
use crate::failure::{Failure, OUTPUT};
use crate::output::tell;

/// How much is read at once.
const CHUNK: usize = 16 * 1024;

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
    /// Runs a command. What it says is passed on at once and taken down. It does
    /// not outlive this process, nor this future.
    pub(crate) async fn of(
        command: &[OsString],
        environment: impl IntoIterator<Item = (&'static str, String)>,
    ) -> Result<Self, Failure> {
        let mut starter = Command::new(own_binary());
        starter.arg(START).arg("--tether").arg(std::process::id().to_string());
        starter.arg("--").args(command).envs(environment).kill_on_drop(true);
        starter.stdout(Stdio::piped()).stderr(Stdio::piped());
        let cannot = |cause| Failure::internal(format!("cannot start a process: {cause}"));
        let mut child = starter.spawn().map_err(cannot)?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let (stdout, stderr, status) = tokio::join!(
            pass_on(out, std::io::stdout()),
            pass_on(err, std::io::stderr()),
            child.wait(),
        );
        let code = code(status.map_err(cannot)?);
        Ok(Self { code, cut: false, stdout: stdout?, stderr: stderr? })
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
        write(&mut std::io::stdout(), &self.stdout)?;
        write(&mut std::io::stderr(), &self.stderr)?;
        Ok(self.code)
    }
}

async fn pass_on(
    from: Option<impl AsyncRead + Unpin>,
    mut to: impl Write,
) -> Result<Vec<u8>, Failure> {
    let Some(mut from) = from else { return Ok(Vec::new()) };
    let (mut all, mut chunk) = (Vec::new(), vec![0; CHUNK]);
    loop {
        match from.read(&mut chunk).await {
            Ok(0) | Err(_) => return Ok(all),
            Ok(size) => {
                all.extend(&chunk[..size]);
                write(&mut to, &chunk[..size])?;
            }
        }
    }
}

/// Readers may leave early.
fn write(to: &mut impl Write, bytes: &[u8]) -> Result<(), Failure> {
    match to.write_all(bytes).and_then(|()| to.flush()) {
        Err(cause) if cause.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::new(OUTPUT, format!("cannot write the output: {cause}")))
        }
        _ => Ok(()),
    }
}

fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
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
