//! Against a real server.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use redis::Value;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::UnboundedReceiver;

use super::super::script::{Script, ScriptCall};
use super::super::settings::RedisSettings;
use super::{Push, RedisLink};
use crate::clock::Clock;
use crate::engine::Events;
use crate::error::{Effect, ErrorKind, Result};
use crate::url::Url;

/// Ends a wait that would never end. Nothing is measured with it.
const LIMIT: Duration = Duration::from_secs(30);

static ECHO: Script = Script::new("return ARGV[1]");
static WRITE: Script = Script::new("return redis.call('SET', KEYS[1], ARGV[1])");

/// A server of our own, killed with its value and with this process.
struct Server {
    child: Child,
    port: u16,
    folder: TempDir,
    args: Vec<String>,
}

impl Server {
    async fn start(args: &[&str]) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        let folder = tempfile::tempdir().unwrap();
        let args: Vec<String> = args.iter().map(ToString::to_string).collect();
        let child = spawn(port, &folder, &args);
        let server = Self { child, port, folder, args };
        server.ready().await;
        server
    }

    async fn ready(&self) {
        let answers = async {
            while TcpStream::connect(("127.0.0.1", self.port)).await.is_err() {
                tokio::task::yield_now().await;
            }
        };
        limit(answers).await;
    }

    async fn restart(&mut self) {
        self.kill();
        self.child = spawn(self.port, &self.folder, &self.args);
        self.ready().await;
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    async fn link(&self) -> RedisLink {
        open(&self.url()).await.unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `setpriv` ties the server to the thread that starts it, and each test has
/// its own.
fn spawn(port: u16, folder: &TempDir, args: &[String]) -> Child {
    Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "--", "redis-server", "--save", "", "--bind", "127.0.0.1"])
        .args(["--port", &port.to_string(), "--dir"])
        .arg(folder.path())
        .args(args)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

async fn limit<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.expect("it never happened")
}

async fn open(url: &str) -> Result<RedisLink> {
    let settings = RedisSettings::from_url(&Url::parse(url).unwrap())?;
    limit(RedisLink::open(&settings, Clock::System)).await
}

fn echo(text: &str) -> ScriptCall {
    ScriptCall::new(&ECHO, vec![b"k".to_vec()], vec![text.as_bytes().to_vec()])
}

fn write(key: &str) -> ScriptCall {
    ScriptCall::new(&WRITE, vec![key.as_bytes().to_vec()], vec![b"v".to_vec()])
}

fn text(value: &Value) -> &str {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).unwrap(),
        other => panic!("{other:?} is no text"),
    }
}

fn command(words: &str) -> redis::Cmd {
    let mut words = words.split(' ');
    let mut command = redis::cmd(words.next().unwrap());
    words.for_each(|word| {
        command.arg(word);
    });
    command
}

/// Kills connections of a kind, from a connection of another link.
async fn cut(by: &RedisLink, kind: &str) {
    let killed = by.command(command(&format!("CLIENT KILL TYPE {kind} SKIPME yes"))).await;
    assert!(matches!(killed, Ok(Value::Int(1..))), "the fault did not bite: {killed:?}");
}

async fn next(events: &mut Events) -> String {
    format!("{:?}", limit(events.next()).await.unwrap())
}

async fn heard(pushes: &mut UnboundedReceiver<Push>) -> String {
    match limit(pushes.recv()).await.unwrap() {
        Push::Gap => "gap".into(),
        Push::Message { channel, payload } => {
            [channel, payload].map(|part| String::from_utf8(part).unwrap()).join("=")
        }
    }
}

#[tokio::test]
async fn forgotten_scripts_are_taught_again_alone_and_in_pipelines() {
    let server = Server::start(&[]).await;
    let link = server.link().await;
    for _ in 0..3 {
        link.command(command("SCRIPT FLUSH")).await.unwrap();
        assert_eq!(text(&link.call(echo("one")).await.unwrap().value), "one");
        link.command(command("SCRIPT FLUSH")).await.unwrap();
        let calls = vec![echo("a"), write("w"), echo("b"), write("w"), echo("c")];
        let answers = link.calls(calls).await;
        let said: Vec<_> = answers.iter().map(|answer| answer.as_ref().unwrap()).collect();
        let texts = [0, 2, 4].map(|at: usize| text(&said[at].value));
        assert_eq!(texts, ["a", "b", "c"], "answers come in order");
    }
}

