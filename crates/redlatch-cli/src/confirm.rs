//! Asks the user for confirmation.

use crate::{exit::Exit, failure::Failure, plain::plain};
use std::io::{self, IsTerminal, Write};

/// Whether there is someone to ask: stdin is a terminal.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal()
}

/// Asks. Any answer but yes is an error; without a terminal, the error is `unasked`.
pub(crate) fn confirm(question: &str, unasked: &str) -> Result<(), Failure> {
    if !can_ask() {
        return Err(Failure::new(Exit::Failed, unasked));
    }
    let mut stderr = io::stderr();
    write!(stderr, "{} [y/N] ", plain(question))?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::new(Exit::Failed, "nothing was changed")),
    }
}
