// Node's `redlock` as a worker.

import Client from "ioredis";
import Redlock from "redlock";
import { serve } from "./callers.mjs";

const clients = process.argv.slice(2).map((url) => new Client(url));
await Promise.all(clients.map((client) => client.ping()));
const redlock = new Redlock(clients);
redlock.on("error", () => {});

await serve(
  (key) => redlock.acquire([key], 10_000),
  (lock) => lock.release(),
);
