"use strict";
// Polls the snapshot and shows it. All text is set as text, never as markup.

const byId = (id) => document.getElementById(id);
const state = { filter: "", sort: "trouble", open: null, grants: null, mayRelease: false, timer: 0, turn: 0, since: null };

// Characters that cannot be seen, or change the direction, are shown by their numbers.
const hidden = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]|(?! )\p{Zs}/gu;
const short = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };
const visible = (text) => text.replace(hidden, (c) => short[c] ?? `\\u{${c.codePointAt(0).toString(16)}}`);
// What the command says in words: one line.
const said = async (answer) => (await answer.text()).trimEnd();

function make(tag, text, kind) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = visible(text);
  if (kind) element.className = kind;
  return element;
}

// Sets the text only if it differs: a screen reader would read it again.
function set(element, text, kind) {
  const shown = visible(text);
  if (element.textContent !== shown) element.textContent = shown;
  if (kind !== undefined && element.className !== kind) element.className = kind;
}

function span(ms) {
  const seconds = ms / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  const [minutes, hours, days] = [60, 3600, 86400].map((unit) => Math.floor(seconds / unit));
  if (minutes < 60) return `${minutes} m ${Math.floor(seconds % 60)} s`;
  return hours < 24 ? `${hours} h ${minutes % 60} m` : `${days} d ${hours % 24} h`;
}

function offset(ms) {
  const size = Math.abs(ms);
  const sign = size < 0.5 ? "" : ms < 0 ? "−" : "+";
  return size < 1000 ? `${sign}${Math.round(size)} ms` : `${sign}${span(size)}`;
}

const clock = (date) => date.toLocaleTimeString([], { hour12: false });
const isToday = (date) => date.toDateString() === new Date().toDateString();
const moment = (date) => (isToday(date) ? clock(date) : `${date.toLocaleDateString()} ${clock(date)}`);

// Rows of a table by key, so that focus and selection survive an update.
function rows(body, items, key, cells) {
  const known = new Map([...body.rows].map((row) => [row.dataset.key, row]));
  const wanted = items.map((item) => {
    const row = known.get(key(item)) ?? make("tr");
    row.dataset.key = key(item);
    cells(row, item);
    return row;
  });
  const isSame = wanted.length === body.rows.length && wanted.every((row, at) => row === body.rows[at]);
  if (!isSame) body.replaceChildren(...wanted);
}

function cell(row, at, text, kind = "") {
  const element = row.cells[at] ?? row.appendChild(make(at === 0 ? "th" : "td"));
  if (at === 0) element.scope = "row";
  if (element.className !== kind) element.className = kind;
  if (text !== null) set(element, text);
  return element;
}

function tagged(row, at, text, kind) {
  const element = cell(row, at, null);
  if (!element.firstElementChild) element.replaceChildren(make("span"));
  set(element.firstElementChild, text, `tag ${kind}`);
}

function showVerdict(seen) {
  const nodes = seen.nodes.length;
  const isBroken = seen.votes < seen.majority;
  const level = isBroken ? "problem" : seen.findings[0]?.level ?? "good";
  const count = seen.findings.length;
  const words = isBroken ? "No lock can be taken"
    : level === "problem" ? "Broken" : count ? "Degraded, but locks work" : "All is well";
  byId("verdict").className = `verdict ${level}`;
  set(byId("verdict").querySelector("h1"), words);
  set(byId("when"), `${seen.votes} of ${nodes} nodes vote · ${clock(new Date(seen.time))}`);
  document.title = `${count ? `(${count}) ` : ""}${words} – redlatch`;
  byId("wrong").hidden = count === 0;
  byId("wrong").className = level;
  const findings = seen.findings.map((finding) => {
    const item = make("li", undefined, finding.level);
    item.append(make("strong", `${finding.node ? `${finding.node}: ` : ""}${finding.words}`));
    if (finding.fix) item.append(make("span", finding.fix, "fix"));
    return item;
  });
  const text = JSON.stringify(seen.findings);
  if (byId("findings").dataset.shown !== text) byId("findings").replaceChildren(...findings);
  byId("findings").dataset.shown = text;
}

