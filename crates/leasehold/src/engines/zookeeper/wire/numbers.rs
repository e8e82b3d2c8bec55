//! Numbers of the protocol.

/// What is asked for.
pub(super) mod op {
    pub(crate) const CREATE: i32 = 1;
    pub(crate) const DELETE: i32 = 2;
    pub(crate) const EXISTS: i32 = 3;
    pub(crate) const GET_DATA: i32 = 4;
    pub(crate) const SET_DATA: i32 = 5;
    pub(crate) const GET_CHILDREN: i32 = 8;
    pub(crate) const SYNC: i32 = 9;
    pub(crate) const PING: i32 = 11;
    pub(crate) const CHECK: i32 = 13;
    pub(crate) const MULTI: i32 = 14;
    pub(crate) const CREATE2: i32 = 15;
    pub(crate) const CREATE_CONTAINER: i32 = 19;
    pub(crate) const AUTH: i32 = 100;
    pub(crate) const ADD_WATCH: i32 = 106;
    pub(crate) const CLOSE: i32 = -11;
}

/// Numbers in place of a request's own: what nobody asked for, and what has no
/// number.
pub(super) const NOTICE_XID: i32 = -1;
pub(in super::super) const PING_XID: i32 = -2;
pub(super) const AUTH_XID: i32 = -4;

/// A change, as a version. Numbers of changes are never negative.
pub(in super::super) fn version(zxid: i64) -> u64 {
    u64::try_from(zxid).unwrap_or_default()
}
