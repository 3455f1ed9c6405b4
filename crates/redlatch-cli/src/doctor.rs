//! `doctor`: checks every node and reports what could cause trouble.

mod exposed;
mod findings;
mod probe;

use crate::{
    admit::{standing_json, tell_address},
    cli::DoctorArgs,
    config::Config,
    exit::Exit,
    failure::Failure,
    name,
    plain::plain,
    say::{Paint, Say, millis, print_json},
    secrets::shown_path,
    settings::{Settings, homeless},
    stdout,
    trace::{Place, TraceArgs},
};
use exposed::exposed;
pub(crate) use findings::{
    DELETE, Finding, Level, UNNAMED, clocks, endless, left_out, node_timeout, one_less, refusing,
    speed, too_few, unlisted,
};
use findings::{Evidence, examine_all};
use probe::{Listener, probe};
use redlatch::{
    LockState, NodeKey, Standing,
    observer::{Examined, Listing, Observer},
};
use serde_json::{Value, json};
use std::{fmt::Write as _, os::unix::ffi::OsStrExt, time::Duration};

/// An attempt that is in progress has ended after this time.
const SETTLED: Duration = Duration::from_millis(500);
/// How long listing all locks may take.
const LISTING: Duration = Duration::from_secs(5);
/// How many suspicious locks get a second look.
const SECOND_LOOKS: usize = 8;

pub(crate) async fn doctor(args: DoctorArgs, settings: Settings, _: Say) -> Result<Exit, Failure> {
    let place = place(&args)?;
    let observer = match settings.builder().observer() {
        Ok(observer) => observer,
        Err(error) => {
            let finding = Finding::problem(error.to_string());
            return report(&[], &[], &[finding], args.words.json);
        }
    };
    let examined = observer.examine(args.prefix.as_bytes()).await?;
    let users: Vec<String> = settings.nodes().iter().map(|url| user_in(url)).collect();
    let prefix = args.prefix.to_string_lossy();
    let standings = observer.standings_of(&examined);
    let other_name =
        |(node, standing): (&Examined, &Standing)| observer.other_name(&node.node, standing);
    let other_names: Vec<_> = examined.iter().zip(&standings).map(other_name).collect();
    let taking = |(at, node): (usize, &Examined)| observer.taking(at, node.facts.as_ref().ok()?);
    let takings: Vec<_> = examined.iter().enumerate().map(taking).collect();
    let listeners = probed(&examined).await;
    let evidence = Evidence {
        examined: &examined,
        listeners: &listeners,
        standings: &standings,
        other_names: &other_names,
        takings: &takings,
        guard: observer.restart_guard(),
        agreement: observer.agreement(),
        users: &users,
        prefix: &prefix,
        scope: settings.scope(),
        typed: settings.typed(),
        ttl: args.ttl.unwrap_or(settings.ttl()),
        node_timeout: settings.node_timeout(),
    };
    let mut findings = examine_all(&evidence);
    findings.extend(untraced(&place));
    findings.extend(exposed(settings.nodes()));
    findings.extend(relative(settings.nodes()));
    // A server with many keys takes a long time to list its locks, but refuses at once if
    // the user may not list them.
    let listing = tokio::time::timeout(LISTING, observer.list("*")).await.ok();
    for (node, fault) in listing.iter().flat_map(|listing| &listing.failed) {
        let at = examined.iter().position(|examined| examined.node == *node);
        findings.extend(
            at.and_then(|at| unlisted(fault, &users[at]))
                .map(|finding| Finding { node: Some(node.to_string()), ..finding }),
        );
    }
    for (node, keys) in listing.iter().flat_map(|listing| &listing.unread) {
        let at = examined.iter().position(|examined| examined.node == *node);
        let finding = at.map(|at| left_out(*keys, &users[at]));
        findings.extend(finding.map(|it| Finding { node: Some(node.to_string()), ..it }));
    }
    if let Some(listing) = &listing {
        findings.extend(endless(listing));
        // If the nodes say what their clients agree on, there is no need to guess.
        if !evidence.is_told() {
            findings.extend(strays(&observer, listing, examined.len()).await);
        }
    }
    report(&examined, &standings, &findings, args.words.json)
}

