//! What doing something once costs on Redis by hand, with the same driver: what
//! there is to be reached.

use std::sync::{Arc, LazyLock};

use redis::aio::MultiplexedConnection;
use redis::{Script, Value};
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::Outcome;

const MINE: &str = "claimed by one who has an id of its own";
const DONE: &str = "a small outcome, as most are";

/// The least that is right: only who has claimed the key records its outcome.
/// No fence, nobody is told that a run was cut off, nobody waits, nothing is
/// listed.
pub(crate) async fn least(mut bare: MultiplexedConnection, key: String) -> Outcome {
    static RECORD: LazyLock<Script> = LazyLock::new(|| {
        Script::new(
            "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
             redis.call('SET', KEYS[1], ARGV[2], 'PX', 60000) return 1",
        )
    });
    let mut claim = redis::cmd("SET");
    claim.arg(&key).arg(MINE).arg("NX").arg("GET").arg("PX").arg(60_000);
    let before: Option<String> = claim.query_async(&mut bare).await?;
    let mut record = RECORD.key(key);
    record.arg(MINE).arg(DONE);
    let recorded: u32 = record.invoke_async(&mut bare).await?;
    if before.is_some() || recorded != 1 { Err("not fresh".into()) } else { Ok(()) }
}

/// The same with a fence, in calls that tasks share: one key holds the claim and
/// then the outcome.
#[derive(Clone)]
pub(crate) struct Shared {
    claims: mpsc::Sender<Asked>,
    records: mpsc::Sender<Asked>,
}

/// A key, and who waits for it.
type Asked = (String, oneshot::Sender<bool>);

const CLAIM: &str = "
local n, said = #KEYS, {}
redis.call('INCRBY', KEYS[1], n - 1)
for i = 2, n do
  local before = redis.call('SET', KEYS[i], ARGV[2], 'NX', 'GET', 'PX', ARGV[1])
  said[i - 1] = before and 0 or 1
end
return said";
const RECORD: &str = "
local n, said, found = #KEYS, {}, redis.call('MGET', unpack(KEYS, 2))
for i = 2, n do
  said[i - 1] = 0
  if found[i - 1] == ARGV[2] then
    redis.call('SET', KEYS[i], ARGV[3], 'PX', ARGV[1])
    said[i - 1] = 1
  end
end
return said";

impl Shared {
    pub(crate) fn new(bare: &MultiplexedConnection) -> Self {
        Self { claims: start(bare.clone(), CLAIM), records: start(bare.clone(), RECORD) }
    }

    pub(crate) async fn run(self, key: String) -> Outcome {
        for desk in [self.claims, self.records] {
            let (back, answer) = oneshot::channel();
            desk.send((key.clone(), back)).await?;
            if !answer.await? {
                return Err("not fresh".into());
            }
        }
        Ok(())
    }
}

fn start(bare: MultiplexedConnection, script: &'static str) -> mpsc::Sender<Asked> {
    let (sender, asked) = mpsc::channel(1000);
    tokio::spawn(async move { rounds(bare, Script::new(script), asked).await });
    sender
}

/// What has gathered goes in one call, a few calls at a time.
async fn rounds(
    bare: MultiplexedConnection,
    script: Script,
    mut asked: mpsc::Receiver<Asked>,
) -> Outcome {
    let room = Arc::new(Semaphore::new(5));
    let mut first = bare.clone();
    script.prepare_invoke().load_async(&mut first).await?;
    loop {
        let place = Arc::clone(&room).acquire_owned().await?;
        let mut gathered = Vec::new();
        if asked.recv_many(&mut gathered, 128).await == 0 {
            return Ok(());
        }
        let (call, mut bare) = (call(&script, &gathered), bare.clone());
        tokio::spawn(async move {
            let said: Vec<Value> = call.query_async(&mut bare).await?;
            for ((_, back), said) in gathered.into_iter().zip(said) {
                let _ = back.send(said == Value::Int(1));
            }
            drop(place);
            Outcome::Ok(())
        });
    }
}

fn call(script: &Script, asked: &[Asked]) -> redis::Cmd {
    let mut call = redis::cmd("EVALSHA");
    call.arg(script.get_hash()).arg(asked.len() + 1).arg("by hand: fence");
    asked.iter().for_each(|(key, _)| {
        call.arg(key);
    });
    call.arg(60_000).arg(MINE).arg(DONE);
    call
}
