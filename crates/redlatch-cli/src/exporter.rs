//! `redlatch exporter`: metrics from the nodes' point of view, over HTTP.

mod http;
mod view;

use crate::{
    cli::ExporterArgs,
    exit::Exit,
    failure::Failure,
    say::{Event, Say},
    settings::Settings,
};
use http::Http;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    task::JoinSet,
};
use view::View;

/// How many answers may be under way at once.
const MOST: usize = 32;
/// How long to wait when no connection can be accepted.
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) async fn exporter(
    args: ExporterArgs,
    settings: Settings,
    say: Say,
) -> Result<Exit, Failure> {
    let observer = settings.builder().observer()?;
    let refused =
        |error| Failure::new(Exit::Failed, format!("cannot listen at {}: {error}", args.listen));
    let listener = TcpListener::bind(args.listen).await.map_err(refused)?;
    let address = listener.local_addr()?;
    say.say(&Event::Listening { address: format!("http://{address}/metrics") });
    let http = Arc::new(Http::new(args.host));
    let view = Arc::new(tokio::sync::Mutex::new(View::new(observer, args.every)));
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut answers = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            _ = terminate.recv() => return Ok(Exit::Done),
            _ = interrupt.recv() => return Ok(Exit::Done),
            Some(_) = answers.join_next(), if !answers.is_empty() => continue,
            accepted = listener.accept(), if answers.len() < MOST => accepted,
        };
        let Ok((stream, _)) = accepted else {
            // Out of descriptors, for now.
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let (http, view) = (Arc::clone(&http), Arc::clone(&view));
        answers.spawn(async move {
            let now = Instant::now();
            http.answer(stream, async || view.lock().await.metrics(now).await).await;
        });
    }
}
