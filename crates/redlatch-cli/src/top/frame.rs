//! A snapshot as lines: what is wrong, first.

use super::{
    text::{Cell, Line, Style, table, wrapped},
    view::{Page, View},
};
use crate::{
    doctor::{Finding, Level},
    duration::{brief, show},
    live::{Change, Kind, Lock, Node, Snapshot, Stands, State},
    local_time::LocalTime,
    plain::plain,
};

/// How much room there is, in columns and rows.
pub(super) type Room = (usize, usize);

/// How many changes are shown where there is room for them.
const RECENT: usize = 6;
/// The fewest rows that the table of locks has.
const FEWEST: usize = 4;

/// Everything, however long it is.
pub(super) fn whole(snapshot: &Snapshot) -> Vec<Line> {
    let view = View::default();
    let locks: Vec<&Lock> = view.locks(snapshot);
    let mut lines = vec![title(snapshot)];
    lines.extend(snapshot.findings.iter().flat_map(|found| finding(found, usize::MAX)));
    lines.push(Line::default());
    lines.extend(nodes(snapshot, None));
    lines.push(Line::default());
    lines.extend(lock_table(snapshot, &locks, None, None));
    let changes = recent(snapshot, snapshot.changes.len());
    if !changes.is_empty() {
        lines.push(Line::default());
        lines.extend(changes);
    }
    lines
}

/// What fits on a screen. `detail` is what the nodes say about the lock to show in
/// detail.
pub(super) fn screen(
    snapshot: &Snapshot,
    view: &View,
    detail: Option<&str>,
    (width, height): Room,
) -> Vec<Line> {
    let mut lines = vec![title(snapshot)];
    let room = height.saturating_sub(2);
    match view.page {
        Page::Help => lines.extend(HELP.lines().map(|line| Line::new(Style::Plain, line))),
        Page::One => lines.extend(one(snapshot, view, detail, width)),
        Page::All => all(&mut lines, snapshot, view, (width, room)),
    }
    lines.truncate(height.saturating_sub(1));
    lines.resize(height.saturating_sub(1), Line::default());
    lines.push(footer(view));
    lines
}

fn all(lines: &mut Vec<Line>, snapshot: &Snapshot, view: &View, (width, room): Room) {
    let wrong = snapshot.findings.iter().flat_map(|found| finding(found, width));
    let wrong: Vec<Line> = wrong.collect();
    let nodes = nodes(snapshot, Some(width));
    let most = (room.saturating_sub(nodes.len() + FEWEST + 2)).max(3);
    let left_out = wrong.len().saturating_sub(most);
    lines.extend(wrong.into_iter().take(most));
    if left_out > 0 {
        lines.push(Line::new(Style::Dim, format!("  and {left_out} more lines: redlatch doctor")));
    }
    lines.push(Line::default());
    lines.extend(nodes);
    lines.push(Line::default());
    let locks = view.locks(snapshot);
    let left = room.saturating_sub(lines.len());
    let fewest = FEWEST.min(locks.len().max(1));
    let changes = recent(snapshot, RECENT.min(left.saturating_sub(fewest + 3)));
    let below = if changes.is_empty() { 0 } else { changes.len() + 1 };
    let rows = left.saturating_sub(below + 1).max(1);
    // The cursor stays in sight.
    let at = view.position(&locks);
    let from = (at + 1).saturating_sub(rows);
    let shown = &locks[from.min(locks.len())..locks.len().min(from + rows)];
    let selected = view.selected.as_ref().map(|_| at - from);
    lines.extend(lock_table(snapshot, shown, Some(width), selected));
    if !changes.is_empty() {
        lines.push(Line::default());
        lines.extend(changes);
    }
}

fn title(snapshot: &Snapshot) -> Line {
    let (style, verdict) = match snapshot.worst() {
        _ if !snapshot.has_majority() => (Style::Bad, "NO LOCK CAN BE TAKEN"),
        Some(Level::Problem) => (Style::Bad, "BROKEN"),
        Some(_) => (Style::Warning, "DEGRADED"),
        None => (Style::Good, "OK"),
    };
    let known = |count: Option<usize>| count.map_or("?".into(), |count| count.to_string());
    let words = format!(
        "  {}  votes {} of {}  locks {}  waiting {}",
        LocalTime::of(snapshot.time).clock(),
        snapshot.votes,
        snapshot.nodes.len(),
        known(snapshot.held),
        known(snapshot.waiting),
    );
    let mut line =
        Line::new(Style::Bold, "redlatch  ").and(style, verdict).and(Style::Plain, words);
    // What matters more comes first: a narrow terminal cuts the rest.
    if let Some(losses) = &snapshot.losses {
        let style = if losses.is_any() { Style::Bad } else { Style::Plain };
        let since = LocalTime::of(losses.since).brief(LocalTime::of(snapshot.time));
        line = line
            .and(Style::Plain, "  ")
            .and(style, format!("lost {} since {since}", losses.count()));
    }
    if let Some(rates) = &snapshot.rates {
        line = line.and(Style::Plain, format!("  taken {:.1}/s", rates.taken_per_second));
    }
    line
}

