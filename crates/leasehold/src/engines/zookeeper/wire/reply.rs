//! What a server answers.

use super::jute::{JuteReader, garbled};
use super::numbers::{AUTH_XID, NOTICE_XID, PING_XID, op};
use super::request::ZkRequest;
use crate::error::Result;

/// Why a server refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Code(pub(in super::super) i32);

impl Code {
    pub(in super::super) const UNIMPLEMENTED: Self = Self(-6);
    pub(in super::super) const NO_NODE: Self = Self(-101);
    pub(in super::super) const NO_AUTH: Self = Self(-102);
    pub(in super::super) const BAD_VERSION: Self = Self(-103);
    pub(in super::super) const NODE_EXISTS: Self = Self(-110);
    pub(in super::super) const SESSION_EXPIRED: Self = Self(-112);
    pub(in super::super) const INVALID_ACL: Self = Self(-114);
    pub(in super::super) const AUTH_FAILED: Self = Self(-115);
    pub(in super::super) const SESSION_MOVED: Self = Self(-118);
    /// A step of a change that failed because of another step.
    pub(in super::super) const INCONSISTENT: Self = Self(-2);
}

/// What is known of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Stat {
    /// The change that made it, and the last one.
    pub(in super::super) made: i64,
    pub(in super::super) changed: i64,
    /// When the last change was, in milliseconds since 1970.
    pub(in super::super) changed_at: i64,
    /// How often it was written over.
    pub(in super::super) version: i32,
    /// The session that it ends with; 0 if none.
    pub(in super::super) owner: i64,
    pub(in super::super) children: i32,
}

impl Stat {
    fn read(text: &mut JuteReader<'_>) -> Result<Self> {
        let (made, changed, _made_at, changed_at) =
            (text.long()?, text.long()?, text.long()?, text.long()?);
        let (version, _child_version, _acl_version) = (text.int()?, text.int()?, text.int()?);
        let owner = text.long()?;
        let (_size, children, _last_child) = (text.int()?, text.int()?, text.long()?);
        Ok(Self { made, changed, changed_at, version, owner, children })
    }
}

/// What comes with a good answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Body {
    Nothing,
    /// Where it is, and what is known of it unless it was a step.
    Made(String, Stat),
    Data(Vec<u8>, Stat),
    Known(Stat),
    Children(Vec<String>),
    /// Of each step.
    Steps(Vec<Result<Self, Code>>),
}

impl Body {
    /// The answer to `request`.
    pub(in super::super) fn read(text: &mut JuteReader<'_>, request: RequestKind) -> Result<Self> {
        match request.0 {
            op::MULTI => steps(text).map(Self::Steps),
            other => Self::one(text, other),
        }
    }

    fn one(text: &mut JuteReader<'_>, op: i32) -> Result<Self> {
        Ok(match op {
            op::CREATE => Self::Made(text.text()?, Stat::default()),
            op::CREATE2 | op::CREATE_CONTAINER => Self::Made(text.text()?, Stat::read(text)?),
            op::GET_DATA => Self::Data(text.bytes()?, Stat::read(text)?),
            op::SET_DATA | op::EXISTS => Self::Known(Stat::read(text)?),
            op::GET_CHILDREN => Self::Children(text.texts()?),
            _ => Self::Nothing,
        })
    }
}

/// What was asked, as far as its answer depends on it.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct RequestKind(i32);

impl From<&ZkRequest> for RequestKind {
    fn from(request: &ZkRequest) -> Self {
        Self(request.op())
    }
}

fn steps(text: &mut JuteReader<'_>) -> Result<Vec<Result<Body, Code>>> {
    const ERROR: i32 = -1;
    let mut all = Vec::new();
    loop {
        let (op, done, _) = (text.int()?, text.flag()?, text.int()?);
        match op {
            _ if done => return Ok(all),
            ERROR => all.push(Err(Code(text.int()?))),
            op => all.push(Ok(Body::one(text, op)?)),
        }
    }
}

/// What stands before an answer.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Head {
    pub(in super::super) xid: i32,
    /// The newest change that the server knew of.
    pub(in super::super) zxid: i64,
    pub(in super::super) error: Option<Code>,
}

impl Head {
    pub(in super::super) fn read(text: &mut JuteReader<'_>) -> Result<Self> {
        let (xid, zxid, error) = (text.int()?, text.long()?, text.int()?);
        Ok(Self { xid, zxid, error: (error != 0).then_some(Code(error)) })
    }

    pub(in super::super) const fn is_notice(&self) -> bool {
        self.xid == NOTICE_XID
    }

    pub(in super::super) const fn is_ping(&self) -> bool {
        self.xid == PING_XID
    }

    pub(in super::super) const fn is_auth(&self) -> bool {
        self.xid == AUTH_XID
    }
}

/// Something has happened at a watched node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct WatchNotice {
    pub(in super::super) what: What,
    pub(in super::super) path: String,
}

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum What {
    Made,
    Gone,
    WriteResult,
    Children,
    Other,
}

impl WatchNotice {
    pub(in super::super) fn read(text: &mut JuteReader<'_>) -> Result<Self> {
        let (what, _state) = (text.int()?, text.int()?);
        let what = match what {
            1 => What::Made,
            2 => What::Gone,
            3 => What::WriteResult,
            4 => What::Children,
            _ => What::Other,
        };
        Ok(Self { what, path: text.text()? })
    }
}

/// The answer to [`Hello`](super::Hello).
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Greeting {
    /// In milliseconds; 0 or less if the session is over.
    pub(in super::super) timeout: i32,
    pub(in super::super) session: i64,
    pub(in super::super) password: [u8; 16],
}

impl Greeting {
    pub(in super::super) fn read(text: &mut JuteReader<'_>) -> Result<Self> {
        let (_version, timeout, session) = (text.int()?, text.int()?, text.long()?);
        let password = text.bytes()?.try_into().map_err(|_| garbled())?;
        Ok(Self { timeout, session, password })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn of_a_change_that_failed_each_step_says_why() {
        let mut bytes = Vec::new();
        for code in [0, -101, -2] {
            bytes.extend((-1_i32).to_be_bytes());
            bytes.push(0);
            bytes.extend([code, code].map(i32::to_be_bytes).concat());
        }
        bytes.extend([255, 255, 255, 255, 1, 255, 255, 255, 255]);
        let multi = RequestKind::from(&ZkRequest::Multi(Vec::new()));
        let steps = Body::read(&mut JuteReader::new(&bytes), multi).unwrap();
        let codes = [Code(0), Code::NO_NODE, Code::INCONSISTENT];
        assert_eq!(steps, Body::Steps(codes.map(Err).to_vec()));
    }

    #[test]
    fn a_list_comes_back_in_its_order() {
        let bytes = [&[0, 0, 0, 2][..], &[0, 0, 0, 1, b'b'], &[0, 0, 0, 1, b'a']].concat();
        let list = RequestKind::from(&ZkRequest::GetChildren { path: "/".into(), watch: false });
        let found = Body::read(&mut JuteReader::new(&bytes), list).unwrap();
        assert_eq!(found, Body::Children(vec!["b".into(), "a".into()]));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for op in [op::MULTI, op::CREATE2, op::GET_DATA, op::EXISTS, op::GET_CHILDREN] {
                let _ = Body::read(&mut JuteReader::new(&bytes), RequestKind(op));
            }
            let _ = Head::read(&mut JuteReader::new(&bytes));
            let _ = WatchNotice::read(&mut JuteReader::new(&bytes));
            let _ = Greeting::read(&mut JuteReader::new(&bytes));
        }
    }
}
