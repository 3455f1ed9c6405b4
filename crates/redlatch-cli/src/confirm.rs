//! Questions to a person.

use crate::{exit::Exit, failure::Failure};
use std::io::{self, IsTerminal, Write};

/// Whether somebody can answer.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal()
}

/// Asks; anything but yes is an error. Where nobody can answer, so is `unasked`.
pub(crate) fn confirm(question: &str, unasked: &str) -> Result<(), Failure> {
    if !can_ask() {
        return Err(Failure::new(Exit::Failed, unasked));
    }
    let mut stderr = io::stderr();
    write!(stderr, "{question} [y/N] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::new(Exit::Failed, "nothing was changed")),
    }
}
