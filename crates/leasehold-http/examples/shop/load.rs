//! The load: every order goes to both servers, several times.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::task::JoinSet;

use crate::http::{ask, send};
use crate::{Done, STOCK};

/// How many customers come each way: more than there are things to sell.
const CUSTOMERS: u32 = 25;

pub(crate) async fn run() -> Done {
    let folder = tempfile::tempdir()?;
    let engine = format!("sqlite:{}", folder.path().join("shop.db").display());
    let ports = [free_port()?, free_port()?];
    let mut servers = [start(ports[0], &engine)?, start(ports[1], &engine)?];
    for (server, port) in servers.iter_mut().zip(ports) {
        opens(server, port).await?;
    }
    let mut customers = JoinSet::new();
    for customer in 0..CUSTOMERS {
        customers.spawn(clicks_twice(ports, format!("form {customer}")));
        customers.spawn(asks_again(ports, format!("api {customer}")));
        customers.spawn(sends_no_key(ports, format!("app {customer}")));
    }
    let mut answers = Vec::new();
    while let Some(answer) = customers.join_next().await {
        answers.push(answer??);
    }
    check(&answers, &ask(ports[0], "GET", "/stock", &[], "").await?.1)
}

/// One order per customer, each thing sold once, and nobody left in doubt.
fn check(answers: &[String], stock: &str) -> Done {
    let orders: Vec<_> = answers.iter().filter(|it| it.starts_with("order ")).collect();
    let numbers: BTreeSet<_> = orders.iter().collect();
    let sold_out = answers.iter().filter(|it| *it == "sold out").count();
    println!("{} customers, {} orders, {sold_out} sold out", answers.len(), orders.len());
    println!("stock and orders by the books: {stock}");
    let sold = usize::try_from(STOCK)?.min(answers.len());
    let fine = orders.len() == sold
        && numbers.len() == sold
        && sold_out == answers.len() - sold
        && stock == format!("{} {sold}", usize::try_from(STOCK)? - sold);
    if fine { Ok(()) } else { Err("it does not add up".into()) }
}

/// A form that is sent to both servers at the same moment.
async fn clicks_twice(ports: [u16; 2], customer: String) -> Done<String> {
    let who = [("customer", customer)];
    let page = ask(ports[0], "GET", "/", &who, "").await?.1;
    let token = page.split("value=").nth(1).and_then(|it| it.split('>').next());
    let form = format!("one_time_token={}", token.ok_or("no token")?);
    same(ports.map(|port| ask(port, "POST", "/form", &who, &form))).await
}

/// A client that hangs up, and then asks both servers again with its key.
async fn asks_again(ports: [u16; 2], customer: String) -> Done<String> {
    let key = format!("\"{customer}\"");
    let headers = [("customer", customer), ("idempotency-key", key)];
    drop(send(ports[1], "POST", "/api", &headers, "{}").await?);
    same(ports.map(|port| ask(port, "POST", "/api", &headers, "{}"))).await
}

/// An app that sends its own time, and clicks again three seconds later.
async fn sends_no_key(ports: [u16; 2], customer: String) -> Done<String> {
    let click = |at: &str| {
        [("customer", customer.clone()), ("device", "phone".into()), ("clicked-at", at.into())]
    };
    // On two sides of a full minute.
    let clicks = [click("1700000039000"), click("1700000042000")];
    let [first, second] = [0, 1].map(|n| ask(ports[n], "POST", "/app", &clicks[n], ""));
    same([first, second]).await
}

/// What both say, which must be the same.
async fn same<F: Future<Output = Done<(u16, String)>>>(asked: [F; 2]) -> Done<String> {
    let [first, second] = asked;
    let (first, second) = tokio::join!(first, second);
    let (first, second) = (first?, second?);
    if first != second || first.0 != 200 {
        return Err(format!("{first:?} and {second:?}").into());
    }
    Ok(first.1)
}

fn start(port: u16, engine: &str) -> Done<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["serve", &port.to_string(), engine]).stdin(Stdio::null()).kill_on_drop(true);
    Ok(command.spawn()?)
}

/// Waits until a server answers, or has ended.
async fn opens(server: &mut Child, port: u16) -> Done {
    while ask(port, "GET", "/stock", &[], "").await.is_err() {
        if let Some(status) = server.try_wait()? {
            return Err(format!("a server ended at once: {status}").into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

fn free_port() -> Done<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
