//! `redlatch log`: the outcome of every attempt.

use crate::{
    cli::LogArgs,
    config::Config,
    exit::Exit,
    failure::Failure,
    local_time::LocalTime,
    name,
    plain::plain,
    say::{Paint, print_json},
    secrets::shown_path,
    settings::homeless,
    share, stdout,
    trace::{LogFile, Place, Record, TraceArgs, sentence},
};
use std::{collections::BTreeMap, fmt::Write as _, io, time::SystemTime};

pub(crate) fn log(mut args: LogArgs) -> Result<Exit, Failure> {
    let names = args.names.into_iter().map(|name| name::typed(name, args.id));
    args.names = names.collect::<Result<_, _>>()?;
    let args = &args;
    let config = Config::load(args.config.as_deref());
    let config = config.map_err(|error| Failure::new(Exit::Failed, error))?;
    let options = TraceArgs { log: args.log.clone(), ..TraceArgs::default() };
    let place = Place::new(&options, &config);
    let place = place.map_err(|error| Failure::new(Exit::Failed, error))?;
    let Some(file) = place.log else {
        let why = if place.is_homeless { homeless() } else { "it is turned off".into() };
        return Err(Failure::new(Exit::Failed, format!("there is no log: {why}")));
    };
    let (records, unread) = file.expect_dir().and_then(|()| file.read()).map_err(|error| {
        let mut words = format!("the log {} cannot be read: {error}", shown_path(&file.path));
        let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
        if let Some(whose) = share::withholder(&file.path).filter(|_| is_denied) {
            let _ = write!(words, "; {whose}; its owner and root can read the log");
        }
        Failure::new(Exit::Failed, words)
    })?;
    if unread > 0 {
        let lines = if unread == 1 { "1 line" } else { &format!("{unread} lines") };
        let words = format!(
            "{}: {lines} cannot be read: cut off by a full disk, or written by another version",
            shown_path(&file.path)
        );
        eprintln!("redlatch: {}", plain(&words));
    }
    let records = joined(records);
    let chosen = choose(&records, args);
    if args.json {
        chosen.iter().try_for_each(print_json)?;
        return Ok(Exit::Done);
    }
    if chosen.is_empty() {
        eprintln!("redlatch: {}", plain(&nothing(&records, args, &file)));
        return Ok(Exit::Done);
    }
    let mut text = String::new();
    for record in &chosen {
        line(&mut text, record, Paint::stdout());
    }
    stdout::print(text.as_bytes())?;
    Ok(Exit::Done)
}

/// One record for each attempt, from all of its lines.
fn joined(lines: Vec<Record>) -> Vec<Record> {
    let mut records: BTreeMap<_, Record> = BTreeMap::new();
    for line in lines {
        let attempt = (line.time, line.host.clone(), line.pid);
        let joined = match records.remove(&attempt) {
            Some(known) => known.joined(line),
            None => line,
        };
        records.insert(attempt, joined);
    }
    records.into_values().map(Record::seen_now).collect()
}

fn choose<'a>(records: &'a [Record], args: &LogArgs) -> Vec<&'a Record> {
    let is_wanted = |record: &&Record| {
        let is_named = args.names.is_empty() || args.names.iter().any(|name| record.is_on(name));
        // An attempt that still runs or waits has not failed.
        let is_failure = !record.is_success() && !record.is_running();
        is_named
            && args.since.is_none_or(|since| record.time >= since)
            && (is_failure || !args.failed)
    };
    let chosen: Vec<&Record> = records.iter().filter(is_wanted).collect();
    let skipped = args.last.map_or(0, |last| chosen.len().saturating_sub(last));
    chosen.into_iter().skip(skipped).collect()
}

/// Why there is nothing to show: that is an answer, too.
fn nothing(records: &[Record], args: &LogArgs, file: &LogFile) -> String {
    let path = shown_path(&file.path);
    let Some(first) = records.first() else {
        return format!(
            "{path} has no record yet; each user has a log of their own (--log FILE reads another); if \
             jobs have run, `redlatch doctor` checks whether they can write it"
        );
    };
    let failed = if args.failed { "failed attempt" } else { "attempt" };
    let names: Vec<_> = args.names.iter().map(|name| name.to_string_lossy()).collect();
    let on = if names.is_empty() { String::new() } else { format!(" on {}", names.join(", ")) };
    let since = shown(args.since.map_or(first.time, |since| since.max(first.time)));
    let hint = if args.failed {
        ""
    } else {
        "; redlatch was not started, or has only just started, or another user started it (--log \
         FILE reads their log), or the record could not be written (`redlatch doctor` checks that)"
    };
    format!("{path} has no {failed}{on} since {since}{hint}")
}

fn line(text: &mut String, record: &Record, paint: Paint) {
    let words = sentence(record);
    let words = match record {
        record if record.is_success() || record.is_running() => plain(&words).into_owned(),
        _ => paint.red(&words),
    };
    let _ = writeln!(text, "{}  {}  {words}", shown(record.time), plain(&record.names.join(", ")));
}

fn shown(time: SystemTime) -> String {
    LocalTime::of(time).show()
}
