//! Readers, writers and permits, straight on the engine.

use leasehold::claim::{Claim, Renewal};
use leasehold::engine::profile::{Grants, Order};
use leasehold::{ErrorKind, Mode, Released};

use super::check::{Check, Outcome, check, ensure};
use super::direct::Direct;
use super::store::Store;

pub(super) fn checks() -> Vec<Check> {
    let shared = [check!(readers_share), check!(a_writer_is_alone), check!(kinds_do_not_mix)];
    let converts = [
        check!(a_writer_becomes_a_reader_without_letting_go),
        check!(a_conversion_lets_no_writer_in),
        check!(a_reader_does_not_become_a_writer),
        check!(what_is_not_held_is_not_converted),
        check!(a_repeated_conversion_is_answered_as_the_first),
    ];
    let counted = [check!(permits_add_up), check!(permits_of_another_number_do_not_mix)];
    let fifo = [check!(readers_do_not_starve_a_writer), check!(small_takers_do_not_starve_a_large)];
    let mut checks = shared.map(|it| it.when(|p| p.grants >= Grants::Shared)).to_vec();
    checks.extend(converts.map(|it| it.when(|p| p.convert)));
    checks.extend(counted.map(|it| it.when(|p| p.grants >= Grants::Counted)));
    checks
        .extend(fifo.map(|it| it.when(|p| p.grants >= Grants::Counted && p.order == Order::Fifo)));
    checks
}

const fn permits(take: u32, of: u32) -> Mode {
    Mode::Permits { take, of }
}

/// Takes it, or fails.
async fn hold(direct: &Direct, mode: Mode) -> Outcome<Claim> {
    let claim = direct.claim(mode);
    direct.granted(claim.clone()).await?;
    Ok(claim)
}

async fn readers_share(store: Store) -> Outcome {
    let (one, two) = (Direct::new(&store).await?, Direct::new(&store).await?);
    for direct in [&one, &two, &one] {
        hold(direct, Mode::Read).await?;
    }
    one.busy(one.claim(Mode::Write)).await?;
    ensure!(one.census().await? == (3, 0), "{:?}", one.census().await?);
    Ok(())
}

async fn a_writer_is_alone(store: Store) -> Outcome {
    let direct = Direct::new(&store).await?;
    let writer = hold(&direct, Mode::Write).await?;
    direct.busy(direct.claim(Mode::Read)).await?;
    direct.busy(direct.claim(Mode::Write)).await?;
    direct.release(&writer.ticket).await?;
    hold(&direct, Mode::Read).await?;
    Ok(())
}

async fn a_writer_becomes_a_reader_without_letting_go(store: Store) -> Outcome {
    let direct = Direct::new(&store).await?;
    let writer = hold(&direct, Mode::Write).await?;
    let waiting = direct.waiting(Mode::Read);
    direct.busy(waiting.clone()).await?;
    let converted = direct.engine.convert(writer.ticket.clone(), Mode::Read).await?;
    ensure!(matches!(converted, Renewal::Held { .. }), "{converted:?}");
    direct.granted(waiting).await?;
    direct.busy(direct.claim(Mode::Write)).await?;
    direct.release(&writer.ticket.in_mode(Mode::Read)).await?;
    ensure!(direct.census().await? == (1, 0), "{:?}", direct.census().await?);
    Ok(())
}

async fn a_conversion_lets_no_writer_in(store: Store) -> Outcome {
    let direct = Direct::new(&store).await?;
    let (writer, next) = (hold(&direct, Mode::Write).await?, direct.waiting(Mode::Write));
    direct.busy(next.clone()).await?;
    let converted = direct.engine.convert(writer.ticket.clone(), Mode::Read).await?;
    ensure!(matches!(converted, Renewal::Held { .. }), "{converted:?}");
    direct.busy(next.clone()).await?;
    direct.release(&writer.ticket.in_mode(Mode::Read)).await?;
    direct.granted(next).await?;
    Ok(())
}

async fn a_reader_does_not_become_a_writer(store: Store) -> Outcome {
    let direct = Direct::new(&store).await?;
    let reader = hold(&direct, Mode::Read).await?;
    let error = direct.engine.convert(reader.ticket, Mode::Write).await.err();
    ensure!(error.is_some_and(|it| it.kind() == ErrorKind::Invalid), "it was converted");
    hold(&direct, Mode::Read).await?;
    Ok(())
}

