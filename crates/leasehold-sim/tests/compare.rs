//! The model and a real server answer the same, and keep the same.
#![cfg(leasehold_sim)]

mod real;
mod traffic;

use std::collections::BTreeMap;

use leasehold_sim::net::Delays;
use leasehold_sim::trace::Event;
use leasehold_sim::world::{Setup, World};

use self::real::{Server, Wire, shown};

type Request = Vec<Vec<u8>>;

/// Takes requests to both, and compares.
struct Pair {
    world: World,
    real: Wire,
    steps: u64,
}

/// `body` with a model and a real server. No time passes in this world.
fn with_pair(body: impl FnOnce(&mut Pair)) {
    let server = Server::start();
    let delays = Delays::constant(1);
    let setup = Setup { seed: 0, nodes: 1, delays, keeps_events: false };
    World::run(setup, async |world| {
        body(&mut Pair { world, real: server.connect(), steps: 0 });
    });
}

impl Pair {
    fn both(&mut self, request: &Request) -> (String, String) {
        let words: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
        let model = self.world.node(0, |node| node.ask(&words));
        (shown(&model), self.real.ask(request))
    }

    fn compare(&mut self, request: &Request) {
        self.steps += 1;
        let (model, real) = self.both(request);
        assert_eq!(model, real, "step {}: {}", self.steps, written(request));
    }

    /// Compares all keys and what they hold.
    fn compare_state(&mut self) {
        let keys = self.world.node(0, |node| node.keys());
        self.compare(&words(&["DBSIZE"]));
        for key in keys {
            let (kind, _) = self.both(&vec![b"TYPE".to_vec(), key.clone()]);
            let look: &[&str] = match kind.as_str() {
                "+string" => &["GET"],
                "+hash" => &["HGETALL"],
                "+list" => &["LRANGE", "0", "-1"],
                _ => &["ZRANGE", "0", "-1"],
            };
            let mut request = words(look);
            request.insert(1, key);
            self.compare(&request);
        }
    }

    /// Sets the model's clock by that of the server; what both show, in
    /// microseconds.
    fn agree_on_the_time(&mut self) -> u64 {
        let (model, real) = self.both(&words(&["TIME"]));
        let (model, real) = (micros(&model), micros(&real));
        self.world.node(0, |node| node.step_clock(real.cast_signed() - model.cast_signed()));
        real
    }

    fn clear(&mut self) {
        self.compare(&words(&["FLUSHALL"]));
    }
}

/// What `TIME` says.
fn micros(shown: &str) -> u64 {
    let digits = shown.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
    let parts: Vec<u64> = digits.map(|part| part.parse().unwrap()).collect();
    parts[0] * 1_000_000 + parts[1]
}

