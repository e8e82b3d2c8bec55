//! What a command says on one of its outputs: passed on at once, and taken down.

use std::io::{self, Write};
use std::os::fd::OwnedFd;

use rustix::io::ioctl_fionread;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use crate::failure::{Failure, OUTPUT};

/// How much is read at once.
const CHUNK: usize = 16 * 1024;

/// Where it is passed on to.
#[derive(Clone, Copy)]
pub(crate) enum Output {
    Standard,
    Error,
}

impl Output {
    /// Readers may leave early.
    pub(crate) fn write(self, bytes: &[u8]) -> Result<(), Failure> {
        let written = match self {
            Self::Standard => write_all(io::stdout().lock(), bytes),
            Self::Error => write_all(io::stderr().lock(), bytes),
        };
        match written {
            Err(cause) if cause.kind() != io::ErrorKind::BrokenPipe => {
                Err(Failure::new(OUTPUT, format!("cannot write the output: {cause}")))
            }
            _ => Ok(()),
        }
    }
}

fn write_all(mut to: impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes).and_then(|()| to.flush())
}

/// One output of a command.
pub(crate) struct Transcript {
    from: Receiver,
    to: Output,
    said: Vec<u8>,
}

impl Transcript {
    /// A new one, and what the command is to write to.
    pub(crate) fn new(to: Output) -> io::Result<(Self, OwnedFd)> {
        let (reader, writer) = io::pipe()?;
        let from = Receiver::from_owned_fd(reader.into())?;
        Ok((Self { from, to, said: Vec::new() }, writer.into()))
    }

    /// All that is said until nobody can say more, or the command is `over`:
    /// what it leaves in the background may keep the output, and says nothing
    /// that belongs to the run.
    pub(crate) async fn take(mut self, mut over: watch::Receiver<()>) -> Result<Vec<u8>, Failure> {
        loop {
            let more = tokio::select! {
                biased;
                _ = over.changed() => break,
                more = self.pass_on(CHUNK) => more?,
            };
            if more == 0 {
                return Ok(self.said);
            }
        }
        // What the command has written is here by now.
        let mut left = ioctl_fionread(&self.from).unwrap_or(0);
        while left > 0 {
            let most = usize::try_from(left).map_or(CHUNK, |left| left.min(CHUNK));
            match self.pass_on(most).await? {
                0 => break,
                size => left = left.saturating_sub(size as u64),
            }
        }
        Ok(self.said)
    }

    /// Reads once, `most` bytes at most. Cut off while it waits to read it loses
    /// nothing.
    async fn pass_on(&mut self, most: usize) -> Result<usize, Failure> {
        let mut chunk = vec![0; most];
        let size = self.from.read(&mut chunk).await.unwrap_or(0);
        chunk.truncate(size);
        self.said.extend(&chunk);
        let to = self.to;
        // A slow reader must not keep us from looking after the lease.
        let written = spawn_blocking(move || to.write(&chunk)).await;
        written.unwrap_or(Ok(()))?;
        Ok(size)
    }
}