fn finding(finding: &Finding, width: usize) -> Vec<Line> {
    let (style, mark) = match finding.level {
        Level::Problem => (Style::Bad, "✗ "),
        _ => (Style::Warning, "! "),
    };
    let node = finding.node.as_ref().map_or(String::new(), |node| format!("{node}: "));
    let words = format!("{mark}{}{}", plain(&node), plain(&finding.words));
    let words = wrapped(&words, width, 2).into_iter().map(|line| Line::new(style, line));
    let fix = finding.fix.iter().flat_map(|fix| wrapped(&format!("  → {}", plain(fix)), width, 4));
    words.chain(fix.map(|line| Line::new(Style::Dim, line))).collect()
}

fn nodes(snapshot: &Snapshot, width: Option<usize>) -> Vec<Line> {
    let rows: Vec<[Cell; 4]> = snapshot.nodes.iter().map(node).collect();
    table(["NODE", "STANDING", "ROUND TRIP", "CLOCK"], &rows, width)
}

fn node(node: &Node) -> [Cell; 4] {
    let standing = match (node.standing, node.left) {
        (Stands::Admitted, _) => (Style::Good, "admitted".into()),
        (Stands::Quarantined, _) if node.has_begun == Some(false) => {
            (Style::Warning, "quarantined, not begun".into())
        }
        (Stands::Quarantined, None) => (Style::Warning, "quarantined".into()),
        (Stands::Quarantined, Some(left)) => {
            (Style::Warning, format!("quarantined, {} left", show(left)))
        }
        (Stands::Refusing, _) => (Style::Bad, "refuses writes".into()),
        (Stands::Down | Stands::Unusable, _) => (Style::Bad, node.standing.word().into()),
    };
    let round_trip = node.round_trip.map(|time| format!("{:.1}ms", time.as_secs_f64() * 1e3));
    let clock = node.clock_ahead.map(|ahead| {
        // Not "-0ms".
        let ahead = if ahead.abs() < 5e-4 { 0.0 } else { ahead };
        if ahead.abs() < 1.0 { format!("{:+.0}ms", ahead * 1e3) } else { format!("{ahead:+.1}s") }
    });
    let plain = |text: Option<String>| (Style::Plain, text.unwrap_or_else(|| "-".into()));
    [(Style::Plain, node.label()), standing, plain(round_trip), plain(clock)]
}

fn lock_table(
    snapshot: &Snapshot,
    locks: &[&Lock],
    width: Option<usize>,
    selected: Option<usize>,
) -> Vec<Line> {
    if locks.is_empty() {
        let words = if snapshot.is_complete { "no locks" } else { "locks are not known" };
        return vec![Line::new(Style::Dim, words)];
    }
    let nodes = snapshot.nodes.len();
    let rows: Vec<[Cell; 7]> = locks.iter().map(|lock| lock_cells(lock, nodes)).collect();
    let head = ["LOCK", "HELD BY", "FOR", "WAITING", "ENDS IN", "NODES", "COMMAND"];
    let mut lines = table(head, &rows, width);
    if let Some(line) = selected.and_then(|at| lines.get_mut(at + 1)) {
        *line = std::mem::take(line).all(Style::Selected);
    }
    lines
}

