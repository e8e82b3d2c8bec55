//! What the script is asked, and what it answers.

use std::sync::Arc;
use std::time::Duration;

use super::pack::{Item, Items, Packer, garbled};
use crate::claim::{Claim, Ending, Holder, LeaseId, Mode, Predecessor, Refresh, Stance, Wants};
use crate::clock::Moment;
use crate::engine::state::Answer;
use crate::engine::{Eviction, Held, Last, Loss, Queued, Status, Target};
use crate::error::{Error, ErrorKind, Result};
use crate::mutant::{self, Mutant};
use crate::name::{Name, Namespace};

/// Asks for a lease. A grant that comes later is told on `channel`, unless the
/// client asks again by itself; and so is an eviction.
pub(super) fn acquire(claim: &Claim, channel: &[u8], asks: bool) -> Vec<u8> {
    let waits = match claim.stance {
        Stance::Try => 0,
        Stance::Wait { .. } if asks => 2,
        Stance::Wait { .. } => 1,
    };
    let (mode, take, of) = numbers(claim.ticket.mode);
    if matches!(claim.ticket.mode, Mode::Exclusive | Mode::Write) {
        let kind = match claim.wants {
            Wants::Lease => b'A',
            Wants::LeaseAndRecord => b'L',
            Wants::RecordOrLease => b'F',
        };
        return Packer::plain(kind)
            .eight(millis(claim.ttl))
            .eight(millis(claim.lock_delay))
            .raw(&id(claim.ticket.id))
            .array(5)
            .number(mode)
            .bytes(claim.owner.label())
            .maybe(claim.meta.as_deref())
            .bytes(channel)
            .number(waits)
            .done();
    }
    general(2 + u8::from(claim.wants.record()), 12)
        .bytes("a")
        .bytes(id(claim.ticket.id))
        .number(mode)
        .number(take)
        .number(of)
        .bytes(claim.owner.label())
        .number(millis(claim.ttl))
        .number(millis(claim.lock_delay))
        .maybe(claim.meta.as_deref())
        .bytes(channel)
        .number(waits)
        .number(match claim.wants {
            Wants::Lease => 0,
            Wants::LeaseAndRecord => 1,
            Wants::RecordOrLease => 2,
        })
        .done()
}

/// For as long as it says, but no longer than a lease may be.
pub(super) fn renew(refresh: &Refresh, longest: Duration) -> Vec<u8> {
    let ttl = millis(refresh.ttl.min(longest));
    Packer::plain(b'R').raw(&id(refresh.ticket.id)).eight(ttl).done()
}

/// The same for a script that serves nothing but renewals.
pub(super) fn plain_renewal(refresh: &Refresh, longest: Duration) -> [u8; 24] {
    let (id, ttl) = (id(refresh.ticket.id), millis(refresh.ttl.min(longest)).to_be_bytes());
    std::array::from_fn(|at| if at < 16 { id[at] } else { ttl[at - 16] })
}

/// Ends a lease; what is stored with it has to be of the same shard.
pub(super) fn release(lease: LeaseId, ending: &Ending) -> Vec<u8> {
    let closed = ending.keep_closed.map_or(0, millis);
    let store = ending.store.as_ref();
    if ending.is_plain() && store.is_none() {
        return Packer::plain(b'U').raw(&id(lease)).done();
    }
    if let Some((value, ttl)) = filed(ending) {
        return Packer::plain(b'S').raw(&id(lease)).eight(millis(ttl)).bytes(value).done();
    }
    general(if store.is_some() { 5 } else { 2 }, 9)
        .bytes("u")
        .bytes(id(lease))
        .number(closed)
        .number(u64::from(ending.cut_off))
        .maybe(store.map(|store| store.name.as_str()))
        .maybe(store.and_then(|store| store.value.as_ref()))
        .number(store.and_then(|store| store.ttl).map_or(0, millis))
        .flag(false)
        .flag(ending.unseen)
        .done()
}

