//! `doctor`: reads every node and says what would hurt.

mod findings;

use crate::{
    admit::standing_json,
    cli::DoctorArgs,
    exit::Exit,
    failure::Failure,
    say::{Paint, Say, millis, print_json},
    settings::Settings,
};
use findings::{Finding, Level, Place, examine_all};
use redlatch::{
    Fault, LockState, NodeKey, Standing,
    observer::{Examined, Observer},
};
use serde_json::{Value, json};
use std::{
    fmt::Write as _,
    io::{self, Write as _},
    os::unix::ffi::OsStrExt,
    time::Duration,
};

/// An attempt that is under way is over after this time.
const SETTLED: Duration = Duration::from_millis(500);
/// How many locks that look wrong are looked at twice.
const SECOND_LOOKS: usize = 8;

pub(crate) async fn doctor(args: DoctorArgs, settings: Settings, _: Say) -> Result<Exit, Failure> {
    let observer = match settings.builder().observer() {
        Ok(observer) => observer,
        Err(error) => {
            let finding = Finding::problem(error.to_string());
            return report(&[], &[], &[finding], false, args.words.json);
        }
    };
    let examined = observer.examine(args.prefix.as_bytes()).await?;
    let users: Vec<String> = settings.nodes().iter().map(|url| user_in(url)).collect();
    let prefix = args.prefix.to_string_lossy();
    let stands = |(at, node): (usize, &Examined)| match &node.facts {
        Ok(facts) => observer.standing(at, facts),
        Err(fault) => Standing::Failed(fault.clone()),
    };
    let standings: Vec<Standing> = examined.iter().enumerate().map(stands).collect();
    let place = Place {
        examined: &examined,
        standings: &standings,
        guard: observer.restart_guard(),
        agreement: observer.agreement(),
        users: &users,
        prefix: &prefix,
        ttl: args.ttl.unwrap_or(settings.ttl()),
        node_timeout: settings.node_timeout(),
    };
    let mut findings = examine_all(&place);
    // Where the nodes tell what their clients agree on, there is no need to guess.
    if !place.is_told() {
        findings.extend(strays(&observer, examined.len()).await);
    }
    // A server that is unfit does answer: that is a problem, not an outage.
    let is_up = |node: &&Examined| {
        matches!(node.facts, Ok(_) | Err(Fault::Unfit(_) | Fault::WrongAddress(_)))
    };
    let up = examined.iter().filter(is_up).count();
    report(&examined, &standings, &findings, up <= examined.len() / 2, args.words.json)
}

/// Locks on fewer than a majority of the nodes, for longer than an attempt
/// takes: somebody counts other nodes than these.
async fn strays(observer: &Observer, nodes: usize) -> Option<Finding> {
    let listing = observer.list("*").await;
    let suspects = listing.locks.iter().filter(|lock| lock.state == LockState::Unclear);
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
                lock.name
            )));
        }
    }
    None
}

/// The user in an address; the server's default user if it names none.
fn user_in(url: &str) -> String {
    let (place, query) = url.split_once('?').unwrap_or((url, ""));
    let login = place.rsplit_once('@').map_or("", |(login, _)| login);
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
    too_few: bool,
    as_json: bool,
) -> Result<Exit, Failure> {
    if as_json {
        let nodes = examined.iter().zip(standings).map(|(node, stands)| node_json(node, stands));
        let nodes: Vec<Value> = nodes.collect();
        print_json(&json!({ "nodes": nodes, "findings": findings }))?;
    } else {
        io::stdout().write_all(text(examined, findings, Paint::stdout()).as_bytes())?;
    }
    let worst = findings.iter().map(|finding| finding.level.exit()).fold(Exit::Done, Exit::worse);
    Ok(if too_few { Exit::TooFewNodes } else { worst })
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
    if let (Value::Object(told), Value::Object(stands)) = (&mut json, standing_json(stands)) {
        told.extend(stands);
    }
    json
}

fn text(examined: &[Examined], findings: &[Finding], paint: Paint) -> String {
    let mut text = String::new();
    for node in examined {
        text.push_str(&node_line(node));
        for finding in
            findings.iter().filter(|finding| finding.node.as_deref() == Some(&*node.node))
        {
            finding_lines(&mut text, finding, paint);
        }
    }
    let general: Vec<&Finding> = findings.iter().filter(|finding| finding.node.is_none()).collect();
    if !general.is_empty() {
        text.push_str("all together\n");
        for finding in general {
            finding_lines(&mut text, finding, paint);
        }
    }
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let _ = match (count(Level::Problem), count(Level::Warning)) {
        (0, 0) => writeln!(text, "{}", paint.green("Nothing that would hurt.")),
        (problems, warnings) => writeln!(text, "Problems: {problems}, warnings: {warnings}."),
    };
    text
}

fn node_line(node: &Examined) -> String {
    let name = &node.node;
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
    let _ = writeln!(text, "  {level}  {}", finding.words);
    if let Some(fix) = &finding.fix {
        let _ = writeln!(text, "           fix: {fix}");
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
