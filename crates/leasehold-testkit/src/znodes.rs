//! A look into a ZooKeeper, and a hand in it, apart from the engine under test.
//!
//! Requests of ZooKeeper's own protocol, one at a time over a plain socket, in a
//! session that owns nothing.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// What is known of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// The change that made it.
    pub czxid: i64,
    /// The session that it goes with; 0 if with none.
    pub owner: i64,
    /// How many nodes are below.
    pub children: i32,
}

/// A connection with a session of its own.
#[derive(Debug)]
pub struct Znodes {
    stream: TcpStream,
    next: i32,
}

const PATIENCE: Duration = Duration::from_secs(20);
const SESSION: i32 = 20_000;
const CREATE: i32 = 1;
const DELETE: i32 = 2;
const EXISTS: i32 = 3;
const GET: i32 = 4;
const SET: i32 = 5;
const CHILDREN: i32 = 8;
const CLOSE: i32 = -11;
/// Ephemeral, with a number.
const IN_LINE: i32 = 3;
const NO_NODE: i32 = -101;
/// Everybody may do everything.
const OPEN: &[u8] = b"\0\0\0\x01\0\0\0\x1f\0\0\0\x05world\0\0\0\x06anyone";
/// What a server makes the password of a session from.
const SECRET: i64 = 0xB341_5C00;

impl Znodes {
    /// A session of its own on the server at `addr`.
    ///
    /// # Errors
    ///
    /// When the server does not answer.
    pub fn connect(addr: SocketAddr) -> io::Result<Self> {
        let mut stream = dial(addr)?;
        stream.write_all(&hello(0, &[0; 16]))?;
        frame(&mut stream)?;
        Ok(Self { stream, next: 1 })
    }

    /// Ends the session of someone else, as its own client could.
    ///
    /// # Errors
    ///
    /// When the server does not answer, or the session is over already.
    pub fn end_session(addr: SocketAddr, session: i64) -> io::Result<()> {
        if !Self::close(addr, session).unwrap_or(true) {
            return Err(io::Error::other(format!("session {session:#x} is over")));
        }
        // Its own client may have taken it back before we were done.
        while Self::close(addr, session).unwrap_or(true) {}
        Ok(())
    }

    /// Moves the session of someone else to the server at `addr`, as its own client
    /// could.
    ///
    /// # Errors
    ///
    /// When the server does not answer, or the session is over.
    pub fn move_session(addr: SocketAddr, session: i64) -> io::Result<Self> {
        let mut stream = dial(addr)?;
        stream.write_all(&hello(session, &password(session)))?;
        match timeout(&frame(&mut stream)?)? {
            0 => Err(io::Error::other(format!("session {session:#x} is over"))),
            _ => Ok(Self { stream, next: 1 }),
        }
    }

    /// Asks for the end of a session; whether it was there. Both requests go out
    /// together, so that nobody comes in between.
    fn close(addr: SocketAddr, session: i64) -> io::Result<bool> {
        let close = [1_i32.to_be_bytes(), CLOSE.to_be_bytes()].concat();
        let mut stream = dial(addr)?;
        stream.write_all(&[hello(session, &password(session)), sized(&close)].concat())?;
        let there = timeout(&frame(&mut stream)?)? > 0;
        if there {
            frame(&mut stream)?;
        }
        Ok(there)
    }

    /// The names of the nodes below `path`, sorted; none if it is not there.
    ///
    /// # Errors
    ///
    /// When the server does not answer, or refuses.
    pub fn children(&mut self, path: &str) -> io::Result<Vec<String>> {
        let Some(reply) = self.request(CHILDREN, &[&text(path)[..], &[0]].concat())? else {
            return Ok(Vec::new());
        };
        let mut reader = Reader(&reply);
        let count = reader.int()?;
        let mut names = (0..count).map(|_| reader.text()).collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }

    /// What is known of a node, if it is there.
    ///
    /// # Errors
    ///
    /// When the server does not answer, or refuses.
    pub fn stat(&mut self, path: &str) -> io::Result<Option<Stat>> {
        let reply = self.request(EXISTS, &[&text(path)[..], &[0]].concat())?;
        reply.map(|reply| Reader(&reply).stat()).transpose()
    }

    /// What is written in a node, if it is there.
    ///
    /// # Errors
    ///
    /// When the server does not answer, or refuses.
    pub fn get(&mut self, path: &str) -> io::Result<Option<Vec<u8>>> {
        let reply = self.request(GET, &[&text(path)[..], &[0]].concat())?;
        reply.map(|reply| Reader(&reply).bytes().map(<[u8]>::to_vec)).transpose()
    }

