//! Many leases are due at once, and somebody else asks for something.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use leasehold::claim::{Claim, Refresh, Renewal, Ticket, Verdict};
use leasehold::{Locks, Mode, Owner};
use leasehold_testkit::server::{Server, ask};

use super::{BOUND, Checked, LONG};

const LEASES: usize = 10_000;
/// No more are on their way before somebody else's claim.
const AHEAD: usize = 1_100;

fn ticket(locks: &Locks, text: &str) -> Checked<Ticket> {
    Ok(Ticket::new(locks.name(text)?, Mode::Exclusive))
}

fn claim(ticket: &Ticket) -> Claim {
    Claim::new(ticket.clone(), Owner::new("me"), LONG)
}

async fn take(locks: &Locks, count: usize) -> Checked<Vec<Ticket>> {
    let mut tickets = Vec::new();
    for part in 0..count / 1_000 {
        let mut asked = Vec::new();
        for n in 0..1_000 {
            let ticket = ticket(locks, &format!("lease/{}", 1_000 * part + n))?;
            asked.push(tokio::spawn(locks.engine().acquire(claim(&ticket))));
            tickets.push(ticket);
        }
        for asked in asked {
            assert!(matches!(asked.await??, Verdict::Granted(_)));
        }
    }
    Ok(tickets)
}

/// Everything that clients ask a server for, as it serves it.
fn monitor(server: &Server) -> Checked<impl Iterator<Item = String> + Send + 'static> {
    let mut stream = TcpStream::connect(server.addr())?;
    stream.set_read_timeout(Some(BOUND))?;
    stream.write_all(b"MONITOR\r\n")?;
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    assert_eq!(lines.next().as_deref(), Some("+OK"));
    Ok(lines)
}

/// How many renewals are served before a call with `word` in it.
fn before(lines: impl Iterator<Item = String>, word: &str) -> usize {
    let calls = lines.filter(|line| line.contains("\"EVALSHA\"") || line.contains("\"EVAL\""));
    let ahead = calls.take_while(|call| !call.contains(word));
    ahead.map(|call| call.matches("name:lease/").count()).sum()
}

/// R25: ten thousand renewals wait when somebody asks for a free name. They do
/// not all come before it: it is in the next call that leaves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_does_not_wait_for_all_renewals() -> Checked {
    let server = Server::redis()?;
    let locks = leasehold::open(server.url()).await?;
    let tickets = take(&locks, LEASES).await?;
    let lines = monitor(&server)?;
    let counted = tokio::task::spawn_blocking(move || before(lines, "name:free"));
    ask(&server, &["CLIENT", "PAUSE", "500", "ALL"])?;
    let refreshes = tickets.into_iter().map(|ticket| Refresh::new(ticket, LONG)).collect();
    let renewing = tokio::spawn(locks.engine().renew(refreshes));
    // Time for what can leave to leave.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let verdict = locks.engine().acquire(claim(&ticket(&locks, "free")?)).await?;
    assert!(matches!(verdict, Verdict::Granted(_)));
    let ahead = counted.await?;
    assert!(ahead > 0, "no renewal was on its way: the test tests nothing");
    assert!(ahead <= AHEAD, "{ahead} renewals came first");
    let renewals = renewing.await?;
    assert!(renewals.iter().all(|it| matches!(it, Renewal::Held { .. })));
    assert_eq!(renewals.len(), LEASES);
    Ok(())
}
