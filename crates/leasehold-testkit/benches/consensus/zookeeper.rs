//! A bare ZooKeeper client, as small as can be: it makes a node and removes it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::{Outcome, median};

const CREATE: i32 = 1;
const DELETE: i32 = 2;
const CLOSE: i32 = -11;
const EPHEMERAL_SEQUENTIAL: i32 = 3;
const ALL: i32 = 31;

/// What a create and a delete take together, one after the other.
pub(crate) fn pairs(host: &str, count: u32) -> Outcome<Duration> {
    let mut server = Bare::connect(host)?;
    let mut samples = Vec::new();
    for _ in 0..count {
        let start = Instant::now();
        let made = server.ask(CREATE, &create("/bare-"))?;
        let length = usize::try_from(i32::from_be_bytes(made[..4].try_into()?))?;
        let path = std::str::from_utf8(&made[4..4 + length])?.to_owned();
        server.ask(DELETE, &[text(&path), (-1_i32).to_be_bytes().to_vec()].concat())?;
        samples.push(start.elapsed());
    }
    server.ask(CLOSE, &[])?;
    Ok(median(samples))
}

fn create(path: &str) -> Vec<u8> {
    let acl = [&1_i32.to_be_bytes()[..], &ALL.to_be_bytes()].concat();
    let anyone = [text("world"), text("anyone")].concat();
    let flags = EPHEMERAL_SEQUENTIAL.to_be_bytes().to_vec();
    [text(path), 0_i32.to_be_bytes().to_vec(), acl, anyone, flags].concat()
}

fn text(text: &str) -> Vec<u8> {
    let length = i32::try_from(text.len()).unwrap_or_default();
    [&length.to_be_bytes()[..], text.as_bytes()].concat()
}

struct Bare {
    stream: TcpStream,
    xid: i32,
}

impl Bare {
    fn connect(host: &str) -> Outcome<Self> {
        let stream = TcpStream::connect(host)?;
        stream.set_nodelay(true)?;
        let mut bare = Self { stream, xid: 0 };
        // Version, newest change seen, time-out, session, password.
        let hello = [&[0; 12][..], &30_000_i32.to_be_bytes(), &[0; 8], &16_i32.to_be_bytes()];
        bare.send(&[&hello.concat()[..], &[0; 17]].concat())?;
        bare.receive()?;
        Ok(bare)
    }

    fn ask(&mut self, kind: i32, body: &[u8]) -> Outcome<Vec<u8>> {
        self.xid += 1;
        self.send(&[&self.xid.to_be_bytes()[..], &kind.to_be_bytes(), body].concat())?;
        let answer = self.receive()?;
        match i32::from_be_bytes(answer[12..16].try_into()?) {
            0 => Ok(answer[16..].to_vec()),
            code => Err(format!("refused with {code}").into()),
        }
    }

    fn send(&mut self, bytes: &[u8]) -> Outcome<()> {
        let length = i32::try_from(bytes.len())?;
        Ok(self.stream.write_all(&[&length.to_be_bytes()[..], bytes].concat())?)
    }

    fn receive(&mut self) -> Outcome<Vec<u8>> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let mut bytes = vec![0; usize::try_from(i32::from_be_bytes(length))?];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}
