//! A task that leaves a trace, even if its settings are wrong.

use crate::{
    cli::{PlaceArgs, Words},
    config::Config,
    exit::Exit,
    failed,
    failure::Failure,
    say::{Event, Say},
    settings::Settings,
    stack,
    trace::{About, Place, Trace, TraceArgs},
    with,
};
use std::path::Path;

/// The settings of a task, and its trace.
pub(crate) struct Attempt {
    settings: Result<Settings, Failure>,
    trace: Result<Trace, Failure>,
}

impl Attempt {
    /// Reads the settings.
    pub(crate) fn new(
        about: About,
        place: &PlaceArgs,
        trace: &TraceArgs,
        metrics: Option<&Path>,
    ) -> Self {
        let config = Config::load(place.config.as_deref());
        let default = Config::default();
        let traces = config.as_ref().or_else(|error| error.traces().ok_or(error));
        let to = Place::new(trace, traces.unwrap_or(&default));
        let to = to.map(|to| to.with_metrics(metrics));
        let settings = config.map_err(Into::into).and_then(|config| Settings::new(place, config));
        let settings = match stack::too_small() {
            Some(limit) => Err(Failure::new(Exit::Failed, stack::words(limit))),
            None => settings.map_err(Into::into),
        };
        Attempt {
            settings,
            trace: to.map(|to| about.begin(to)).map_err(|error| Failure::new(Exit::Failed, error)),
        }
    }

    /// Runs the task. It writes its own trace, unless it cannot even begin.
    pub(crate) fn run(self, words: Words, task: impl FnOnce(Settings, Say, Trace) -> Exit) -> Exit {
        let say = Say::new(words);
        let mut trace = match self.trace {
            Ok(trace) => trace,
            Err(failure) => return failed(say, &failure),
        };
        let (owner, has_end) = (trace.owner(), trace.has_end());
        let is_wrong = self.settings.is_err();
        if let Err(failure) = &self.settings {
            trace.failed(failure);
            trace.write_end(failure.exit, say);
        }
        let settings = self.settings;
        let exit =
            with(words, settings, |settings, say| Ok(task(settings.signed(owner), say, trace)));
        if is_wrong && has_end {
            say.say(&Event::Finished { code: exit.code() });
        }
        exit
    }
}