fn lock_cells(lock: &Lock, nodes: usize) -> [Cell; 7] {
    let whose = &*plain(lock.whose());
    let owner = match lock.state {
        State::Held => (Style::Plain, whose.to_owned()),
        State::Reserved => (Style::Dim, format!("nobody; {whose} is next")),
        State::Free => (Style::Warning, format!("free; left by {whose}")),
        State::Unclear => (Style::Warning, format!("unclear: {whose}")),
    };
    let is_known = lock.since.is_some() || lock.state != State::Held;
    let held_for = format!("{}{}", if is_known { "" } else { ">" }, brief(lock.held_for));
    let waiting = match lock.waiters {
        None => (Style::Warning, "?".into()),
        Some(0) => (Style::Dim, "-".into()),
        Some(waiters) => (Style::Bold, waiters.to_string()),
    };
    let ends = match (lock.state, lock.remaining) {
        (state, _) if state.is_on_few() => (Style::Plain, "-".into()),
        (_, None) => (Style::Warning, "never".into()),
        (_, Some(left)) if lock.is_renewed => (Style::Plain, show(left)),
        (_, Some(left)) => (Style::Warning, format!("{}, not renewed", show(left))),
    };
    let style = if lock.on < nodes { Style::Warning } else { Style::Plain };
    let on = (style, format!("{} of {nodes}", lock.on));
    let command = (Style::Dim, plain(lock.command.as_deref().unwrap_or("-")).into_owned());
    let name = (Style::Bold, plain(&lock.name).into_owned());
    [name, owner, (Style::Plain, held_for), waiting, ends, on, command]
}

fn recent(snapshot: &Snapshot, most: usize) -> Vec<Line> {
    let changes: Vec<Line> = snapshot.changes.iter().take(most).map(change).collect();
    if changes.is_empty() {
        return changes;
    }
    [Line::new(Style::Dim, "RECENTLY")].into_iter().chain(changes).collect()
}

fn change(change: &Change) -> Line {
    let style = match change.kind {
        Kind::Lost | Kind::Unseen | Kind::Trouble => Style::Bad,
        Kind::Back => Style::Good,
        Kind::Taken | Kind::Freed => Style::Plain,
    };
    let time = LocalTime::of(change.time).clock();
    Line::new(Style::Dim, format!("{time}  "))
        .and(Style::Bold, format!("{}  ", plain(&change.name)))
        .and(style, plain(&change.words))
}

/// One lock, node by node, and what happened to it.
fn one(snapshot: &Snapshot, view: &View, detail: Option<&str>, width: usize) -> Vec<Line> {
    let lock = snapshot.locks.iter().find(|lock| Some(&lock.id) == view.selected.as_ref());
    let mut lines = vec![Line::default()];
    if let Some(lock) = lock {
        lines.extend(lock_table(snapshot, &[lock], Some(width), None));
        lines.push(Line::default());
    }
    match detail {
        Some(detail) => lines.extend(detail.lines().map(|line| Line::new(Style::Plain, line))),
        None => lines.push(Line::new(Style::Dim, "asking the nodes …")),
    }
    let name = lock.map(|lock| &lock.name);
    let its = snapshot.changes.iter().filter(|change| Some(&change.name) == name);
    let its: Vec<Line> = its.map(change).collect();
    if !its.is_empty() {
        lines.extend([Line::default(), Line::new(Style::Dim, "RECENTLY")]);
        lines.extend(its);
    }
    lines
}

fn footer(view: &View) -> Line {
    if view.is_typing {
        return Line::new(Style::Bold, format!("filter: {}▏", view.filter))
            .and(Style::Dim, "  Enter keeps it, Esc removes it");
    }
    let keys = match view.page {
        Page::All => "q quit  ↑↓ choose  Enter look into it  / filter  s sort  ? help",
        Page::One => "q quit  Esc back  ? help",
        Page::Help => "q quit  Esc back",
    };
    let mut line = Line::new(Style::Dim, keys);
    if view.page == Page::All {
        line = line.and(Style::Dim, format!("  sorted by {}", view.sort.word()));
    }
    if !view.filter.is_empty() {
        line = line.and(Style::Bold, format!("  only \"{}\"", view.filter));
    }
    line
}

const HELP: &str = "
  ↑ ↓  k j       choose a lock; PgUp, PgDn, Home, End
  Enter          look into it: what each node says, who waits
  /              show only locks whose name or owner contains some text
  s              sort by trouble, name, age, waiters, what ends first
  Esc            back; removes the filter
  q              quit

  votes          nodes that may vote; no lock can be taken without a majority
  taken, lost    as seen between two looks: there may have been more
  lost 0 to 2    two were gone after an outage: released or lost, nobody could see
  FOR            how long its holder has had it; > if only we have watched it
  WAITING        how many wait in line for it
  ?              not known without a majority
  ENDS IN        if nobody renews it; `run` renews its lock all the time
  free           a majority of the nodes does not have it; some still do
  unclear        only a minority of the nodes has it, and no majority denies it

  redlatch doctor says more about nodes, redlatch log about past jobs.
";