    /// Makes a node that stays, and says under which path.
    ///
    /// # Errors
    ///
    /// When the server does not answer, or refuses.
    pub fn create(&mut self, path: &str, bytes: &[u8]) -> io::Result<String> {
        let flags = 0_i32.to_be_bytes();
        let body = [&text(path)[..], &sized(bytes), OPEN, &flags].concat();
        let reply = self.request(CREATE, &body)?;
        Reader(&reply.unwrap_or_default()).text()
    }

    /// Makes a node with a number after `path`, which goes with this session, and
    /// says under which path.
    ///
    /// # Errors
    ///
    /// When the server does not answer, or refuses.
    pub fn queue(&mut self, path: &str) -> io::Result<String> {
        let body = [&text(path)[..], &sized(b""), OPEN, &IN_LINE.to_be_bytes()].concat();
        let reply = self.request(CREATE, &body)?;
        Reader(&reply.unwrap_or_default()).text()
    }

    /// Writes over a node; whether it was there.
    ///
    /// # Errors
    ///
    /// When the server does not answer, or refuses.
    pub fn set(&mut self, path: &str, bytes: &[u8]) -> io::Result<bool> {
        let body = [&text(path)[..], &sized(bytes), &(-1_i32).to_be_bytes()].concat();
        Ok(self.request(SET, &body)?.is_some())
    }

    /// Removes a node; whether it was there.
    ///
    /// # Errors
    ///
    /// When the server does not answer, or refuses.
    pub fn remove(&mut self, path: &str) -> io::Result<bool> {
        let body = [&text(path)[..], &(-1_i32).to_be_bytes()].concat();
        Ok(self.request(DELETE, &body)?.is_some())
    }

    /// One request and its reply; `None` if there is no such node.
    fn request(&mut self, kind: i32, body: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let head = [self.next.to_be_bytes(), kind.to_be_bytes()].concat();
        self.next += 1;
        self.stream.write_all(&sized(&[&head[..], body].concat()))?;
        let mut reply = frame(&mut self.stream)?;
        let error = Reader(reply.get(12..).unwrap_or_default()).int()?;
        match error {
            0 => Ok(Some(reply.split_off(16))),
            NO_NODE => Ok(None),
            code => Err(io::Error::other(format!("ZooKeeper refused with code {code}"))),
        }
    }
}

/// What comes back, piece by piece.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> io::Result<&'a [u8]> {
        let short = || io::Error::other("a reply of ZooKeeper is too short");
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn int(&mut self) -> io::Result<i32> {
        Ok(i32::from_be_bytes(self.take(4)?.try_into().expect("four bytes")))
    }

    fn long(&mut self) -> io::Result<i64> {
        Ok(i64::from_be_bytes(self.take(8)?.try_into().expect("eight bytes")))
    }

    /// A node that nothing was written in says -1.
    fn bytes(&mut self) -> io::Result<&'a [u8]> {
        let length = self.int()?;
        self.take(usize::try_from(length).unwrap_or(0))
    }

    fn text(&mut self) -> io::Result<String> {
        Ok(String::from_utf8_lossy(self.bytes()?).into_owned())
    }

    /// czxid, then what nobody asks for: mzxid, two times, three versions.
    fn stat(&mut self) -> io::Result<Stat> {
        let czxid = self.long()?;
        self.take(8 + 16 + 12)?;
        let owner = self.long()?;
        self.int()?;
        Ok(Stat { czxid, owner, children: self.int()? })
    }
}

fn dial(addr: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&addr, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Asks for a session, or for this one.
fn hello(session: i64, password: &[u8]) -> Vec<u8> {
    let mut hello = vec![0; 12];
    hello.extend(SESSION.to_be_bytes());
    hello.extend(session.to_be_bytes());
    hello.extend(sized(password));
    hello.push(0);
    sized(&hello)
}

/// How long a greeting says that the session lasts; 0 if there is none.
fn timeout(greeting: &[u8]) -> io::Result<i32> {
    Reader(greeting.get(4..).unwrap_or_default()).int()
}

fn frame(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut frame = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap_or(0)];
    stream.read_exact(&mut frame)?;
    Ok(frame)
}

fn sized(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).expect("a short message");
    [&length.to_be_bytes()[..], bytes].concat()
}

fn text(text: &str) -> Vec<u8> {
    sized(text.as_bytes())
}

/// The password of a session, as every server works it out: 16 bytes of Java's
/// random numbers, seeded with the session.
fn password(session: i64) -> [u8; 16] {
    const FACTOR: u64 = 0x5_DEEC_E66D;
    const MASK: u64 = (1 << 48) - 1;
    let mut state = ((session ^ SECRET).cast_unsigned() ^ FACTOR) & MASK;
    let mut password = [0; 16];
    for four in password.chunks_exact_mut(4) {
        state = state.wrapping_mul(FACTOR).wrapping_add(11) & MASK;
        let drawn = u32::try_from(state >> 16).expect("32 bits are left");
        four.copy_from_slice(&drawn.to_le_bytes());
    }
    password
}
