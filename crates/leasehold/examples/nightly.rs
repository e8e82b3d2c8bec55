//! A nightly job that is shared out among the members of a group: each takes the
//! parts that fall to the rank of its id. Whoever joins or leaves changes the shares.
//!
//! ```sh
//! cargo run -p leasehold --features full --example nightly
//! ```
//!
//! Shares are a plan and no lock: for a moment two members may see two groups. So
//! each part is done under its lock, and it is written down that it was done.

#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use leasehold::{Group, Locks, Member, Membership, Result};

const PARTS: usize = 12;

/// Which parts are whose: as many shares as there are members, dealt out in turn.
fn share(members: &[Member], id: &str) -> Vec<usize> {
    match members.iter().position(|member| &*member.id == id) {
        Some(rank) => (rank..PARTS).step_by(members.len()).collect(),
        None => Vec::new(),
    }
}

/// Does a part, unless somebody else is at it or has done it; whether we have.
async fn do_part(locks: &Locks, part: usize, id: &str) -> Result<bool> {
    let name = format!("nightly/part/{part}");
    let Some(guard) = locks.mutex(&name).try_lock().await? else { return Ok(false) };
    let done_by = locks.record::<String>(&name);
    let open = done_by.get().await?.is_none();
    if open {
        // Here is the work. What it writes to compares `guard.fence()`.
        done_by.set(&id.to_owned()).await?;
    }
    guard.release().await?;
    Ok(open)
}

/// One look at the group, and the share that follows from it; how many parts we did.
async fn shift(locks: &Locks, workers: &Group, id: &str) -> Result<usize> {
    let members = workers.members().await?;
    let mut done = Vec::new();
    for part in share(&members, id) {
        if do_part(locks, part, id).await? {
            done.push(part);
        }
    }
    println!("{id}, one of {}, did {done:?}", members.len());
    Ok(done.len())
}

async fn join(workers: &Group, id: &str) -> Result<Membership> {
    workers.join(id, "on duty tonight").await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let locks = Locks::memory();
    let workers = locks.group("nightly/workers");
    let (one, two) = (join(&workers, "node-1").await?, join(&workers, "node-2").await?);
    let three = join(&workers, "node-3").await?;

    let mut done = shift(&locks, &workers, "node-1").await?;
    done += shift(&locks, &workers, "node-3").await?;
    assert_eq!(done, 8, "a third each");

    println!("node-2 leaves before it has begun");
    two.leave().await?;
    done += shift(&locks, &workers, "node-1").await?;
    done += shift(&locks, &workers, "node-3").await?;
    assert_eq!(done, PARTS, "its share has fallen to the others");
    drop((one, three));
    Ok(())
}
