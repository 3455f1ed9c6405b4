//! `redlatch exporter`: metrics from the nodes' point of view, over HTTP.

mod view;

use crate::{
    cli::ExporterArgs,
    exit::Exit,
    failure::Failure,
    http::{Answer, Method, Question, not_allowed, serve},
    live::Live,
    say::{Event, Say},
    settings::Settings,
};
use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{net::TcpListener, sync::Mutex};

const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(crate) async fn exporter(
    args: ExporterArgs,
    settings: Settings,
    say: Say,
) -> Result<Exit, Failure> {
    // Never starts over, however rarely it is asked: a lock that is still held has been
    // held since.
    let live = Arc::new(Mutex::new(Live::new(&settings, Duration::MAX)?));
    let listener = listen(args.listen).await?;
    let address = listener.local_addr()?;
    say.say(&Event::Listening { address: format!("http://{address}/metrics") });
    let answer = move |question: Question| {
        let live = Arc::clone(&live);
        async move {
            match (question.method, &*question.path) {
                (Method::Post, _) => not_allowed(),
                (_, "/metrics") => {
                    let now = Instant::now();
                    let snapshot = live.lock().await.at_most(args.every, now).await;
                    Answer::new(METRICS, view::text(&snapshot))
                }
                (_, "/") => Answer::new(METRICS, "Redlatch: metrics are at /metrics\n"),
                _ => Answer::text("404 Not Found", "only /metrics is here"),
            }
        }
    };
    Ok(serve(listener, args.host, answer).await?)
}

/// Listens there, or says why not.
pub(crate) async fn listen(at: SocketAddr) -> Result<TcpListener, Failure> {
    let refused = |error| Failure::new(Exit::Failed, format!("cannot listen at {at}: {error}"));
    TcpListener::bind(at).await.map_err(refused)
}
