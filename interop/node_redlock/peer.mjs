// node-redlock behind the line protocol of interop/README.md.

import readline from "node:readline";
import Redis from "ioredis";
import Redlock, { ExecutionError, ResourceLockedError } from "redlock";

const LEASE = 10_000;

const servers = process.argv[2].split(",").map((address) => {
  const [host, port] = address.split(":");
  const server = new Redis({ host, port: Number(port) });
  // A server that is away shows in the answers.
  return server.on("error", () => {});
});
// Only a lock is worth trying again; `take` says how often.
const redlock = new Redlock(servers, { retryCount: 0 });
// Every failed attempt is reported here as well as to its caller.
redlock.on("error", () => {});
const held = new Map();

const verbs = { lock, unlock, extend, contend, bench };

async function lock(_kind, name, wait, lease) {
  const taken = await take(name, Number(wait), Number(lease) || LEASE);
  if (!taken) return "busy";
  held.set(name, taken);
  return `granted - ${process.hrtime.bigint()}`;
}

async function take(name, wait, lease) {
  // The pause between attempts is 200 ms unless told.
  const retryCount = Math.ceil(wait / 200);
  try {
    return await redlock.acquire([name], lease, { retryCount });
  } catch (error) {
    if (error instanceof ExecutionError || error instanceof ResourceLockedError) return null;
    throw error;
  }
}

async function unlock(_kind, name) {
  const before = process.hrtime.bigint();
  try {
    await held.get(name).release();
    return `released ${before}`;
  } catch {
    return "lost";
  }
}

async function extend(_kind, name, lease) {
  try {
    held.set(name, await held.get(name).extend(Number(lease)));
    return "extended";
  } catch {
    return "lost";
  }
}

/** Adds to a counter in two steps, from many tasks on one name. */
async function contend(_kind, name, tasks, millis) {
  const end = Date.now() + Number(millis);
  const did = await crowd(Number(tasks), async () => {
    let did = 0;
    while (Date.now() < end) {
      const taken = await take(name, end - Date.now(), LEASE);
      if (!taken) continue;
      const before = Number((await servers[0].get(`${name}:counter`)) ?? 0);
      await servers[0].set(`${name}:counter`, before + 1);
      did += 1;
      await taken.release();
    }
    return did;
  });
  return `did ${did.reduce((sum, each) => sum + each, 0)}`;
}

async function bench(_kind, tasks, millis) {
  const start = process.hrtime.bigint();
  const end = start + BigInt(millis) * 1_000_000n;
  const samples = await crowd(Number(tasks), (task) => pairs(task, end));
  const seconds = Number(process.hrtime.bigint() - start) / 1e9;
  const all = samples.flat().sort((a, b) => a - b);
  const at = (part) => all[Math.floor(all.length * part)];
  return JSON.stringify({ ops: all.length, seconds, p50_ns: at(0.5), p99_ns: at(0.99) });
}

async function pairs(task, end) {
  const samples = [];
  for (let now = process.hrtime.bigint(); now < end; ) {
    const taken = await redlock.acquire([`bench:${task}`], LEASE);
    await taken.release();
    const then = process.hrtime.bigint();
    samples.push(Number(then - now));
    now = then;
  }
  return samples;
}

function crowd(tasks, work) {
  return Promise.all(Array.from({ length: tasks }, (_, task) => work(task)));
}

async function answer([verb, ...words]) {
  if (!(verb in verbs)) return `error unknown command ${verb}`;
  try {
    return await verbs[verb](...words);
  } catch (error) {
    return `error ${String(error).replaceAll("\n", " ")}`;
  }
}

console.log("ready");
for await (const line of readline.createInterface({ input: process.stdin })) {
  if (line.trim() === "quit") break;
  console.log(await answer(line.trim().split(" ")));
}
servers.forEach((server) => server.disconnect());
