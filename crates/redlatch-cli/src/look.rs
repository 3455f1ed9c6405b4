//! `status` and `ls`: who holds what.

use crate::{
    admit::{cause_for, quarantined_for, reports_on, tell_address},
    by_hand::remaining,
    cli::{LsArgs, StatusArgs},
    doctor::{Finding, refusing, user_in},
    duration::{readable, show},
    exit::Exit,
    failure::{Failure, to_paste},
    live::Stands,
    name,
    plain::plain,
    say::{Event, Paint, Say, millis, print_json},
    settings::Settings,
    stdout, who,
};
use redlatch::{
    Cause, Fault, FencingToken, LockState, NodeKey, NodeStanding, NodeStatus, Standing, Status,
    observer::{Examined, Listed, Listing, Observer, Refusal, refusal},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{self, IsTerminal},
    os::unix::ffi::OsStrExt,
    time::Duration,
};
use unicode_width::UnicodeWidthStr as _;

pub(crate) async fn status(
    mut args: StatusArgs,
    settings: Settings,
    say: Say,
) -> Result<Exit, Failure> {
    let names = args.names.into_iter().map(|name| name::typed(name, args.id));
    args.names = names.collect::<Result<_, _>>()?;
    let observer = settings.builder().observer()?;
    loop {
        let (text, exit) = look_once(&args, &observer, &settings, say).await?;
        if args.watch && io::stdout().is_terminal() {
            // Redraw from the top, and clear what is below.
            stdout::print(format!("\x1b[H\x1b[2J{text}").as_bytes())?;
        } else {
            stdout::print(text.as_bytes())?;
        }
        if !args.watch {
            return Ok(exit);
        }
        tokio::time::sleep(args.every).await;
    }
}

async fn look_once(
    args: &StatusArgs,
    observer: &Observer,
    settings: &Settings,
    say: Say,
) -> Result<(String, Exit), Failure> {
    let (paint, max_ttl) = (Paint::stdout(), settings.max_ttl());
    let (mut text, mut exit) = (String::new(), Exit::Done);
    for name in &args.names {
        let name = name.as_bytes();
        let status = observer.status(name).await?;
        let shown = name::shown(name);
        if args.words.json {
            let _ = writeln!(text, "{}", status_json(name, &status, observer, max_ttl));
        } else {
            let doctor = settings.doctor("");
            let told = status_text(name, &status, observer, (max_ttl, &doctor), paint).await;
            text.push_str(&to_paste(&told, settings.typed()));
        }
        exit = exit.worse(verdict(&status));
        if matches!(status.state, LockState::Unclear(_)) && !args.words.json {
            let words = format!("{shown}: {}", status.state);
            say.say(&Event::failed(words, Exit::NoMajority));
        }
    }
    Ok((text, exit))
}

fn verdict(status: &Status) -> Exit {
    match status.state {
        LockState::Free => Exit::Done,
        LockState::Held { .. } | LockState::Reserved { .. } => Exit::Held,
        _ => Exit::NoMajority,
    }
}

/// Whether the key lives longer than any client may ask for: the node's clock was
/// set back, or some client has other settings.
fn is_too_long(key: &NodeKey, max_ttl: Duration) -> bool {
    matches!(key, NodeKey::Held { owner: Some(_), remaining: Some(left) } if *left > max_ttl)
}

