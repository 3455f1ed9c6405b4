// Node's `redis-semaphore` as a worker.

import Client from "ioredis";
import { RedlockMutex } from "redis-semaphore";
import { serve } from "./callers.mjs";

const clients = process.argv.slice(2).map((url) => new Client(url));
await Promise.all(clients.map((client) => client.ping()));

await serve(
  async (key) => {
    const mutex = new RedlockMutex(clients, key, { lockTimeout: 10_000 });
    await mutex.acquire();
    return mutex;
  },
  (mutex) => mutex.release(),
);