/// What a release stores and nobody lists, if that is all it does.
pub(super) fn filed(ending: &Ending) -> Option<(&[u8], Duration)> {
    let store = ending.store.as_ref()?;
    let alone = ending.is_plain() && store.is_unlisted();
    store.value.as_deref().zip(store.ttl).filter(|_| alone)
}

/// A verb that the quick part of the script does not know: how many keys it
/// has, and so many items.
fn general(keys: u8, items: u16) -> Packer {
    Packer::plain(keys).array(items)
}

/// Whether a lease is held; and that a record goes with it.
pub(super) fn bind(lease: LeaseId, record: &Name) -> Vec<u8> {
    general(2, 3).bytes("b").bytes(id(lease)).bytes(full(record)).done()
}

/// Whether a lease is held.
pub(super) fn holds(lease: LeaseId) -> Vec<u8> {
    general(2, 2).bytes("h").bytes(id(lease)).done()
}

pub(super) fn convert(lease: LeaseId, to: Mode) -> Vec<u8> {
    let (mode, take, of) = numbers(to);
    general(2, 5).bytes("c").bytes(id(lease)).number(mode).number(take).number(of).done()
}

pub(super) fn evict(eviction: &Eviction) -> Vec<u8> {
    let verb = general(2, 5).bytes("e");
    let verb = match eviction.target {
        Target::Fence(fence) => verb.number(fence).nothing(),
        Target::Lease(lease) => verb.nothing().bytes(id(lease)),
        Target::All => verb.nothing().nothing(),
    };
    verb.bytes(&*eviction.actor).bytes(&*eviction.reason).done()
}

pub(super) fn look() -> Vec<u8> {
    general(2, 1).bytes("i").done()
}

pub(super) fn id(lease: LeaseId) -> [u8; 16] {
    lease.to_bits().to_be_bytes()
}

pub(super) fn lease_id(bytes: Vec<u8>) -> Result<LeaseId> {
    let bytes: [u8; 16] = bytes.try_into().map_err(|_| garbled())?;
    Ok(LeaseId::from_bits(u128::from_be_bytes(bytes)))
}

/// A name with its namespace; neither has a line break.
pub(super) fn full(name: &Name) -> String {
    format!("{}\n{name}", name.namespace())
}

pub(super) fn name(full: &str) -> Result<Name> {
    let (space, text) = full.split_once('\n').ok_or_else(garbled)?;
    Name::new(&Namespace::new(space)?, text)
}

/// The names that a script packs.
pub(super) fn names(packed: &[u8]) -> Result<Vec<Name>> {
    Item::unpack(packed)?.array()?.map(|item| name(&item.text()?)).collect()
}

/// A hundred years, in milliseconds: what no server outlives, and every number of
/// a script has room for.
const FOR_EVER: u64 = 100 * 365 * 24 * 60 * 60 * 1000;

/// Rounded up: nobody gets less than was asked for, up to [`FOR_EVER`].
pub(super) fn millis(span: Duration) -> u64 {
    if mutant::lives(Mutant::EndlessSpans) {
        return u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    }
    let millis = span.as_nanos().div_ceil(1_000_000);
    u64::try_from(millis).map_or(FOR_EVER, |millis| millis.min(FOR_EVER))
}

fn numbers(mode: Mode) -> (u64, u64, u64) {
    match mode {
        Mode::Exclusive => (1, 0, 0),
        Mode::Read => (2, 0, 0),
        Mode::Write => (3, 0, 0),
        Mode::Permits { take, of } => (4, take.into(), of.into()),
    }
}

fn mode(items: &mut Items) -> Result<Mode> {
    let (mode, take, of) = (items.number()?, items.number()?, items.number()?);
    let count = |n: u64| u32::try_from(n).map_err(|_| garbled());
    Ok(match mode {
        1 => Mode::Exclusive,
        2 => Mode::Read,
        3 => Mode::Write,
        4 => Mode::Permits { take: count(take)?, of: count(of)? },
        _ => return Err(garbled()),
    })
}