/// What each node says about a lock. `doctor` is the command to suggest for details.
pub(crate) async fn status_text(
    name: &[u8],
    status: &Status,
    observer: &Observer,
    (max_ttl, doctor): (Duration, &str),
    paint: Paint,
) -> String {
    let out = status.nodes.iter().filter_map(|node| node.quarantine.as_ref());
    let reports = reports_on(observer, out).await;
    let mut text = format!("{}: {}", name::shown(name), state_text(&status.state, paint));
    if let LockState::Held { fencing_token: Some(number), .. } = &status.state {
        let _ = write!(text, ", fencing token {number}");
    }
    text.push('\n');
    let details = status.owner.as_ref().map(who::details).filter(|details| !details.is_empty());
    if let Some(details) = details {
        let _ = writeln!(text, "  {details}");
    }
    let label = |node: &NodeStatus| observer.label(&node.node).into_owned();
    let widest = status.nodes.iter().map(|node| label(node).len()).max().unwrap_or(0);
    for node in &status.nodes {
        let key = match &node.key {
            NodeKey::Free => paint.green("free"),
            data if data.is_data() => paint.yellow(&data.to_string()),
            NodeKey::Held { owner, remaining } => held_text(owner.as_deref(), *remaining, paint),
            NodeKey::Reserved { owner, .. } => reserved_text(owner.as_deref(), paint),
            NodeKey::Failed(fault) => paint.red(&failed_text(fault)),
            key => paint.red(&key.to_string()),
        };
        let out = node.quarantine.as_ref().map(|out| match &out.cause {
            Cause::Disagrees(_) => format!("its clients have other settings (`{doctor}`)"),
            Cause::OtherNode { is, .. } => {
                format!("does not vote: this server is admitted as {is} (`{doctor}`)")
            }
            Cause::Forgot => {
                format!(
                    "{}: it may have forgotten locks",
                    quarantined_for(&node.node, out, &reports)
                )
            }
            cause => format!("{}: {cause}", quarantined_for(&node.node, out, &reports)),
        });
        let mut notes = out.map_or(String::new(), |out| format!(", {}", paint.red(&out)));
        if let Some(why) = node.refuses {
            let _ = write!(notes, ", {}", paint.red(&refusing_text(why)));
        }
        if is_too_long(&node.key, max_ttl) {
            let max_ttl = show(max_ttl);
            let note = format!("longer than max_ttl, {max_ttl}: was its clock set back?");
            let _ = write!(notes, ", {}", paint.red(&note));
        }
        let _ = writeln!(text, "  {:widest$}  {key}{notes}", label(node));
    }
    text + &line_text(status)
}

/// Whether a majority of the nodes answered and has forgotten nothing: only then is it
/// known who waits.
fn is_told(status: &Status) -> bool {
    let tells =
        |node: &&NodeStatus| node.quarantine.is_none() && !matches!(node.key, NodeKey::Failed(_));
    status.nodes.iter().filter(tells).count() > status.nodes.len() / 2
}

/// Who waits in line, one per row.
fn line_text(status: &Status) -> String {
    if !is_told(status) {
        return "  waiting in line: ?\n".into();
    }
    if status.waiters == 0 {
        return String::new();
    }
    let mut text = format!("  waiting in line: {}\n", status.waiters);
    for (at, waiter) in status.line.iter().enumerate() {
        let _ = writeln!(text, "    {}. {}", at + 1, who::waiter(waiter));
    }
    if status.waiters > status.line.len() {
        let _ = writeln!(text, "    … and {} more", status.waiters - status.line.len());
    }
    text
}

fn state_text(state: &LockState, paint: Paint) -> String {
    match state {
        LockState::Free => paint.green("free"),
        data if data.is_data() => paint.yellow(&data.to_string()),
        LockState::Held { owner, remaining, .. } => held_text(owner.as_deref(), *remaining, paint),
        LockState::Reserved { owner, .. } => reserved_text(owner.as_deref(), paint),
        _ => paint.red("unclear"),
    }
}

/// Why a node did not answer the question: it is down, or it answers but cannot be
/// used.
pub(crate) fn failed_text(fault: &Fault) -> String {
    match fault {
        fault if refusal(fault).is_some() => reason(fault),
        Fault::Unfit(_) | Fault::WrongAddress(_) => {
            format!("answers, but cannot be used: {}", bare(fault))
        }
        fault if fault.is_silence() => format!("down: {fault}"),
        fault => format!("answers with an error: {fault}"),
    }
}

/// Why a node failed, where it is said that it cannot be used.
pub(crate) fn bare(fault: &Fault) -> String {
    match fault {
        Fault::Unfit(why) | Fault::WrongAddress(why) => why.to_string(),
        fault => fault.to_string(),
    }
}

