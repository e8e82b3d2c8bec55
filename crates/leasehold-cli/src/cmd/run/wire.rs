//! The wire between a `leasehold` that runs a command and its guardian.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use leasehold::Moment;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// How many files go over at once: the kernel takes no more.
const FILES: usize = 253;
/// A word on the wire: what it is, and a number.
const SIZE: usize = 9;

/// What is said on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// To the guardian: at this moment everything must have ended.
    KillAt(Moment),
    /// To the guardian: go, and touch nothing.
    Leave,
    /// The command runs as this process.
    Started(i32),
    /// It could not be started, for this reason of the system.
    Failed(i32),
    /// It was stopped by this signal.
    Stopped(i32),
    /// It has ended with this exit code.
    Ended(u8),
    /// The moment has come; the guardian kills.
    Doomed,
    /// Nothing of it is left.
    Alone,
}

impl Word {
    fn bytes(self) -> [u8; SIZE] {
        let signed = |n: i32| u64::from(n.unsigned_abs());
        let (tag, number) = match self {
            Self::KillAt(moment) => (b'k', moment.nanos()),
            Self::Leave => (b'l', 0),
            Self::Started(pid) => (b'p', signed(pid)),
            Self::Failed(code) => (b'f', signed(code)),
            Self::Stopped(signal) => (b's', signed(signal)),
            Self::Ended(code) => (b'e', u64::from(code)),
            Self::Doomed => (b'd', 0),
            Self::Alone => (b'a', 0),
        };
        let mut bytes = [tag; SIZE];
        bytes[1..].copy_from_slice(&number.to_be_bytes());
        bytes
    }

    fn of(bytes: [u8; SIZE]) -> Option<Self> {
        let number = u64::from_be_bytes(*bytes.last_chunk()?);
        let small = i32::try_from(number).ok();
        Some(match bytes[0] {
            b'k' => Self::KillAt(Moment::from_nanos(number)),
            b'l' => Self::Leave,
            b'p' => Self::Started(small?),
            b'f' => Self::Failed(small?),
            b's' => Self::Stopped(small?),
            b'e' => Self::Ended(u8::try_from(number).ok()?),
            b'd' => Self::Doomed,
            b'a' => Self::Alone,
            _ => return None,
        })
    }
}

/// One end of it.
pub(crate) struct Wire {
    stream: UnixStream,
    /// The same, to wait for.
    bell: tokio::net::UnixStream,
    read: Vec<u8>,
    cut: bool,
}

impl Wire {
    pub(crate) fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let bell = tokio::net::UnixStream::from_std(stream.try_clone()?)?;
        Ok(Self { stream, bell, read: Vec::new(), cut: false })
    }

    /// Says a word. Who is gone needs none; who reads nothing has enough of them.
    pub(crate) fn say(&self, word: Word) {
        let _ = (&self.stream).write(&word.bytes());
    }

    /// The next word, if it is there.
    pub(crate) fn hear_now(&mut self) -> Option<Word> {
        while self.read.len() < SIZE && !self.cut {
            let mut bytes = [0; 32 * SIZE];
            let read = (&self.stream).read(&mut bytes);
            if would_block(&read) {
                return None;
            }
            self.take_down(read, &bytes);
        }
        let bytes = *self.read.first_chunk()?;
        self.read.drain(..SIZE);
        Word::of(bytes)
    }

    fn take_down(&mut self, read: io::Result<usize>, bytes: &[u8]) {
        let size = read.unwrap_or(0);
        self.cut = size == 0;
        self.read.extend(&bytes[..size]);
    }

    /// Resolves when there may be a word, or the other end has just gone.
    pub(crate) async fn changed(&mut self) {
        while self.read.len() < SIZE {
            if self.cut {
                return std::future::pending().await;
            }
            let mut bytes = [0; 32 * SIZE];
            let ready = self.bell.readable().await;
            let read = ready.and_then(|()| self.bell.try_read(&mut bytes));
            // It may have rung for what was heard since.
            if !would_block(&read) {
                return self.take_down(read, &bytes);
            }
        }
    }

    /// Whether nobody is at the other end any more.
    pub(crate) const fn is_cut(&self) -> bool {
        self.cut
    }

    /// The next word; `None` once the other end has gone.
    pub(crate) async fn hear(&mut self) -> Option<Word> {
        loop {
            match self.hear_now() {
                None if self.cut => return None,
                None => self.changed().await,
                word => return word,
            }
        }
    }
}

fn would_block(read: &io::Result<usize>) -> bool {
    read.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

/// Hands open files to the process at the other end.
pub(crate) fn hand_over(stream: &UnixStream, files: &[BorrowedFd<'_>]) -> io::Result<()> {
    let files = &files[..files.len().min(FILES)];
    let rights = SendAncillaryMessage::ScmRights(files);
    let mut space = vec![MaybeUninit::uninit(); rights.size()];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(rights);
    sendmsg(stream, &[IoSlice::new(&[0])], &mut control, SendFlags::empty())?;
    Ok(())
}

/// The files that the other end hands over.
pub(crate) fn take_over(stream: &UnixStream) -> io::Result<Vec<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let got = recvmsg(stream, &mut [IoSliceMut::new(&mut byte)], &mut control, PRIVATE)?;
    if got.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    Ok(rights.flatten().collect())
}

/// The command must not inherit them.
#[cfg(target_os = "linux")]
const PRIVATE: RecvFlags = RecvFlags::CMSG_CLOEXEC;
#[cfg(not(target_os = "linux"))]
const PRIVATE: RecvFlags = RecvFlags::empty();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_heard_as_they_were_said() {
        let moment = Moment::from_nanos(u64::MAX);
        for word in [
            Word::KillAt(moment),
            Word::Leave,
            Word::Started(4711),
            Word::Failed(2),
            Word::Stopped(19),
            Word::Ended(255),
            Word::Doomed,
            Word::Alone,
        ] {
            assert_eq!(Word::of(word.bytes()), Some(word));
        }
        assert_eq!(Word::of([b'?'; SIZE]), None);
    }

    #[tokio::test]
    async fn what_was_said_before_the_end_is_heard() {
        let (near, far) = UnixStream::pair().unwrap();
        let (near, mut far) = (Wire::new(near).unwrap(), Wire::new(far).unwrap());
        near.say(Word::Ended(3));
        near.say(Word::Alone);
        drop(near);
        assert_eq!(far.hear().await, Some(Word::Ended(3)));
        assert_eq!(far.hear().await, Some(Word::Alone));
        assert_eq!(far.hear().await, None);
        assert!(far.is_cut());
    }
}