fn words(words: &[&str]) -> Request {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

fn written(request: &Request) -> String {
    let word = |word: &Vec<u8>| word.escape_ascii().to_string().chars().take(120).collect();
    request.iter().map(word).collect::<Vec<String>>().join(" ")
}

/// Few keys of any type, numbers at the edges: half of it is refused.
#[test]
fn single_commands_are_answered_alike() {
    with_pair(|pair| {
        for case in 0..60 {
            let mut chance = fastrand::Rng::with_seed(case);
            pair.clear();
            for _ in 0..60 {
                let request = any_command(&mut chance);
                pair.compare(&request);
            }
            pair.compare_state();
        }
    });
}

fn any_command(chance: &mut fastrand::Rng) -> Request {
    const TEMPLATES: &[&str] = &[
        "GET k",
        "MGET k k",
        "SET k v",
        "SET k v NX",
        "SET k n",
        "SET k v PX n",
        "SET k v KEEPTTL",
        "INCR k",
        "INCRBY k n",
        "DECRBY k n",
        "DEL k",
        "DEL k k",
        "EXISTS k k",
        "TYPE k",
        "PEXPIRE k t",
        "PEXPIREAT k n",
        "HGET k f",
        "HSET k f v",
        "HSET k f v f v",
        "HSET k f",
        "HDEL k f f",
        "HGETALL k",
        "HEXISTS k f",
        "HKEYS k",
        "HLEN k",
        "LINDEX k i",
        "LPOP k",
        "LPOS k v",
        "LRANGE k i i",
        "LREM k i v",
        "RPUSH k v",
        "RPUSH k v v",
        "ZADD k s f",
        "ZADD k XX s f",
        "ZADD k s f s f",
        "ZREM k f",
        "ZCARD k",
        "ZSCORE k f",
        "ZINCRBY k s f",
        "ZRANGE k i i",
        "ZRANGE k i i WITHSCORES",
        "ZRANGEBYSCORE k b b",
        "ZRANGEBYSCORE k b b LIMIT i i",
        "ZRANGEBYLEX k x x",
        "ZRANGEBYLEX k x x LIMIT 0 2",
        "ZREMRANGEBYSCORE k b b",
        "PUBLISH f v",
        "GET",
        "NOSUCH k",
    ];
    let template = TEMPLATES[chance.usize(..TEMPLATES.len())];
    template.split(' ').map(|word| any_word(word, chance).into_bytes()).collect()
}

fn any_word(word: &str, chance: &mut fastrand::Rng) -> String {
    let choices: &[&str] = match word {
        "k" => &["a", "b", "c", "d"],
        "v" => &["1", "x", "", "9223372036854775807", "long value"],
        "f" => &["f", "g", "h"],
        "i" => &["0", "1", "2", "-1", "-2", "x"],
        "n" => &[
            "100000",
            "9223372036854775807",
            "-9223372036854775808",
            "0",
            "-5",
            "1.5",
            "1e3",
            "18446744073709551616",
            "007",
            "",
        ],
        "t" => &["100000", "5000000", "0", "-5", "9223372036854775807", "1.5"],
        "s" => &["0", "1", "2.5", "-3", "inf", "1700000000000", "x"],
        "b" => &["-inf", "+inf", "0", "1", "(1", "2.5", "x"],
        "x" => &["-", "+", "[f", "(f", "[g", "(h", "f"],
        _ => return word.to_owned(),
    };
    choices[chance.usize(..choices.len())].to_owned()
}

/// Scripts ask for the time, for how long keys live and since when the server
/// runs; all are made the same on the two sides, and so
/// is the order of tables, which Lua leaves open. A case is over long before its shortest key.
const STILL: &str = "local function near(...)
  local left = redis.call(...)
  if left < 0 then return left end
  return math.floor((left + 5000) / 10000) * 10000
end
local function pairs(all)
  local keys, at = {}, 0
  for key in next, all do table.insert(keys, key) end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  return function()
    at = at + 1
    if keys[at] ~= nil then return keys[at], all[keys[at]] end
  end
end
";

fn stilled(text: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    let text = text.replace("redis.call('TIME')", "redis.call('MGET', 'sim:s', 'sim:us')");
    let text = text.replace("redis.call('PTTL',", "near('PTTL',");
    let text = text.replace("redis.call('INFO', 'server')", "'uptime_in_seconds:1000000'");
    format!("{STILL}{text}").into_bytes()
}

/// What clients have sent in a simulation is sent to both, at the times of the
/// simulation.
fn replay(pair: &mut Pair, events: &[Event]) -> u64 {
    let mut scripts: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for event in events.iter().filter(|event| event.request[0] == b"EVAL") {
        let digest = sha1_smol::Sha1::from(&event.request[1]).digest().to_string();
        let text = stilled(&event.request[1]);
        let known = sha1_smol::Sha1::from(&text).digest().to_string().into_bytes();
        pair.both(&vec![b"EVAL".to_vec(), text, b"0".to_vec()]);
        scripts.insert(digest.into_bytes(), known);
    }
    pair.clear();
    let start = pair.agree_on_the_time();
    let before = pair.steps;
    for event in events {
        let mut request = event.request.clone();
        match request[0].as_slice() {
            b"EVALSHA" => match scripts.get(&request[1]) {
                Some(known) => request[1].clone_from(known),
                None => continue,
            },
            b"MGET" | b"ZRANGEBYLEX" | b"ZRANGEBYSCORE" => {}
            _ => continue,
        }
        if request[0] == b"EVALSHA" {
            at(pair, start + event.at);
        }
        pair.compare(&request);
    }
    pair.compare_state();
    pair.steps - before
}

fn at(pair: &mut Pair, micros: u64) {
    let (seconds, rest) = (micros / 1_000_000, micros % 1_000_000);
    pair.both(&words(&["SET", "sim:s", &seconds.to_string()]));
    pair.both(&words(&["SET", "sim:us", &rest.to_string()]));
}

/// Leases, records and `once` of our own layout, borrowed layouts, and a node of
/// a quorum.
#[test]
fn scripts_are_answered_alike() {
    for url in traffic::URLS {
        let recorded: Vec<_> = (0..3).map(|seed| traffic::record(url, seed)).collect();
        with_pair(|pair| {
            let steps: u64 = recorded.iter().map(|events| replay(pair, events)).sum();
            println!("{url}: {steps} steps");
            assert!(steps > 1_000, "{url} was compared in {steps} steps only");
        });
    }
}
