//! What the machine promises, promise by promise.

#[path = "../support/mod.rs"]
mod support;

mod cancelling;
mod driving;
mod extending;
mod handing_over;
mod releasing;
mod renewing;
mod replanting;
mod retrying;
mod undoing;
