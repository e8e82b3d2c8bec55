//! Idempotency keys for HTTP services, on any engine of Leasehold.
//!
//! [`IdempotencyLayer`] is a tower layer that follows the [Idempotency-Key header
//! draft]: a request that a client repeats with the same key runs once, and every
//! repeat gets the first response, byte for byte. With the feature `axum`, the
//! module `tokens` has routes that issue and redeem one-time tokens for forms.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use axum::body::Body;
//! use axum::{Router, routing::post};
//! use http::{Request, StatusCode};
//! use leasehold::Locks;
//! use leasehold_http::{IdempotencyLayer, REPLAYED};
//! use tower::ServiceExt;
//!
//! let payments = Locks::memory().once("payments");
//! let app: Router = Router::new()
//!     .route("/pay", post(async || (StatusCode::CREATED, "paid")))
//!     .layer(IdempotencyLayer::draft(payments));
//!
//! let ask = || Request::post("/pay").header("idempotency-key", "\"k1\"").body(Body::empty());
//! let first = app.clone().oneshot(ask()?).await?;
//! let again = app.clone().oneshot(ask()?).await?;
//! assert_eq!((first.status(), again.status()), (StatusCode::CREATED, StatusCode::CREATED));
//! assert!(first.headers().get(REPLAYED).is_none() && again.headers().get(REPLAYED).is_some());
//! # Ok(()) }
//! ```
//!
//! [Idempotency-Key header draft]: https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/

mod body;
mod header;
mod layer;
mod outlive;
mod policy;
mod problem;
mod saved;
mod service;
#[cfg(feature = "axum")]
pub mod tokens;

pub use body::Rest;
pub use header::{IDEMPOTENCY_KEY, REPLAYED, REPLAYED_AGE};
pub use layer::IdempotencyLayer;
pub use policy::Spelling;
pub use service::{Idempotency, Reply};
