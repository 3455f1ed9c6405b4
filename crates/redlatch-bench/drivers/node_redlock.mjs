// Node's `redlock` as a worker: orders come in on stdin, records go out on stdout.
// See src/contended/wire.rs for both.

import { appendFileSync, statSync } from "node:fs";
import { createInterface } from "node:readline";
import Client from "ioredis";
import Redlock from "redlock";

const clients = process.argv.slice(2).map((url) => new Client(url));
await Promise.all(clients.map((client) => client.ping()));
const redlock = new Redlock(clients);
redlock.on("error", () => {});

const now = () => Number(process.hrtime.bigint());
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const size = (path) => statSync(path, { throwIfNoEntry: false })?.size ?? 0;

async function acquire(order, deadline) {
  for (;;) {
    try {
      return await redlock.acquire([order.key], 10_000);
    } catch (error) {
      // It gives up after ten tries: waiting means to ask again.
      if (now() > deadline || now() > order.end_ns) return null;
    }
  }
}

async function caller(order, number) {
  const turns = [];
  let next = number;
  let gaveUp = 0;
  await sleep((order.begin_ns - now()) / 1e6);
  while (now() < order.end_ns) {
    if (order.baton && size(order.baton) < next) {
      await sleep(1);
      continue;
    }
    const asked = now();
    const lock = await acquire(order, asked + order.wait_ms * 1e6);
    if (!lock) {
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
    await lock.release().catch(() => {});
    turns.push([asked, granted, releasing, now(), 0]);
  }
  return { turns, gaveUp };
}

console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  const all = Array.from({ length: order.tasks }, (_, task) => caller(order, order.first + task));
  const done = await Promise.all(all);
  const gaveUp = done.reduce((sum, one) => sum + one.gaveUp, 0);
  console.log(JSON.stringify({ callers: done.map((one) => one.turns), gave_up: gaveUp }));
}
process.exit(0);