/// Where a run without options would leave its traces.
fn place(args: &DoctorArgs) -> Result<Place, Failure> {
    let config = Config::load(args.place.config.as_deref());
    let config = config.map_err(|error| Failure::new(Exit::Failed, error))?;
    let place = Place::new(&TraceArgs::default(), &config);
    place.map_err(|error| Failure::new(Exit::Failed, error))
}

/// A log, and metrics, that this user cannot write.
fn untraced(place: &Place) -> impl Iterator<Item = Finding> {
    [unlogged(place), unmeasured(place)].into_iter().flatten()
}

fn unlogged(place: &Place) -> Option<Finding> {
    if place.is_homeless {
        let words = format!("this user's runs are not logged: {}", homeless());
        let fix = "set HOME to an absolute path, or name a file: --log FILE, REDLATCH_LOG";
        return Some(Finding::warning(words).fix(fix));
    }
    let log = place.log.as_ref()?;
    let error = log.check().err()?;
    let words = format!(
        "the log of this user's runs, {}, cannot be written: {error}",
        shown_path(&log.path)
    );
    Some(Finding::warning(words).fix("make it writable, or name another: --log FILE, REDLATCH_LOG"))
}

fn unmeasured(place: &Place) -> Option<Finding> {
    let metrics = place.metrics.as_ref()?;
    let error = metrics.check().err()?;
    let words = format!("no metrics can be written to {}: {error}", shown_path(metrics.dir()));
    let fix = "let this user write there, or name another directory: --metrics-dir DIR, \
               REDLATCH_METRICS_DIR";
    Some(Finding::warning(words).fix(fix))
}

/// A relative path, which means another file in another working directory.
fn relative(urls: &[String]) -> Option<Finding> {
    let path = |url: &String| {
        let (scheme, path) = url.split_once(':')?;
        let path = path.strip_prefix("//").unwrap_or(path);
        let is_relative = scheme.eq_ignore_ascii_case("file") && !path.starts_with('/');
        is_relative.then(|| path.to_owned())
    };
    let path = urls.iter().find_map(path)?;
    let words = format!(
        "the path of file:{path} is relative: from another directory it means another file, \
         with separate locks"
    );
    Some(Finding::warning(words).fix("write the whole path, from / on"))
}

/// What else listens at the addresses where no node answers.
async fn probed(examined: &[Examined]) -> Vec<Option<Listener>> {
    let mut found = Vec::new();
    for node in examined {
        found.push(if node.facts.is_err() { probe(&node.address).await } else { None });
    }
    found
}

/// Looks for locks that stay on a minority of the nodes for longer than an attempt
/// takes: their holder must be using another list of nodes.
async fn strays(observer: &Observer, listing: &Listing, nodes: usize) -> Option<Finding> {
    let suspects = listing
        .locks
        .iter()
        .filter(|lock| !matches!(lock.state, LockState::Held { .. } | LockState::Reserved { .. }));
    let suspects: Vec<_> = suspects.take(SECOND_LOOKS).collect();
    if suspects.is_empty() || !listing.failed.is_empty() {
        return None;
    }
    tokio::time::sleep(SETTLED).await;
    for lock in suspects {
        let Ok(status) = observer.status(lock.name.as_bytes()).await else { continue };
        let is_there = status.nodes.iter().any(|node| matches!(node.key, NodeKey::Held { .. }));
        if is_there && !matches!(status.state, LockState::Held { .. }) {
            let on = lock.nodes;
            return Some(Finding::warning(format!(
                "the lock {} is on {on} of {nodes} nodes only: somebody seems to use another list \
                 of nodes, and would not be excluded",
                name::shown(lock.name.as_bytes())
            )));
        }
    }
    None
}

/// The user in an address; `default`, the server's default user, if there is none.
pub(crate) fn user_in(url: &str) -> String {
    let (evidence, query) = url.split_once('?').unwrap_or((url, ""));
    let login = evidence.rsplit_once('@').map_or("", |(login, _)| login);
    let login = login.split_once("//").map_or("", |(_, login)| login);
    let named = query.split('&').find_map(|option| option.strip_prefix("user="));
    match named.unwrap_or(login.split(':').next().unwrap_or_default()) {
        "" => "default".into(),
        user => user.into(),
    }
}