fn predecessor(number: u64) -> Result<Predecessor> {
    Ok(match number {
        0 => Predecessor::None,
        1 => Predecessor::Released,
        2 => Predecessor::Expired,
        3 => Predecessor::Evicted,
        _ => return Err(garbled()),
    })
}

fn span(items: &mut Items) -> Result<Duration> {
    items.number().map(Duration::from_millis)
}

fn answer(packed: &[u8]) -> Result<Answer> {
    let mut items = Item::unpack(packed)?.array()?;
    Ok(match items.number()? {
        1 => Answer::Granted {
            fence: items.number()?,
            ttl: span(&mut items)?,
            predecessor: predecessor(items.number()?)?,
        },
        2 => busy(&mut items)?,
        3 => Answer::OtherKind(mode(&mut items)?),
        4 => Answer::Held { ttl: span(&mut items)? },
        5 => Answer::Queued { ttl: span(&mut items)? },
        6 => Answer::Gone,
        7 => Answer::Released,
        _ => return Err(garbled()),
    })
}

fn busy(items: &mut Items) -> Result<Answer> {
    let recheck_in = span(items)?;
    let placed = u64::try_from(items.signed()?).ok().map(Duration::from_millis);
    let holder = match items.item()? {
        Item::Nothing => None,
        other => Some(held(other)?),
    };
    Ok(Answer::Busy { holder: holder.map(as_holder), recheck_in, placed })
}

fn as_holder(held: Held) -> Holder {
    let mut holder = Holder::new(held.label);
    (holder.fence, holder.held_for, holder.time_left) = (held.fence, held.held_for, held.time_left);
    holder
}

/// The answer to an eviction.
pub(super) fn taken(packed: &[u8]) -> Result<Vec<Held>> {
    let mut items = Item::unpack(packed)?.array()?;
    expect(&mut items, 8)?;
    items.array()?.map(held).collect()
}

/// The answer to a look.
pub(super) fn status(name: Name, packed: &[u8]) -> Result<Status> {
    let mut items = Item::unpack(packed)?.array()?;
    expect(&mut items, 9)?;
    let mut status = Status::new(name);
    status.holders = items.array()?.map(held).collect::<Result<_>>()?;
    status.waiters = items.array()?.map(queued).collect::<Result<_>>()?;
    status.closed_for = Some(span(&mut items)?).filter(|left| !left.is_zero());
    status.last = match items.item()? {
        Item::Nothing => None,
        other => Some(last(&mut other.array()?)?),
    };
    Ok(status)
}

fn expect(items: &mut Items, kind: u64) -> Result<()> {
    if items.number()? == kind { Ok(()) } else { Err(garbled()) }
}

fn held(item: Item) -> Result<Held> {
    let mut items = item.array()?;
    Ok(Held {
        label: items.text()?.into(),
        mode: mode(&mut items)?,
        fence: Some(items.number()?),
        held_for: Some(span(&mut items)?),
        time_left: Some(span(&mut items)?),
        meta: items.item()?.maybe_text()?.map(Arc::from),
    })
}

fn queued(item: Item) -> Result<Queued> {
    let held = held(item)?;
    Ok(Queued { label: held.label, mode: held.mode, waiting_for: held.held_for })
}

fn last(items: &mut Items) -> Result<Last> {
    Ok(Last {
        label: items.text()?.into(),
        fence: items.number()?,
        ended: predecessor(items.number()?)?,
        ago: span(items)?,
        remark: items.item()?.maybe_text()?.map(Arc::from),
    })
}

/// What a client is told without having asked.
#[derive(Debug)]
pub(super) enum PushedNews {
    /// A waiter holds the name now.
    Granted { id: LeaseId, fence: u64, predecessor: Predecessor },
    /// A lease was taken away.
    Evicted { id: LeaseId, actor: Arc<str>, reason: Arc<str> },
}

