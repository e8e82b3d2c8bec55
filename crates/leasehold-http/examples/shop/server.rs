//! One server of the shop.

use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use leasehold::Locks;
use leasehold::once::{Fingerprint, Key, Once, TokenKeys};
use leasehold_http::IdempotencyLayer;
use leasehold_http::tokens::TokenRoutes;

use crate::{Done, STOCK};

/// Ours alone. A real shop has it from where its secrets are.
const SECRET: &[u8; 32] = b"an example may show its secrets!";
/// Whoever orders from one device again within this time has clicked twice.
const WINDOW: Duration = Duration::from_secs(60);

#[derive(Clone)]
struct Shop {
    locks: Locks,
    brushed: Once,
    forms: TokenRoutes,
}

pub(crate) async fn serve(port: u16, engine: &str) -> Done {
    let locks = leasehold::open(engine).await?;
    let orders = locks.once("orders");
    let forms = TokenRoutes::new(orders.tokens(TokenKeys::new(1, SECRET)?)).subject(customer);
    let keyed = IdempotencyLayer::draft(locks.once("api"))
        .caller(|parts| customer(&parts.headers))
        .wait(Duration::from_secs(30));
    let shop = Shop { brushed: locks.once("app"), forms: forms.clone(), locks };
    let at_the_form = shop.clone();
    let order = move |_turn, _form| {
        let shop = at_the_form.clone();
        async move { shop.order().await }
    };
    let app = Router::new()
        .route("/", get(page))
        .route("/form", forms.redeem(order))
        .route("/app", post(from_an_app))
        .route("/stock", get(stock))
        .merge(Router::new().route("/api", post(from_a_client)).layer(keyed))
        .with_state(shop);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    Ok(axum::serve(listener, app).await?)
}

fn customer(headers: &HeaderMap) -> String {
    headers.get("customer").and_then(|it| it.to_str().ok()).unwrap_or_default().to_owned()
}

/// A form with a token in it: nothing was written for that.
async fn page(State(shop): State<Shop>, headers: HeaderMap) -> Html<String> {
    let token = shop.forms.token_for(&headers);
    Html(format!(
        "<form method=post action=/form><input type=hidden name=one_time_token value={token}>\
         <button>Order</button></form>"
    ))
}

/// A client that sends an Idempotency-Key.
async fn from_a_client(State(shop): State<Shop>) -> Response {
    shop.order().await
}

/// An app that sends nothing but its customer, its device and its clock.
async fn from_an_app(State(shop): State<Shop>, headers: HeaderMap) -> Response {
    let text = |name| headers.get(name).and_then(|it| it.to_str().ok()).unwrap_or_default();
    let clicked = text("clicked-at").parse().unwrap_or(0);
    let at = SystemTime::UNIX_EPOCH + Duration::from_millis(clicked);
    let key = Key::trace(text("customer"), text("device"), at, WINDOW);
    let work = async |_turn| shop.take_one().await;
    match shop.brushed.run(key, Fingerprint::none(), work).await {
        Ok(done) => Response::new(Body::from(done.outcome)),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response(),
    }
}

async fn stock(State(shop): State<Shop>) -> Response {
    let count = async |name| shop.locks.record::<u32>(name).get().await;
    match (count("stock").await, count("orders").await) {
        (Ok(stock), Ok(orders)) => {
            let left = stock.map_or(STOCK, |it| it.value);
            format!("{left} {}", orders.map_or(0, |it| it.value)).into_response()
        }
        (Err(error), _) | (_, Err(error)) => unavailable(&error),
    }
}

fn unavailable(error: &leasehold::Error) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response()
}

impl Shop {
    async fn order(&self) -> Response {
        match self.take_one().await {
            Ok(said) => said.into_response(),
            Err(error) => unavailable(&error),
        }
    }

    /// Takes one thing off the stock, if there is one, and numbers the order.
    ///
    /// Each is changed only if nobody was faster: a thousand customers at once
    /// have a thousand keys, and only the stock itself can tell when it is empty.
    async fn take_one(&self) -> leasehold::Result<String> {
        let mut sold = false;
        let stock = self.locks.record::<u32>("stock").attempts(10_000);
        stock
            .update(|left| {
                let left = left.unwrap_or(STOCK);
                sold = left > 0;
                Some(left.saturating_sub(1))
            })
            .await?;
        if !sold {
            return Ok("sold out".into());
        }
        let orders = self.locks.record::<u32>("orders").attempts(10_000);
        let number = orders.update(|count| Some(count.unwrap_or(0) + 1)).await?;
        Ok(format!("order {}", number.map_or(0, |it| it.value)))
    }
}