#[tokio::test]
async fn each_answer_of_a_pipeline_has_its_own_error() {
    let server = Server::start(&[]).await;
    let link = server.link().await;
    static PUSH: Script = Script::new("return redis.call('RPUSH', KEYS[1], 'x')");
    link.command(command("SET taken x")).await.unwrap();
    let bad = ScriptCall::new(&PUSH, vec![b"taken".to_vec()], vec![]);
    let answers = link.calls(vec![echo("a"), bad, echo("b")]).await;
    assert!(answers[0].is_ok() && answers[2].is_ok());
    let error = answers[1].as_ref().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("belongs to someone else"), "{error}");
}

#[tokio::test]
async fn a_killed_command_connection_comes_back_and_tells() {
    let server = Server::start(&[]).await;
    let (link, other) = (server.link().await, server.link().await);
    let mut events = link.events();
    cut(&other, "normal").await;
    assert_eq!(next(&mut events).await, "Suspended");
    assert_eq!(next(&mut events).await, "Reconnected");
    assert_eq!(text(&link.call(echo("back")).await.unwrap().value), "back");
}

#[tokio::test]
async fn a_killed_push_connection_subscribes_again_before_it_tells_of_the_gap() {
    let server = Server::start(&[]).await;
    let (link, other) = (server.link().await, server.link().await);
    let mut pushes = link.pushes().unwrap();
    for channel in ["a", "b", "gone"] {
        link.subscribe(channel.as_bytes()).await.unwrap();
    }
    link.unsubscribe(b"gone").await.unwrap();
    other.command(command("PUBLISH a 1")).await.unwrap();
    assert_eq!(heard(&mut pushes).await, "a=1");
    cut(&other, "pubsub").await;
    assert_eq!(heard(&mut pushes).await, "gap");
    let reached = other.command(command("PUBLISH b 2")).await.unwrap();
    assert_eq!(reached, Value::Int(1), "subscribed by the time of the gap");
    assert_eq!(heard(&mut pushes).await, "b=2");
    let none = other.command(command("PUBLISH gone 3")).await.unwrap();
    assert_eq!(none, Value::Int(0));
    assert!(link.pushes().is_none(), "for one listener");
}

/// Two first claims come at once; the second is told that it failed.
#[tokio::test]
async fn a_second_subscription_that_fails_does_not_end_the_first() {
    let server = Server::start(&[]).await;
    let (link, other) =
        (open(&format!("{}/?timeout=200ms", server.url())).await.unwrap(), server.link().await);
    link.subscribe(b"a").await.unwrap();
    other.command(command("CLIENT PAUSE 600 ALL")).await.unwrap();
    link.subscribe(b"a").await.expect_err("the fault did not bite");
    limit(async { while other.command(command("PING")).await.is_err() {} }).await;
    // Unless it has broken by itself meanwhile.
    other.command(command("CLIENT KILL TYPE pubsub SKIPME yes")).await.unwrap();
    let heard =
        async { while other.command(command("PUBLISH a 1")).await.ok() != Some(Value::Int(1)) {} };
    limit(heard).await;
}

#[tokio::test]
async fn a_restarted_server_is_found_again() {
    let mut server = Server::start(&[]).await;
    let link = server.link().await;
    let (mut events, mut pushes) = (link.events(), link.pushes().unwrap());
    link.subscribe(b"a").await.unwrap();
    server.kill();
    assert_eq!(next(&mut events).await, "Suspended");
    let error = limit(link.call(echo("x"))).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::NotApplied));
    server.restart().await;
    assert_eq!(next(&mut events).await, "Reconnected");
    assert_eq!(text(&link.call(echo("again")).await.unwrap().value), "again");
    assert_eq!(heard(&mut pushes).await, "gap");
    link.command(command("PUBLISH a 1")).await.unwrap();
    assert_eq!(heard(&mut pushes).await, "a=1");
}

#[tokio::test]
async fn a_command_cut_in_flight_is_unknown_and_not_sent_again() {
    let server = Server::start(&[]).await;
    let (link, other) = (server.link().await, server.link().await);
    // The server holds writes back, so the reply cannot win the race.
    other.command(command("CLIENT PAUSE 600000 WRITE")).await.unwrap();
    let cutting = async {
        let blocked = async { while !info(&other, "blocked_clients:1").await {} };
        limit(blocked).await;
        cut(&other, "normal").await;
    };
    let (outcome, ()) = tokio::join!(link.call(write("k")), cutting);
    let error = outcome.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::Unknown));
    other.command(command("CLIENT UNPAUSE")).await.unwrap();
    assert_eq!(text(&link.call(echo("back")).await.unwrap().value), "back");
    assert_eq!(other.command(command("GET k")).await.unwrap(), Value::Nil);
}

