//! A real server, and a plain connection to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use leasehold_sim::redis::Reply;
use tempfile::TempDir;

/// Ends with its value, and with the thread that started it.
pub(crate) struct Server {
    child: Child,
    folder: TempDir,
}

impl Server {
    pub(crate) fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--", "redis-server", "--save", "", "--port", "0"])
            .args(["--unixsocket", "redis.sock", "--dir"])
            .arg(folder.path())
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("the model is compared with a real server: apt-get install redis-server");
        Self { child, folder }
    }

    /// A connection, once the server listens.
    pub(crate) fn connect(&self) -> Wire {
        let path = self.folder.path().join("redis.sock");
        for _ in 0..6_000 {
            if let Ok(stream) = UnixStream::connect(&path) {
                return Wire(BufReader::new(stream));
            }
            #[expect(clippy::disallowed_methods, reason = "waits for a real process")]
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("redis-server never listened: apt-get install redis-server");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection that speaks the older protocol.
pub(crate) struct Wire(BufReader<UnixStream>);

impl Wire {
    pub(crate) fn ask(&mut self, request: &[Vec<u8>]) -> String {
        let mut bytes = format!("*{}\r\n", request.len()).into_bytes();
        request.iter().for_each(|word| Reply::Bulk(word.clone()).encode(&mut bytes));
        self.0.get_mut().write_all(&bytes).unwrap();
        self.read()
    }

    fn read(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        let (kind, rest) = line.trim_end().split_at(1);
        let count: i64 = rest.parse().unwrap_or(-1);
        match kind {
            "$" | "*" if count < 0 => "nil".into(),
            "$" => {
                let mut bytes = vec![0; usize::try_from(count).unwrap() + 2];
                self.0.read_exact(&mut bytes).unwrap();
                bytes.truncate(bytes.len() - 2);
                bulk(&bytes)
            }
            "*" => list((0..count).map(|_| self.read()).collect()),
            "-" => refusal(rest),
            _ => format!("{kind}{rest}"),
        }
    }
}

/// An answer of the model in the same words.
pub(crate) fn shown(reply: &Reply) -> String {
    match reply {
        Reply::Nil => "nil".into(),
        Reply::Status(word) => format!("+{word}"),
        Reply::Int(number) => format!(":{number}"),
        Reply::Bulk(bytes) => bulk(bytes),
        Reply::Array(all) | Reply::Push(all) => list(all.iter().map(shown).collect()),
        Reply::Map(all) => list(all.iter().flat_map(|(k, v)| [shown(k), shown(v)]).collect()),
        Reply::Error(text) => refusal(text),
    }
}

fn bulk(bytes: &[u8]) -> String {
    format!("\"{}\"", bytes.escape_ascii())
}

fn list(all: Vec<String>) -> String {
    format!("[{}]", all.join(" "))
}

/// Without the place in the script. What the interpreter says is its own affair.
fn refusal(text: &str) -> String {
    let text = text.split(" script: ").next().unwrap_or(text);
    let text = text.split(", with args").next().unwrap_or(text);
    if text.contains("user_script") { "-ERR in the script".into() } else { format!("-{text}") }
}