/// Why a node failed, in words, and what to do if it refuses writes.
pub(crate) fn reason(fault: &Fault) -> String {
    refusal(fault).map_or_else(|| fault.to_string(), refusing_text)
}

/// Says that a node refuses writes, why, and what to do.
fn refusing_text(why: Refusal) -> String {
    let Finding { words, fix, .. } = refusing(why);
    fix.map_or(words.clone(), |fix| format!("{words}; {fix}"))
}

fn reserved_text(owner: Option<&str>, paint: Paint) -> String {
    let whom = owner.map_or(String::new(), |owner| format!(", {owner}"));
    paint.yellow(&format!("not held; reserved for the next in line{whom}"))
}

fn held_text(owner: Option<&str>, left: Option<Duration>, paint: Paint) -> String {
    paint.yellow(&format!("held by {} {}", owner.unwrap_or(NAMELESS), remaining(left)))
}

/// An owner that does not say who it is.
pub(crate) const NAMELESS: &str = "another owner";

pub(crate) fn status_json(
    name: &[u8],
    status: &Status,
    observer: &Observer,
    max_ttl: Duration,
) -> Value {
    let mut json = state_json(&status.state);
    name::add_json(&mut json, name);
    json["grants"] = status.grants.iter().map(ToString::to_string).collect();
    if status.owner.is_some() {
        who::add_json(&mut json, status.owner.as_ref());
    }
    let line = || status.line.iter().map(who::waiter_json).collect::<Value>();
    json["waiters"] = is_told(status).then_some(status.waiters).into();
    json["line"] = is_told(status).then(line).into();
    let nodes = status.nodes.iter().map(|node| node_json(node, observer, max_ttl));
    json["nodes"] = nodes.collect();
    json
}

fn node_json(node: &NodeStatus, observer: &Observer, max_ttl: Duration) -> Value {
    let mut json = match &node.key {
        NodeKey::Free => json!({ "state": "free" }),
        NodeKey::Held { owner, remaining } => {
            json!({ "state": "held", "owner": owner, "remaining_ms": remaining.map(millis) })
        }
        NodeKey::Reserved { owner, remaining } => reserved_json(owner.as_deref(), *remaining),
        NodeKey::Failed(fault) => {
            json!({ "state": Stands::of(fault).word(), "reason": reason(fault) })
        }
        key => json!({ "state": "unclear", "reason": key.to_string() }),
    };
    json["node"] = (*node.node).into();
    tell_address(&mut json, observer.address(&node.node));
    if is_too_long(&node.key, max_ttl) {
        json["above_max_ttl"] = true.into();
    }
    if let Some(why) = node.refuses {
        json["refuses"] = why.to_string().into();
    }
    if let Some(quarantine) = &node.quarantine {
        json["quarantine"] = json!({
            "remaining_ms": quarantine.remaining.map(millis),
            "reason": readable(&quarantine.cause.to_string()),
        });
    }
    json
}

fn state_json(state: &LockState) -> Value {
    match state {
        LockState::Free => json!({ "state": "free" }),
        LockState::Held { owner, remaining, fencing_token } => json!({
            "state": "held",
            "owner": owner,
            "remaining_ms": remaining.map(millis),
            "fencing_token": fencing_token.map(FencingToken::get),
        }),
        LockState::Reserved { owner, remaining } => reserved_json(owner.as_deref(), *remaining),
        _ => json!({ "state": "unclear" }),
    }
}

fn reserved_json(owner: Option<&str>, remaining: Option<Duration>) -> Value {
    json!({ "state": "reserved", "owner": owner, "remaining_ms": remaining.map(millis) })
}

/// Whether a class in the pattern is never closed. Redis closes it at the end of the
/// pattern, which is rarely what the user meant.
fn has_open_class(pattern: &[u8]) -> bool {
    let (mut rest, mut is_open) = (pattern, false);
    while let [byte, after @ ..] = rest {
        is_open = if is_open { *byte != b']' } else { *byte == b'[' };
        rest = if *byte == b'\\' { after.get(1..).unwrap_or_default() } else { after };
    }
    is_open
}