async fn info(link: &RedisLink, line: &str) -> bool {
    match link.command(command("INFO clients")).await.unwrap() {
        Value::VerbatimString { text, .. } => text.contains(line),
        Value::BulkString(bytes) => String::from_utf8_lossy(&bytes).contains(line),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_wrong_password_is_denied_and_never_shown() {
    let server = Server::start(&["--requirepass", "s3cret/@:"]).await;
    let at = format!("127.0.0.1:{}", server.port);
    open(&format!("redis://:s3cret%2F%40%3A@{at}")).await.unwrap();
    for login in ["", ":hunter2@", "nobody:hunter2@"] {
        let error = open(&format!("redis://{login}{at}")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        assert!(error.to_string().contains(&at), "{error}");
    }
    let error = open(&format!("redis://:s3cret%2F%40%3A@{at}/99")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}

#[tokio::test]
async fn a_tight_acl_is_enough() {
    let rule = "user tight on >pw ~lk:* resetchannels &lk:* -@all +eval +evalsha +hello +subscribe";
    let server = Server::start(&[]).await;
    let admin = server.link().await;
    let rule = rule.replacen("user", "ACL SETUSER", 1);
    admin.command(command(&rule)).await.unwrap();
    let link = open(&format!("redis://tight:pw@127.0.0.1:{}", server.port)).await.unwrap();
    let call = ScriptCall::new(&ECHO, vec![b"lk:k".to_vec()], vec![b"fine".to_vec()]);
    assert_eq!(text(&link.call(call).await.unwrap().value), "fine");
    link.subscribe(b"lk:c").await.unwrap();
    assert_eq!(link.subscribe(b"other").await.unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(link.call(echo("x")).await.unwrap_err().kind(), ErrorKind::Denied);
}

#[tokio::test]
async fn a_replica_refuses_and_the_list_finds_the_primary() {
    let (first, second) = (Server::start(&[]).await, Server::start(&[]).await);
    let (one, two) = (first.link().await, second.link().await);
    let follow = |port| command(&format!("REPLICAOF 127.0.0.1 {port}"));
    two.command(follow(first.port)).await.unwrap();
    let error = two.call(write("k")).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::NotApplied));
    let list = format!("redis://127.0.0.1:{},127.0.0.1:{}", second.port, first.port);
    let link = open(&list).await.unwrap();
    let mut events = link.events();
    link.call(write("k")).await.unwrap();
    // They change places; the link notices by the first refusal.
    two.command(command("REPLICAOF NO ONE")).await.unwrap();
    one.command(follow(second.port)).await.unwrap();
    let error = link.call(write("k")).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::NotApplied));
    assert_eq!(next(&mut events).await, "Suspended");
    assert_eq!(next(&mut events).await, "Reconnected");
    link.call(write("k")).await.unwrap();
}

#[tokio::test]
async fn replicas_that_have_a_write_are_counted() {
    let (first, second) = (Server::start(&[]).await, Server::start(&[]).await);
    let url = format!("{}/?replicas=1&timeout=10s", first.url());
    let link = open(&url).await.unwrap();
    let plain = first.link().await;
    let reading = link.call(echo("k").only_reading()).await.unwrap();
    assert_eq!(reading.acknowledged, None, "it writes nothing");
    assert_eq!(plain.call(write("k")).await.unwrap().acknowledged, None);
    let follow = command(&format!("REPLICAOF 127.0.0.1 {}", first.port));
    second.link().await.command(follow).await.unwrap();
    let counted = async { while link.call(write("k")).await.unwrap().acknowledged != Some(1) {} };
    limit(counted).await;
    let answers = link.calls(vec![write("a"), write("b")]).await;
    assert!(answers.iter().all(|answer| answer.as_ref().unwrap().acknowledged == Some(1)));
}

#[tokio::test]
async fn a_socket_and_a_database_are_reached() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.sock");
    let server = Server::start(&["--unixsocket", path.to_str().unwrap()]).await;
    // The port is open before the socket is made.
    limit(async {
        while !path.exists() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let link = open(&format!("redis+unix:{}?db=3", path.display())).await.unwrap();
    link.call(write("k")).await.unwrap();
    let same = open(&format!("{}/3", server.url())).await.unwrap();
    assert_eq!(text(&same.command(command("GET k")).await.unwrap()), "v");
    let other = server.link().await;
    assert_eq!(other.command(command("GET k")).await.unwrap(), Value::Nil);
}

#[tokio::test]
async fn a_closed_link_does_nothing_more() {
    let server = Server::start(&[]).await;
    let (link, other) = (server.link().await, server.link().await);
    let mut events = link.events();
    link.close();
    let error = link.call(echo("x")).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::NotApplied));
    assert!(events.next().await.is_none());
    let left = async { while !info(&other, "connected_clients:2").await {} };
    limit(left).await;
}