function showNumbers(seen) {
  const { lost, unseen, since } = seen.losses ?? {};
  // No majority tells, or this is the first look.
  const unknown = seen.is_complete ? "–" : "?";
  const numbers = [
    ["Locks held", seen.held ?? "?", !seen.is_complete],
    ["Waiting in line", seen.waiting ?? "?", !seen.is_complete],
    ["Taken per second", seen.rates?.taken_per_second.toFixed(1) ?? unknown, false],
    [since ? `Lost since ${moment(new Date(since))}` : "Lost",
      !since ? unknown : unseen ? `${lost} to ${lost + unseen}` : lost, lost + unseen > 0],
  ];
  const list = byId("numbers");
  numbers.forEach(([name, value, isBad], at) => {
    let item = list.children[at];
    if (!item) {
      item = list.appendChild(make("div"));
      item.append(make("dt"), make("dd"));
    }
    set(item.firstElementChild, name);
    set(item.lastElementChild, String(value));
    item.className = isBad ? "bad" : "";
  });
}

function showNodes(seen) {
  const kinds = { admitted: "good", quarantined: "warning", refusing: "problem", unusable: "problem", down: "problem" };
  rows(byId("nodes").tBodies[0], seen.nodes, (node) => node.node, (row, node) => {
    cell(row, 0, node.address ? `${node.node} (${node.address})` : node.node);
    const time = node.remaining_ms === null ? "" : `, ${span(node.remaining_ms)} left`;
    const left = node.has_begun === false ? ", not begun" : time;
    tagged(row, 1, node.standing + left, kinds[node.standing]);
    cell(row, 2, node.round_trip_ms === null ? "–" : `${node.round_trip_ms.toFixed(1)} ms`, "number wide");
    cell(row, 3, node.clock_ahead_s === null ? "–" : offset(node.clock_ahead_s * 1000), "number wide");
  });
}

const columns = [
  ["name", "Lock", "", (a, b) => a.name.localeCompare(b.name)],
  ["owner", "Held by", "", (a, b) => (a.owner ?? "").localeCompare(b.owner ?? "")],
  ["held", "Held for", "number", (a, b) => b.held_ms - a.held_ms],
  ["waiting", "Waiting", "number", (a, b) => b.waiters - a.waiters],
  ["ends", "Ends in", "number wide", (a, b) => (a.remaining_ms ?? Infinity) - (b.remaining_ms ?? Infinity)],
  ["nodes", "Nodes", "number wide", (a, b) => a.nodes - b.nodes],
];
// Only a minority of the nodes has it.
const isOnFew = (lock) => lock.state === "unclear" || lock.state === "free";
const trouble = (lock) => (isOnFew(lock) ? 0 : lock.is_renewed ? 2 : 1);
const byTrouble = (a, b) => trouble(a) - trouble(b) || b.waiters - a.waiters;
const detailsOf = (who) => [
  who.user && `user ${who.user}`, who.command && `command ${who.command}`,
  who.host && who.pid && (who.owner ?? "") !== `${who.host}/${who.pid}` && `${who.host}/${who.pid}`,
].filter(Boolean).join(" · ");

function makeHead() {
  const heads = columns.map(([key, title, kind]) => {
    const head = make("th", undefined, kind);
    head.scope = "col";
    const button = head.appendChild(make("button", title));
    button.type = "button";
    button.title = `Sort by ${title.toLowerCase()}; again: what is in trouble first`;
    button.addEventListener("click", () => {
      state.sort = state.sort === key ? "trouble" : key;
      markHead();
      poll();
    });
    return head;
  });
  byId("locks").tHead.rows[0].append(...heads);
}