fn report(
    examined: &[Examined],
    standings: &[Standing],
    findings: &[Finding],
    as_json: bool,
) -> Result<Exit, Failure> {
    if as_json {
        let nodes = examined.iter().zip(standings).map(|(node, stands)| node_json(node, stands));
        let nodes: Vec<Value> = nodes.collect();
        print_json(&json!({ "nodes": nodes, "findings": findings }))?;
    } else {
        stdout::print(text(examined, findings, Paint::stdout()).as_bytes())?;
    }
    Ok(findings.iter().map(|finding| finding.level.exit()).fold(Exit::Done, Exit::worse))
}

fn node_json(node: &Examined, stands: &Standing) -> Value {
    let facts = node.facts.as_ref().ok();
    let mut json = json!({
        "node": *node.node,
        "version": facts.map(|facts| facts.identity.version.to_string()),
        "round_trip_ms": node.round_trip.as_secs_f64() * 1e3,
        "clock_ahead_s": node.ahead,
        "uptime_ms": facts.and_then(|facts| facts.uptime).map(millis),
        "reason": null,
    });
    tell_address(&mut json, Some(&node.address));
    if let (Value::Object(told), Value::Object(stands)) = (&mut json, standing_json(stands)) {
        told.extend(stands);
    }
    if let (Standing::Admitted | Standing::Failed(_), Some(why)) = (stands, node.refuses()) {
        json["standing"] = "refusing".into();
        json["reason"] = refusing(why).words.into();
    }
    json
}

fn text(examined: &[Examined], findings: &[Finding], paint: Paint) -> String {
    let mut text = String::new();
    for outage in findings.iter().filter(|finding| finding.is_outage) {
        let _ = writeln!(text, "{}", paint.red(&format!("{}.", capital(&outage.words))));
        if let Some(fix) = &outage.fix {
            let _ = writeln!(text, "  fix: {}", plain(fix));
        }
    }
    for node in examined {
        text.push_str(&node_line(node));
        for finding in
            findings.iter().filter(|finding| finding.node.as_deref() == Some(&*node.node))
        {
            finding_lines(&mut text, finding, paint);
        }
    }
    let general: Vec<&Finding> =
        findings.iter().filter(|finding| finding.node.is_none() && !finding.is_outage).collect();
    if !general.is_empty() {
        text.push_str("all nodes\n");
        for finding in general {
            finding_lines(&mut text, finding, paint);
        }
    }
    // If there are other problems, they imply that no lock can be taken.
    let listed = |level| {
        findings.iter().filter(|finding| finding.level == level && !finding.is_outage).count()
    };
    let has_outage = findings.iter().any(|finding| finding.is_outage);
    let problems = listed(Level::Problem).max(usize::from(has_outage));
    let _ = match (problems, listed(Level::Warning)) {
        (0, 0) => writeln!(text, "{}", paint.green("No problems or warnings.")),
        (problems, warnings) => writeln!(text, "Problems: {problems}, warnings: {warnings}."),
    };
    text
}

fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

fn node_line(node: &Examined) -> String {
    let name = node.label();
    let Ok(facts) = &node.facts else { return format!("{name}\n") };
    let mut line =
        format!("{name}: {}, answers in {}", facts.identity.version, precise(node.round_trip));
    if let Some(uptime) = facts.uptime {
        let _ = write!(line, ", up for {}", humantime::format_duration(uptime));
    }
    line.push('\n');
    line
}

fn precise(time: Duration) -> String {
    format!("{:.1}ms", time.as_secs_f64() * 1e3)
}

fn finding_lines(text: &mut String, finding: &Finding, paint: Paint) {
    let level = match finding.level {
        Level::Problem => paint.red("problem"),
        Level::Warning => paint.yellow("warning"),
        Level::Note => "note   ".into(),
    };
    let _ = writeln!(text, "  {level}  {}", plain(&finding.words));
    if let Some(fix) = &finding.fix {
        let _ = writeln!(text, "           fix: {}", plain(fix));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_of_an_address_is_found() {
        assert_eq!(user_in("redis://ada:secret@host"), "ada");
        assert_eq!(user_in("redis://:secret@host"), "default");
        assert_eq!(user_in("redis://host"), "default");
        assert_eq!(user_in("redis+unix:///run/s?db=1&user=ada"), "ada");
    }
}
