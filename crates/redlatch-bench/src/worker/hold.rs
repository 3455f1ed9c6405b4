//! Holding a lock for a millisecond, not for two: the runtime's own timer ticks in
//! milliseconds and rounds up. A thread's sleep does not.

use std::{
    sync::{LazyLock, mpsc},
    thread,
    time::Duration,
};
use tokio::sync::oneshot;

type Sleep = (Duration, oneshot::Sender<()>);

/// Waits for this long. One at a time, since one lock has one holder.
pub(super) async fn hold(time: Duration) -> anyhow::Result<()> {
    static SLEEPER: LazyLock<mpsc::Sender<Sleep>> = LazyLock::new(|| {
        let (sleeps, inbox) = mpsc::channel::<Sleep>();
        thread::spawn(move || {
            for (time, done) in inbox {
                thread::sleep(time);
                // A caller that was cancelled no longer listens.
                let _ = done.send(());
            }
        });
        sleeps
    });
    if time.is_zero() {
        return Ok(());
    }
    let (done, over) = oneshot::channel();
    SLEEPER.send((time, done))?;
    Ok(over.await?)
}
