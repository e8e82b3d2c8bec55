//! Connections: what one says to a server, and what the server says on its own.

use super::db::Channel;
use super::lua::{Script, eval};
use super::{Bytes, Node, Reply, commands};

impl Node {
    /// Answers a request. What goes back is added to `out`.
    pub(crate) fn serve(&mut self, id: u64, request: &[Bytes], out: &mut Bytes) -> Reply {
        self.commands += 1;
        let name = commands::word(request, 0).to_ascii_uppercase();
        let asking = self.asking.remove(&id);
        if let Some(refusal) = self.elsewhere(request, asking) {
            refusal.encode(out);
            return refusal;
        }
        let answer = match name.as_str() {
            "EVALSHA" => self.eval_known(request),
            "EVAL" => self.eval_new(request),
            "HELLO" => hello(),
            "CLIENT" | "SELECT" => Reply::OK,
            "ASKING" => {
                self.asking.insert(id);
                Reply::OK
            }
            "CLUSTER" => self.map(),
            "SENTINEL" => self.primary(),
            "SUBSCRIBE" | "SSUBSCRIBE" => return self.subscribe(id, &name, request, out),
            "UNSUBSCRIBE" | "SUNSUBSCRIBE" => return self.unsubscribe(id, &name, request, out),
            _ => commands::run(&mut self.db, request, false),
        };
        answer.encode(out);
        answer
    }

    /// `SENTINEL GET-MASTER-ADDR-BY-NAME`, whatever the name is.
    fn primary(&self) -> Reply {
        let Some(primary) = self.sees else { return Reply::Nil };
        Reply::Array(vec![Reply::bulk(format!("n{primary}")), Reply::bulk("6379")])
    }

    fn eval_known(&mut self, request: &[Bytes]) -> Reply {
        let digest = commands::word(request, 1).to_ascii_lowercase();
        let Some(text) = self.scripts.get(&digest) else {
            return Reply::error("NOSCRIPT No matching script. Please use EVAL.");
        };
        let Some((keys, args)) = split(request) else { return no_keys() };
        eval(&mut self.db, &Script { digest: &digest, text }, keys, args)
    }

    fn eval_new(&mut self, request: &[Bytes]) -> Reply {
        let Some((keys, args)) = split(request) else { return no_keys() };
        let digest = sha1_smol::Sha1::from(&request[1]).digest().to_string();
        let text = self.scripts.entry(digest.clone()).or_insert_with(|| request[1].clone());
        eval(&mut self.db, &Script { digest: &digest, text }, keys, args)
    }

    fn subscribe(&mut self, id: u64, name: &str, request: &[Bytes], out: &mut Bytes) -> Reply {
        self.each_channel(name, request, out, |hearers| {
            if !hearers.contains(&id) {
                hearers.push(id);
            }
        })
    }

    fn unsubscribe(&mut self, id: u64, name: &str, request: &[Bytes], out: &mut Bytes) -> Reply {
        self.each_channel(name, request, out, |hearers| hearers.retain(|hearer| *hearer != id))
    }

    fn each_channel(
        &mut self,
        name: &str,
        request: &[Bytes],
        out: &mut Bytes,
        mut change: impl FnMut(&mut Vec<u64>),
    ) -> Reply {
        let word = name.to_ascii_lowercase();
        let sharded = name.starts_with("SS") || name.starts_with("SUN");
        let mut last = Reply::Nil;
        for channel in &request[1..] {
            let key: Channel = (sharded, channel.clone());
            let hearers = self.db.hearers.entry(key.clone()).or_default();
            change(hearers);
            if hearers.is_empty() {
                self.db.hearers.remove(&key);
            }
            let said = [Reply::bulk(word.as_str()), Reply::Bulk(channel.clone()), Reply::Int(1)];
            last = Reply::Push(said.to_vec());
            last.encode(out);
        }
        last
    }

    /// Whether this connection has subscribed to anything.
    pub(crate) fn hears(&self, id: u64) -> bool {
        self.db.hearers.values().any(|hearers| hearers.contains(&id))
    }

    /// A connection is gone.
    pub(crate) fn forget(&mut self, id: u64) {
        self.db.hearers.values_mut().for_each(|hearers| hearers.retain(|hearer| *hearer != id));
        self.db.hearers.retain(|_, hearers| !hearers.is_empty());
    }

    /// What was published, for each connection that hears it.
    pub(crate) fn pushes(&mut self) -> Vec<(u64, Bytes)> {
        let mut all = Vec::new();
        for (channel, message) in std::mem::take(&mut self.db.said) {
            let word = if channel.0 { "smessage" } else { "message" };
            let hearers = self.db.hearers.get(&channel).cloned().unwrap_or_default();
            let push = [Reply::bulk(word), Reply::Bulk(channel.1), Reply::Bulk(message)];
            let mut bytes = Vec::new();
            Reply::Push(push.to_vec()).encode(&mut bytes);
            all.extend(hearers.into_iter().map(|id| (id, bytes.clone())));
        }
        all
    }
}

/// Keys and arguments of a script call.
fn split(request: &[Bytes]) -> Option<(&[Bytes], &[Bytes])> {
    let count: usize = commands::word(request, 2).parse().ok()?;
    request.get(3..)?.split_at_checked(count)
}

fn no_keys() -> Reply {
    Reply::error("ERR Number of keys can't be greater than number of args")
}

fn hello() -> Reply {
    let pair = |name: &str, value: Reply| (Reply::bulk(name), value);
    Reply::Map(vec![
        pair("server", Reply::bulk("redis")),
        pair("version", Reply::bulk("7.0.15")),
        pair("proto", Reply::Int(3)),
        pair("role", Reply::bulk("master")),
    ])
}
