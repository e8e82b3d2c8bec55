//! A shop in two processes, and a load that tries to break it.
//!
//! ```sh
//! cargo run -p leasehold-http --features axum --example shop
//! ```
//!
//! starts two servers over one SQLite file, sends every order to both of them,
//! hangs up on some, and counts. Double submits, repeated requests, order
//! brushing and overselling must not show in the count, or it fails.
//!
//! `shop serve PORT ENGINE-URL` is one server, to be looked at with a browser.
#![allow(clippy::disallowed_methods, reason = "an application has tasks and clocks of its own")]
#![allow(clippy::print_stdout, reason = "it says what it has found")]

mod http;
mod load;
mod server;

/// How many things there are to sell.
const STOCK: u32 = 50;

type Done<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Done {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", port, engine] => server::serve(port.parse()?, engine).await,
        _ => load::run().await,
    }
}