pub(crate) async fn ls(args: LsArgs, settings: Settings, say: Say) -> Result<Exit, Failure> {
    if has_open_class(args.pattern.as_bytes()) {
        let words = format!(
            "the pattern {} has a `[` without its `]`; for the character itself, write `\\[`",
            name::shown(args.pattern.as_bytes())
        );
        return Err(Failure::new(Exit::Failed, words));
    }
    let observer = settings.builder().observer()?;
    let (listing, standings) =
        tokio::join!(observer.list(args.pattern.as_bytes()), observer.standings());
    let is_told = is_all(&listing, &standings);
    if args.words.json {
        for lock in &listing.locks {
            let mut json = state_json(&lock.state);
            name::add_json(&mut json, lock.name.as_bytes());
            json["nodes"] = lock.nodes.into();
            json["owner"] = lock.owner.clone().into();
            json["waiters"] = is_told.then_some(lock.waiters).into();
            who::add_json(&mut json, lock.owner_parts.as_ref());
            print_json(&json)?;
        }
    } else {
        stdout::print(table(&listing.locks, standings.len(), is_told).as_bytes())?;
    }
    let out = standings.iter().filter_map(|node| node.standing.quarantine());
    let reports = reports_on(&observer, out).await;
    let users: Vec<String> = settings.nodes().iter().map(|url| user_in(url)).collect();
    let typed = settings.typed();
    Ok(complain(&listing, &standings, &reports, (&observer, &users, typed), say))
}

/// Formats locks in columns. Who waits for them is known only if a majority answered.
pub(crate) fn table(locks: &[Listed], nodes: usize, is_told: bool) -> String {
    if locks.is_empty() {
        return String::new();
    }
    let head = HEAD.map(String::from);
    let rows: Vec<_> =
        [head].into_iter().chain(locks.iter().map(|lock| row(lock, nodes, is_told))).collect();
    let widths: [usize; HEAD.len()] =
        std::array::from_fn(|column| rows.iter().map(|row| row[column].width()).max().unwrap_or(0));
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().map(|cell| if cell.is_empty() { "-" } else { cell });
        let blanks = |cell: &str, width: usize| " ".repeat(width.saturating_sub(cell.width()) + 2);
        let cells = cells.zip(widths).map(|(cell, width)| format!("{cell}{}", blanks(cell, width)));
        let _ = writeln!(text, "{}", cells.collect::<String>().trim_end());
    }
    text
}

const HEAD: [&str; 9] = [
    "NAME",
    "HELD BY",
    "USER",
    "COMMAND",
    "SINCE",
    "EXPIRES IN",
    "WAITING",
    "NODES",
    "FENCING TOKEN",
];

fn row(lock: &Listed, nodes: usize, is_told: bool) -> [String; HEAD.len()] {
    let said = |text: Option<String>| text.map_or(String::new(), |text| plain(&text).into_owned());
    let owner = said(lock.owner.clone());
    let (owner, left, number) = match &lock.state {
        LockState::Held { remaining, fencing_token, .. } => {
            let owner = if owner.is_empty() { NAMELESS.into() } else { owner };
            (owner, remaining.map_or("never".into(), show), *fencing_token)
        }
        LockState::Reserved { .. } if owner.is_empty() => {
            ("(reserved)".into(), String::new(), None)
        }
        LockState::Reserved { .. } => (format!("(reserved for {owner})"), String::new(), None),
        LockState::Free if owner.is_empty() => ("(free)".into(), String::new(), None),
        LockState::Free => (format!("(free; left by {owner})"), String::new(), None),
        _ if owner.is_empty() => ("unclear".into(), String::new(), None),
        _ => (format!("{owner}, unclear"), String::new(), None),
    };
    let parts = lock.owner_parts.clone().unwrap_or_default();
    [
        name::shown(lock.name.as_bytes()),
        owner,
        said(parts.user),
        said(parts.command),
        parts.since.map_or(String::new(), who::when),
        left,
        if is_told { lock.waiters.to_string() } else { "?".into() },
        format!("{} of {nodes}", lock.nodes),
        number.map_or(String::new(), |number| number.to_string()),
    ]
}

