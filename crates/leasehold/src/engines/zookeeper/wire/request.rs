//! What a server can be asked.

use super::jute::JuteWriter;
use super::numbers::{AUTH_XID, op};

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum CreateMode {
    /// Stays.
    Persistent,
    /// Ends with the session.
    Ephemeral,
    /// The same; the server adds a number to its name.
    Numbered,
    /// Goes once it has no children any more.
    Container,
}

impl CreateMode {
    const fn flags(self) -> i32 {
        match self {
            Self::Persistent => 0,
            Self::Ephemeral => 1,
            Self::Numbered => 3,
            Self::Container => 4,
        }
    }
}

/// Who may touch the nodes we make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Acl {
    Open,
    /// Whoever has the login that made it.
    Creator,
}

impl Acl {
    fn write(self, pen: &mut JuteWriter) {
        const ALL: i32 = 31;
        let (scheme, id) = match self {
            Self::Open => ("world", "anyone"),
            Self::Creator => ("auth", ""),
        };
        pen.int(1).int(ALL).text(scheme).text(id);
    }
}

/// A request. A version of -1 means any.
#[derive(Clone, Debug)]
pub(in super::super) enum ZkRequest {
    Create {
        path: String,
        data: Vec<u8>,
        node: CreateMode,
        acl: Acl,
    },
    Delete {
        path: String,
        version: i32,
    },
    SetData {
        path: String,
        data: Vec<u8>,
        version: i32,
    },
    Check {
        path: String,
    },
    GetData {
        path: String,
        watch: bool,
    },
    Exists {
        path: String,
    },
    GetChildren {
        path: String,
        watch: bool,
    },
    /// Answered once all that was decided before has reached the server, as far
    /// as its leader knows.
    Sync,
    Multi(Vec<Self>),
    /// Tells of all changes at a path and below, until the connection ends.
    AddWatch {
        path: String,
    },
    Ping,
    /// Ends the session.
    Close,
}

impl ZkRequest {
    /// Changes nothing, and is answered like a change: once a majority has it.
    pub(in super::super) fn proof() -> Self {
        Self::Multi(vec![Self::Check { path: "/".into() }])
    }

    /// The frame that carries it.
    pub(in super::super) fn frame(&self, xid: i32) -> Vec<u8> {
        let mut pen = JuteWriter::new();
        pen.int(xid).int(self.op());
        self.write(&mut pen);
        pen.done()
    }

    pub(super) const fn op(&self) -> i32 {
        match self {
            Self::Create { node: CreateMode::Container, .. } => op::CREATE_CONTAINER,
            Self::Create { .. } => op::CREATE2,
            Self::Delete { .. } => op::DELETE,
            Self::SetData { .. } => op::SET_DATA,
            Self::Check { .. } => op::CHECK,
            Self::GetData { .. } => op::GET_DATA,
            Self::Exists { .. } => op::EXISTS,
            Self::GetChildren { .. } => op::GET_CHILDREN,
            Self::Sync => op::SYNC,
            Self::Multi(_) => op::MULTI,
            Self::AddWatch { .. } => op::ADD_WATCH,
            Self::Ping => op::PING,
            Self::Close => op::CLOSE,
        }
    }

    /// Whether it changes anything, so that a majority has to agree.
    pub(in super::super) const fn writes(&self) -> bool {
        matches!(
            self,
            Self::Create { .. }
                | Self::Delete { .. }
                | Self::SetData { .. }
                | Self::Multi(_)
                | Self::Close
        )
    }

    /// Whether the server it is sent to answers from what it has.
    pub(in super::super) const fn reads(&self) -> bool {
        matches!(self, Self::GetData { .. } | Self::Exists { .. } | Self::GetChildren { .. })
    }

    fn write(&self, pen: &mut JuteWriter) {
        match self {
            Self::Create { path, data, node, acl } => {
                acl.write(pen.text(path).bytes(data));
                pen.int(node.flags());
            }
            Self::Delete { path, version } => _ = pen.text(path).int(*version),
            Self::SetData { path, data, version } => _ = pen.text(path).bytes(data).int(*version),
            Self::Check { path } => _ = pen.text(path).int(-1),
            Self::GetData { path, watch } | Self::GetChildren { path, watch } => {
                pen.text(path).flag(*watch);
            }
            Self::Exists { path } => _ = pen.text(path).flag(false),
            Self::Sync => _ = pen.text("/"),
            Self::AddWatch { path } => _ = pen.text(path).int(1),
            Self::Multi(steps) => multi(pen, steps),
            Self::Ping | Self::Close => {}
        }
    }
}

fn multi(pen: &mut JuteWriter, steps: &[ZkRequest]) {
    for step in steps {
        // Old servers give wrong numbers for what `create2` makes in here.
        let op = if step.op() == op::CREATE2 { op::CREATE } else { step.op() };
        pen.int(op).flag(false).int(-1);
        step.write(pen);
    }
    pen.int(-1).flag(true).int(-1);
}

/// The first words on a connection.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Hello {
    /// The newest change this client knows of: servers behind it say no.
    pub(in super::super) seen: i64,
    pub(in super::super) timeout: i32,
    /// 0 for a new session.
    pub(in super::super) session: i64,
    pub(in super::super) password: [u8; 16],
}

impl Hello {
    pub(in super::super) fn frame(&self) -> Vec<u8> {
        let mut pen = JuteWriter::new();
        pen.int(0).long(self.seen).int(self.timeout).long(self.session);
        pen.bytes(&self.password).flag(false);
        pen.done()
    }
}

/// Says who we are: `user:password`.
pub(in super::super) fn digest(login: &str) -> Vec<u8> {
    let mut pen = JuteWriter::new();
    pen.int(AUTH_XID).int(op::AUTH).int(0).text("digest").text(login);
    pen.done()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_says_how_long_it_is_and_what_is_asked() {
        let frame = ZkRequest::Exists { path: "/a".into() }.frame(7);
        assert_eq!(frame, [0, 0, 0, 15, 0, 0, 0, 7, 0, 0, 0, 3, 0, 0, 0, 2, b'/', b'a', 0]);
    }

    #[test]
    fn a_step_that_makes_a_node_asks_for_no_more_than_its_path() {
        let (path, acl) = ("/a".to_owned(), Acl::Open);
        let step = ZkRequest::Create { path, data: vec![], node: CreateMode::Numbered, acl };
        assert_eq!(step.op(), op::CREATE2);
        let frame = ZkRequest::Multi(vec![step]).frame(1);
        assert_eq!(frame[12..16], op::CREATE.to_be_bytes());
        assert_eq!(frame[frame.len() - 9..], [255, 255, 255, 255, 1, 255, 255, 255, 255]);
    }
}
