//! Two processes sell from one stock: first without a lock, then with one.
//!
//! ```sh
//! cargo run -p leasehold --features sqlite --example oversell
//! ```
//!
//! The stock is a number in a plain file. A sale reads it, thinks for a moment
//! and writes it back one lower, so two sellers that read the same number sell
//! the same item. The program starts itself again as its two sellers.
//!
//! It ends with an error if the locked sellers sold too much, or if the
//! unlocked ones did not: then it has shown nothing.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example talks to its reader")]
#![allow(clippy::disallowed_methods, reason = "the sellers think, and a lease is left to expire")]

use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader, Write, stdin};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::Duration;

use leasehold::{Guard, Locks};

/// How many items there are; a seller stops after as many, come what may.
const STOCK: u32 = 20;
/// How long a seller thinks about a sale.
const THINKING: Duration = Duration::from_millis(5);
/// Nobody waits longer than this for anything.
const PATIENCE: Duration = Duration::from_secs(20);

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["seller", folder, how] => seller(&Shop::at(folder), how == "locked").map(|()| true),
        _ => show(),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the three parts and says whether each showed what it should.
fn show() -> Outcome<bool> {
    let folder = tempfile::tempdir()?;
    let shop = Shop::at(folder.path());
    println!("{STOCK} items, two processes that sell them\n");
    let without = sell_out(&shop, "unlocked")?;
    let with = sell_out(&shop, "locked")?;
    println!();
    let refused = runtime()?.block_on(late_write(&shop))?;
    Ok(without > STOCK && with == STOCK && refused)
}

/// Lets two sellers loose on a full stock; how many items they sold.
fn sell_out(shop: &Shop, how: &str) -> Outcome<u32> {
    shop.store(Stock { left: STOCK, fence: 0 })?;
    let mut sellers = [Seller::start(shop, how)?, Seller::start(shop, how)?];
    // Both stand ready before either may begin, so that they really compete.
    for seller in &mut sellers {
        seller.hear()?;
    }
    for seller in &mut sellers {
        seller.tell("go")?;
    }
    let mut sold = Vec::new();
    for seller in &mut sellers {
        sold.push(seller.hear()?.parse::<u32>()?);
    }
    let (total, left) = (sold.iter().sum(), shop.load()?.left);
    let verdict = if total > STOCK { "OVERSOLD" } else { "right" };
    println!("{how:<8}  sold {:>2} + {:>2} = {total:>2}, left {left}: {verdict}", sold[0], sold[1]);
    Ok(total)
}

/// A seller, as the process that started it sees it.
struct Seller {
    process: Child,
    says: BufReader<std::process::ChildStdout>,
}

impl Seller {
    fn start(shop: &Shop, how: &str) -> Outcome<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("seller").arg(&shop.folder).arg(how);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let says = BufReader::new(process.stdout.take().ok_or("the seller has no voice")?);
        Ok(Self { process, says })
    }

    fn tell(&mut self, word: &str) -> Outcome<()> {
        let ear = self.process.stdin.as_mut().ok_or("the seller has no ear")?;
        Ok(writeln!(ear, "{word}")?)
    }

    /// The next line it says; an error if it has ended instead.
    fn hear(&mut self) -> Outcome<String> {
        let mut line = String::new();
        match self.says.read_line(&mut line)? {
            0 => Err("a seller has failed".into()),
            _ => Ok(line.trim().to_owned()),
        }
    }
}

impl Drop for Seller {
    fn drop(&mut self) {
        // It has said its last word, or something went wrong: it ends either way.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What a seller does, in a process of its own.
fn seller(shop: &Shop, locked: bool) -> Outcome<()> {
    runtime()?.block_on(async {
        let locks = if locked { Some(shop.open().await?) } else { None };
        println!("ready");
        stdin().read_line(&mut String::new())?;
        let sold = sell(shop, locks.as_ref()).await?;
        println!("{sold}");
        Ok(())
    })
}

async fn sell(shop: &Shop, locks: Option<&Locks>) -> Outcome<u32> {
    for sold in 0..STOCK {
        let guard = match locks {
            Some(locks) => Some(locks.mutex("stock").lock().within(PATIENCE).await?),
            None => None,
        };
        let stock = shop.load()?;
        if stock.left == 0 {
            return Ok(sold);
        }
        sleep(THINKING);
        // Without a lock there is no fence, and nothing for the shop to refuse.
        let fence = guard.as_ref().map_or(0, Guard::fence);
        shop.store(Stock { left: stock.left - 1, fence })?;
        if let Some(guard) = guard {
            guard.release().await?;
        }
    }
    Ok(STOCK)
}

/// A holder that slept through the end of its lease writes too late. Its guard
/// knows, if it is asked; the shop refuses it, whether it is asked or not.
async fn late_write(shop: &Shop) -> Outcome<bool> {
    let stock = shop.open().await?.mutex("stock");
    let sleeper = stock.clone().ttl(Duration::from_millis(100)).renew(false).lock().await?;
    println!("fence {}: takes the lock and falls asleep", sleeper.fence());
    sleep(Duration::from_millis(200));

    let next = stock.lock().within(PATIENCE).await?;
    shop.store(Stock { left: 10, fence: next.fence() })?;
    println!("fence {}: takes the lock, writes 10", next.fence());

    let knows = sleeper.check().is_err_and(|error| error.is_lost());
    println!("fence {}: wakes up; its guard says it is lost: {knows}", sleeper.fence());
    let late = shop.store(Stock { left: 99, fence: sleeper.fence() });
    let Err(refusal) = late else { return Ok(false) };
    println!("fence {}: writes 99 all the same: {refusal}", sleeper.fence());
    Ok(knows && shop.load()?.left == 10)
}

/// The stock, and the largest fence that ever wrote it.
#[derive(Clone, Copy)]
struct Stock {
    left: u32,
    fence: u64,
}

struct Shop {
    folder: PathBuf,
}

impl Shop {
    fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    async fn open(&self) -> leasehold::Result<Locks> {
        leasehold::open(format!("sqlite:{}", self.folder.join("locks.db").display())).await
    }

    fn load(&self) -> Outcome<Stock> {
        let text = fs::read_to_string(self.folder.join("stock"))?;
        let (left, fence) = text.split_once(' ').ok_or("the stock is damaged")?;
        Ok(Stock { left: left.parse()?, fence: fence.parse()? })
    }

    /// Writes, unless someone with a larger fence was here. A file cannot do
    /// both in one step; a database can, and should: `WHERE fence <= ?`.
    fn store(&self, stock: Stock) -> Outcome<()> {
        if let Ok(Stock { fence, .. }) = self.load()
            && stock.fence != 0
            && stock.fence < fence
        {
            return Err(format!("refused, fence {fence} was here").into());
        }
        // A rename, so that nobody reads half a number.
        let draft = self.folder.join(format!("draft-{}", std::process::id()));
        fs::write(&draft, format!("{} {}", stock.left, stock.fence))?;
        Ok(fs::rename(draft, self.folder.join("stock"))?)
    }
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}