function markHead() {
  columns.forEach(([key], at) => {
    const head = byId("locks").tHead.rows[0].cells[at];
    if (key === state.sort) head.setAttribute("aria-sort", ["held", "waiting"].includes(key) ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  });
}

function showOwner(row, lock) {
  const owner = lock.owner ?? "another owner";
  const words = { held: owner, reserved: `nobody; ${owner} is next`, unclear: `unclear: ${owner}`, free: `free; left by ${owner}` }[lock.state];
  const element = cell(row, 1, null);
  if (!element.firstElementChild) element.append(make("span"), make("span"));
  set(element.firstElementChild, words, isOnFew(lock) ? "tag warning" : "");
  set(element.lastElementChild, detailsOf(lock), "details");
}

function showLocks(seen) {
  const column = columns.find(([key]) => key === state.sort);
  const order = column ? column[3] : byTrouble;
  const locks = [...seen.locks].sort(order);
  rows(byId("locks").tBodies[0], locks, (lock) => lock.id, (row, lock) => {
    const name = cell(row, 0, null);
    if (!name.firstElementChild) {
      const button = name.appendChild(make("button", lock.name, "name"));
      button.type = "button";
      button.addEventListener("click", () => openLock(row.dataset.key));
    }
    showOwner(row, lock);
    const isKnown = lock.since !== null || lock.state !== "held";
    cell(row, 2, `${isKnown ? "" : "> "}${span(lock.held_ms)}`, "number");
    cell(row, 3, lock.waiters === null ? "?" : String(lock.waiters || "–"), `number${lock.waiters ? " strong" : ""}`);
    const ends = isOnFew(lock) ? "–" : lock.remaining_ms === null ? "never" : span(lock.remaining_ms);
    cell(row, 4, lock.is_renewed ? ends : `${ends}, not renewed`, `number wide${lock.is_renewed ? "" : " warn-text"}`);
    const isPartial = lock.nodes < seen.nodes.length;
    cell(row, 5, `${lock.nodes} of ${seen.nodes.length}`, `number wide${isPartial ? " warn-text" : ""}`);
  });
  const shown = locks.length;
  set(byId("more"), seen.total === 0 ? (seen.is_complete ? "No locks." : "Locks are not known without a majority.")
    : shown < seen.matching ? `${shown} of ${seen.matching} are shown. Filter to find others.`
    : state.filter ? `${seen.matching} of ${seen.total} match.` : "");
}

function showChanges(seen) {
  byId("recent").hidden = seen.changes.length === 0;
  const newest = seen.changes[0];
  const key = newest ? `${newest.time} ${seen.changes.length}` : "";
  if (byId("changes").dataset.shown === key) return;
  byId("changes").dataset.shown = key;
  byId("changes").replaceChildren(...seen.changes.map((change) => {
    const item = make("li", undefined, change.kind);
    const time = make("time", clock(new Date(change.time)));
    time.dateTime = change.time;
    item.append(time, make("b", change.name), make("span", change.words));
    return item;
  }));
}

const ask = (path, options = {}) =>
  fetch(path, { ...options, cache: "no-store", signal: AbortSignal.timeout(15000) });

async function poll() {
  clearTimeout(state.timer);
  const turn = ++state.turn;
  let pause = 2000;
  try {
    const answer = await ask(`/snapshot?filter=${encodeURIComponent(state.filter)}`);
    if (!answer.ok) throw new Error(await said(answer));
    const seen = await answer.json();
    // Somebody typed in the meantime: a newer answer is on its way.
    if (turn !== state.turn) return;
    pause = seen.every_ms;
    state.mayRelease = seen.may_release;
    for (const show of [showVerdict, showNumbers, showNodes, showLocks, showChanges]) show(seen);
    if (state.open) await showLock();
    found();
  } catch (error) {
    lost();
  }
  if (turn === state.turn) state.timer = setTimeout(poll, pause);
}

function lost() {
  state.since ??= new Date();
  document.body.classList.add("lost");
  byId("contact").hidden = false;
  set(byId("contact"), `No contact with redlatch web since ${clock(state.since)}. What you see is old.`);
  document.title = "No contact – redlatch";
}

function found() {
  state.since = null;
  document.body.classList.remove("lost");
  byId("contact").hidden = true;
}

function openLock(id) {
  state.open = id;
  state.grants = null;
  set(byId("lock-title"), "");
  set(byId("lock-state"), "Asking the nodes …");
  set(byId("released"), "");
  byId("lock-nodes").replaceChildren();
  byId("release").hidden = true;
  byId("lock").showModal();
  poll();
}

function says(node) {
  if (node.reason !== undefined) return [`${node.state}: ${node.reason}`, "problem"];
  const out = node.quarantine ? `; quarantined: ${node.quarantine.reason}` : "";
  if (node.state === "reserved") return [`reserved for the next in line${node.owner ? `, ${node.owner}` : ""}${out}`, "warning"];
  if (node.state === "free") return [`free${out}`, out ? "warning" : "good"];
  const left = node.remaining_ms === null ? "for ever" : `for ${span(node.remaining_ms)} unless renewed`;
  return [`held by ${node.owner ?? "another owner"} ${left}${out}`, out ? "warning" : ""];
}

function showLine(lock) {
  const isKnown = lock.waiters !== null;
  byId("line").hidden = isKnown && lock.waiters === 0;
  set(byId("line-title"), `Waiting in line: ${isKnown ? lock.waiters : "not known without a majority"}`);
  const items = (lock.line ?? []).map((waiter) => {
    const words = [waiter.owner ?? "a client that did not say who it is", detailsOf(waiter), `since ${clock(new Date(waiter.since))}`];
    return make("li", words.filter(Boolean).join(" · "));
  });
  byId("waiters").replaceChildren(...items);
}

async function showLock() {
  const answer = await ask(`/lock?id=${state.open}`);
  if (!answer.ok) {
    set(byId("lock-state"), await said(answer));
    return;
  }
  const lock = await answer.json();
  set(byId("lock-title"), lock.name);
  const token = lock.fencing_token ? `, fencing token ${lock.fencing_token}` : "";
  const held = [`Held by ${lock.owner ?? "another owner"}`, detailsOf(lock), lock.since && `since ${clock(new Date(lock.since))}`];
  set(byId("lock-state"), lock.state === "held" ? held.filter(Boolean).join(" · ") + token
    : lock.state === "free" ? "Free" : lock.state === "reserved" ? "Not held; reserved for the next in line"
    : "Unclear: no majority of the nodes says the same");
  showLine(lock);
  showing(lock.grants);
  rows(byId("lock-nodes"), lock.nodes, (node) => node.node, (row, node) => {
    const [words, kind] = says(node);
    cell(row, 0, node.address ? `${node.node} (${node.address})` : node.node);
    cell(row, 1, words, kind);
  });
  byId("release").hidden = !state.mayRelease || lock.grants.length === 0;
}

// What is typed is meant for the holder that was shown while it was typed.
function showing(grants) {
  const isOther = state.grants !== null && state.grants.join() !== grants.join();
  if (isOther && byId("password").value !== "") {
    byId("password").value = "";
    set(byId("released"), "It has changed hands while you typed. Look again.");
  }
  state.grants = grants;
}

async function release(event) {
  event.preventDefault();
  const password = byId("password").value;
  byId("password").value = "";
  set(byId("released"), "Releasing …");
  try {
    const answer = await ask("/release", {
      method: "POST",
      headers: { "Content-Type": "application/json", Authorization: `Bearer ${password}` },
      body: JSON.stringify({ id: state.open, grants: state.grants }),
    });
    set(byId("released"), await said(answer));
  } catch (error) {
    set(byId("released"), "No contact with redlatch web: nobody knows whether it is released.");
  }
  poll();
}

makeHead();
byId("filter").addEventListener("input", (event) => { state.filter = event.target.value; poll(); });
byId("release").addEventListener("submit", release);
byId("close").addEventListener("click", () => byId("lock").close());
byId("lock").addEventListener("close", () => { state.open = null; byId("password").value = ""; });
poll();
