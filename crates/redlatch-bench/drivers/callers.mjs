// Callers of a lock, for the drivers beside this file: orders come in on stdin,
// records go out on stdout. See src/wire.rs for both.

import { appendFileSync, statSync } from "node:fs";
import { createInterface } from "node:readline";

const now = () => Number(process.hrtime.bigint());
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const size = (path) => statSync(path, { throwIfNoEntry: false })?.size ?? 0;

// Libraries give up after some tries: waiting means to ask again.
async function ask(acquire, key, until) {
  while (now() < until) {
    const held = await acquire(key).catch(() => null);
    if (held) return held;
  }
  return null;
}

async function caller(order, number, acquire, release) {
  const turns = [];
  const key = order.own ? `${order.key}:${number}` : order.key;
  let next = number;
  let gaveUp = 0;
  await sleep((order.begin_ns - now()) / 1e6);
  while (now() < order.end_ns) {
    if (order.baton && size(order.baton) < next) {
      await sleep(1);
      continue;
    }
    const asked = now();
    const held = await ask(acquire, key, Math.min(asked + order.wait_ms * 1e6, order.end_ns));
    if (!held) {
      if (now() < order.end_ns) gaveUp += 1;
      continue;
    }
    const granted = now();
    if (order.baton) {
      appendFileSync(order.baton, ".");
      next += order.callers;
    }
    if (order.hold_us > 0) await sleep(order.hold_us / 1e3);
    const releasing = now();
    await release(held).catch(() => {});
    turns.push([asked, granted, releasing, now(), 0]);
  }
  return { turns, gaveUp };
}

// `acquire(key)` resolves to what `release` needs; it rejects when it gives up.
export async function serve(acquire, release) {
  console.log("ready");
  for await (const line of createInterface({ input: process.stdin })) {
    const order = JSON.parse(line);
    const before = process.cpuUsage();
    const all = Array.from({ length: order.tasks }, (_, task) =>
      caller(order, order.first + task, acquire, release),
    );
    const done = await Promise.all(all);
    const { user, system } = process.cpuUsage(before);
    const gaveUp = done.reduce((sum, one) => sum + one.gaveUp, 0);
    const callers = done.map((one) => one.turns);
    const record = { callers, gave_up: gaveUp, cpu_ns: 1000 * (user + system) };
    console.log(JSON.stringify(record));
  }
  process.exit(0);
}