async fn what_is_not_held_is_not_converted(store: Store) -> Outcome {
    let direct = Direct::new(&store).await?;
    let nobody = direct.claim(Mode::Write).ticket;
    let answer = direct.engine.convert(nobody, Mode::Read).await?;
    ensure!(matches!(answer, Renewal::Gone), "{answer:?}");
    ensure!(direct.census().await? == (0, 0), "the conversion took the name");
    Ok(())
}

/// As if the reply to the first had been lost: the ticket still says `write`.
async fn a_repeated_conversion_is_answered_as_the_first(store: Store) -> Outcome {
    let direct = Direct::new(&store).await?;
    let writer = hold(&direct, Mode::Write).await?;
    for _ in 0..2 {
        let converted = direct.engine.convert(writer.ticket.clone(), Mode::Read).await?;
        ensure!(matches!(converted, Renewal::Held { .. }), "{converted:?}");
    }
    hold(&direct, Mode::Read).await?;
    direct.busy(direct.claim(Mode::Write)).await?;
    let released = direct.release(&writer.ticket.in_mode(Mode::Read)).await?;
    ensure!(released == Released::Released, "{released:?}");
    ensure!(direct.census().await? == (1, 0), "{:?}", direct.census().await?);
    Ok(())
}

async fn kinds_do_not_mix(store: Store) -> Outcome {
    let direct = Direct::new(&store).await?;
    for (held, other) in [(Mode::Exclusive, Mode::Read), (Mode::Write, Mode::Exclusive)] {
        let claim = hold(&direct, held).await?;
        direct.invalid(direct.claim(other)).await?;
        direct.invalid(direct.waiting(other)).await?;
        ensure!(direct.census().await? == (1, 0), "it queued");
        direct.release(&claim.ticket).await?;
        let claim = hold(&direct, other).await?;
        direct.release(&claim.ticket).await?;
    }
    Ok(())
}

async fn permits_add_up(store: Store) -> Outcome {
    let direct = Direct::new(&store).await?;
    let two = hold(&direct, permits(2, 5)).await?;
    hold(&direct, permits(2, 5)).await?;
    direct.busy(direct.claim(permits(2, 5))).await?;
    hold(&direct, permits(1, 5)).await?;
    direct.busy(direct.claim(permits(1, 5))).await?;
    direct.release(&two.ticket).await?;
    hold(&direct, permits(2, 5)).await?;
    ensure!(direct.census().await? == (3, 0), "{:?}", direct.census().await?);
    Ok(())
}

async fn permits_of_another_number_do_not_mix(store: Store) -> Outcome {
    let direct = Direct::new(&store).await?;
    let claim = hold(&direct, permits(1, 5)).await?;
    direct.invalid(direct.claim(permits(1, 6))).await?;
    direct.invalid(direct.claim(Mode::Read)).await?;
    direct.release(&claim.ticket).await?;
    hold(&direct, permits(1, 6)).await?;
    Ok(())
}

async fn readers_do_not_starve_a_writer(store: Store) -> Outcome {
    does_not_starve(&Direct::new(&store).await?, Mode::Read, Mode::Write).await
}

async fn small_takers_do_not_starve_a_large(store: Store) -> Outcome {
    does_not_starve(&Direct::new(&store).await?, permits(1, 3), permits(3, 3)).await
}

/// Once a large claim waits, small ones that would fit wait behind it.
async fn does_not_starve(direct: &Direct, small: Mode, large: Mode) -> Outcome {
    let (first, second) = (hold(direct, small).await?, hold(direct, small).await?);
    let (waits, behind) = (direct.waiting(large), direct.waiting(small));
    direct.busy(waits.clone()).await?;
    direct.busy(direct.claim(small)).await?;
    direct.busy(behind.clone()).await?;
    direct.release(&first.ticket).await?;
    direct.release(&second.ticket).await?;
    direct.granted(waits.clone()).await?;
    direct.busy(behind.clone()).await?;
    direct.release(&waits.ticket).await?;
    direct.granted(behind).await?;
    Ok(())
}