/// Whether a majority of the nodes listed all locks and has forgotten none.
pub(crate) fn is_all(listing: &Listing, standings: &[NodeStanding]) -> bool {
    let has_failed = |node: &str| listing.failed.iter().any(|(failed, _)| **failed == *node);
    let tells =
        |node: &&NodeStanding| node.standing.quarantine().is_none() && !has_failed(&node.node);
    standings.iter().filter(tells).count() > standings.len() / 2
}

/// Says which nodes may be missing locks, or could not list them.
fn complain(
    listing: &Listing,
    standings: &[NodeStanding],
    reports: &[Examined],
    (observer, users, typed): (&Observer, &[String], &str),
    say: Say,
) -> Exit {
    let has_failed = |node: &str| listing.failed.iter().any(|(failed, _)| **failed == *node);
    let out: Vec<_> = standings
        .iter()
        .filter_map(|node| match &node.standing {
            Standing::Quarantined(out) if !has_failed(&node.node) => Some((&node.node, out)),
            _ => None,
        })
        .collect();
    let exit = if is_all(listing, standings) { Exit::Done } else { Exit::NoMajority };
    for (name, out) in out {
        let (node, quarantined_for) = (observer.label(name), quarantined_for(name, out, reports));
        let cause = cause_for(observer, &out.cause);
        let words = format!("{node} does not count: {quarantined_for}; {cause}");
        say.say(&Event::failed(to_paste(&words, typed), exit));
    }
    let user_of = |node: &str| {
        let at = observer.nodes().position(|name| name == node);
        at.and_then(|at| users.get(at)).map_or(ANY_USER, String::as_str)
    };
    for (node, fault) in &listing.failed {
        let words = format!("{}: {}", observer.label(node), why_unlisted(fault, user_of(node)));
        say.say(&Event::failed(words, exit));
    }
    let mut left_out: BTreeMap<(usize, &str), Vec<_>> = BTreeMap::new();
    for (node, keys) in &listing.unread {
        left_out.entry((*keys, user_of(node))).or_default().push(observer.label(node));
    }
    for ((keys, user), nodes) in left_out {
        let (nodes, grant) = (nodes.join(", "), grant_reading(user));
        let words = format!("{nodes}: left out: {}; {grant}", unread(keys));
        say.say(&Event::failed(words, exit));
    }
    exit
}

/// Says that keys that may be locks cannot be listed.
pub(crate) fn unread(keys: usize) -> String {
    match keys {
        1 => "1 key that this user may not read and that may be a lock".into(),
        many => format!("{many} keys that this user may not read and that may be locks"),
    }
}

/// How to let a user list the locks whose names they may not lock.
pub(crate) fn grant_reading(user: &str) -> String {
    format!("to list all (from Redis 7 on): ACL SETUSER {user} %R~*")
}

/// Stands for a user whose name is not at hand.
pub(crate) const ANY_USER: &str = "…";

/// Why a node does not list its locks to this user. Listing needs a permission that locking
/// doesn't, and the servers' messages (three variants so far) don't name it. A user who
/// lacks any other permission learns that when connecting.
pub(crate) fn why_unlisted(fault: &Fault, user: &str) -> String {
    let words = reason(fault);
    let denials = ["NOPERM", "ACL failure", "can't run this command"];
    let is_denied = denials.iter().any(|denial| words.contains(denial));
    // That this user may not access a key is a different problem.
    if is_denied && !words.contains(" key") && matches!(fault, Fault::Refused(_)) {
        format!("this user may not list locks; grant it: ACL SETUSER {user} +scan")
    } else if matches!(fault, Fault::Unfit(_) | Fault::WrongAddress(_)) {
        failed_text(fault)
    } else {
        words
    }
}