pub(super) fn news(packed: &[u8]) -> Result<PushedNews> {
    let mut items = Item::unpack(packed)?.array()?;
    let kind = items.number()?;
    let id = lease_id(items.bytes()?)?;
    Ok(match kind {
        1 => PushedNews::Granted {
            id,
            fence: items.number()?,
            predecessor: predecessor(items.number()?)?,
        },
        2 => PushedNews::Evicted { id, actor: items.text()?.into(), reason: items.text()?.into() },
        _ => return Err(garbled()),
    })
}

/// What a script says to one verb.
#[derive(Debug)]
pub(super) enum ScriptAnswer {
    /// The fence of a grant, exactly as asked for; 0 for released.
    Plain(u64),
    Packed(Vec<u8>),
    /// There is no such record.
    Nothing,
}

impl ScriptAnswer {
    pub(super) fn packed(&self) -> Result<&[u8]> {
        match self {
            Self::Plain(_) | Self::Nothing => Err(garbled()),
            Self::Packed(packed) => Ok(packed),
        }
    }

    /// The answer to a verb that changes one lease and asked for `ttl`.
    pub(super) fn answer(&self, ttl: Duration) -> Result<Answer> {
        match self {
            Self::Plain(0) => Ok(Answer::Released),
            Self::Plain(fence) => {
                Ok(Answer::Granted { fence: *fence, ttl, predecessor: Predecessor::None })
            }
            Self::Packed(packed) => answer(packed),
            Self::Nothing => Err(garbled()),
        }
    }
}

/// One verb's answer, with when its request left.
#[derive(Debug)]
pub(super) struct TimedAnswer {
    pub(super) said: ScriptAnswer,
    pub(super) sent_at: Moment,
    /// How many replicas know of it, if that was asked for.
    pub(super) acknowledged: Option<u64>,
}

impl TimedAnswer {
    /// To a verb that asks for no time.
    pub(super) fn answer(&self) -> Result<Answer> {
        self.said.answer(Duration::ZERO)
    }

    /// To a claim or a renewal that waits: the largest fence that was not granted
    /// to the place it has now.
    pub(super) fn floor(&self) -> Result<u64> {
        let ScriptAnswer::Packed(packed) = &self.said else { return Ok(0) };
        let mut items = Item::unpack(packed)?.array()?;
        match items.number()? {
            2 => items.nth(3).map_or_else(|| Err(garbled()), Item::number),
            5 => items.nth(1).map_or_else(|| Err(garbled()), Item::number),
            _ => Ok(0),
        }
    }

    /// Who took the lease away and why, if it was and nothing came since.
    pub(super) fn evicted(&self) -> Option<Loss> {
        let mut items = Item::unpack(self.said.packed().ok()?).ok()?.array().ok()?;
        expect(&mut items, 6).ok()?;
        let (actor, reason) = (items.text().ok()?, items.text().ok()?);
        Some(Loss::Evicted { actor: actor.into(), reason: reason.into() })
    }

    /// The record that a claim has loaded, as it is packed.
    pub(super) fn loaded(&self) -> Result<Option<Vec<u8>>> {
        let ScriptAnswer::Packed(packed) = &self.said else { return Ok(None) };
        let mut items = Item::unpack(packed)?.array()?;
        items.nth(4).map_or(Ok(None), Item::maybe_bytes)
    }

    /// The record that a claim was answered with instead of a grant.
    pub(super) fn found(&self) -> Result<Option<Vec<u8>>> {
        let ScriptAnswer::Packed(packed) = &self.said else { return Ok(None) };
        let mut items = Item::unpack(packed)?.array()?;
        if items.number()? == 10 { items.bytes().map(Some) } else { Ok(None) }
    }
}

/// The request was never sent, because the engine is closed.
pub(super) fn closed() -> Error {
    Error::new(ErrorKind::Unavailable, "the engine is closed; open it again")
}
