"""redis-py behind the line protocol of interop/README.md."""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import redis
from redis.exceptions import LockError

# redis-py gives no ttl unless told; nobody should use it so.
LEASE_MS = 10_000


class Peer:
    def __init__(self, address):
        host, port = address.split(":")
        self.client = redis.Redis(host=host, port=int(port))
        self.held = {}

    def lock(self, _kind, name, wait, lease):
        lock = self.client.lock(name, timeout=(int(lease) or LEASE_MS) / 1000)
        if not take(lock, int(wait) / 1000):
            return "busy"
        self.held[name] = lock
        return f"granted - {time.monotonic_ns()}"

    def unlock(self, _kind, name):
        before = time.monotonic_ns()
        try:
            self.held[name].release()
        except LockError:
            return "lost"
        return f"released {before}"

    def extend(self, _kind, name, lease):
        try:
            self.held[name].extend(int(lease) / 1000, replace_ttl=True)
        except LockError:
            return "lost"
        return "extended"

    def contend(self, _kind, name, tasks, millis):
        end = time.monotonic() + int(millis) / 1000
        did = crowd(int(tasks), lambda _: self.count(name, end))
        return f"did {sum(did)}"

    def count(self, name, end):
        """Adds to a counter in two steps for as long as there is time."""
        did = 0
        lock = self.client.lock(name, timeout=LEASE_MS / 1000)
        while (left := end - time.monotonic()) > 0:
            if take(lock, left):
                before = int(self.client.get(f"{name}:counter") or 0)
                self.client.set(f"{name}:counter", before + 1)
                did += 1
                lock.release()
        return did

    def bench(self, _kind, tasks, millis):
        start = time.monotonic_ns()
        end = start + int(millis) * 1_000_000
        samples = sorted(sum(crowd(int(tasks), lambda task: self.pairs(task, end)), []))
        seconds = (time.monotonic_ns() - start) / 1e9
        middle, late = samples[len(samples) // 2], samples[len(samples) * 99 // 100]
        report = {"ops": len(samples), "seconds": seconds, "p50_ns": middle, "p99_ns": late}
        return json.dumps(report)

    def pairs(self, task, end):
        samples, now = [], time.monotonic_ns()
        while now < end:
            lock = self.client.lock(f"bench:{task}", timeout=LEASE_MS / 1000)
            lock.acquire()
            lock.release()
            then = time.monotonic_ns()
            samples.append(then - now)
            now = then
        return samples


def take(lock, wait):
    if wait == 0:
        return lock.acquire(blocking=False)
    return lock.acquire(blocking_timeout=wait)


def crowd(tasks, work):
    with ThreadPoolExecutor(tasks) as threads:
        return list(threads.map(work, range(tasks)))


def answer(peer, words):
    verbs = {verb: getattr(peer, verb) for verb in ("lock", "unlock", "extend", "contend", "bench")}
    if words[0] not in verbs:
        return f"error unknown command {words[0]}"
    try:
        return verbs[words[0]](*words[1:])
    except Exception as error:
        return f"error {error!r}".replace("\n", " ")


def main():
    peer = Peer(sys.argv[1])
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip() == "quit":
            break
        print(answer(peer, line.split()), flush=True)


if __name__ == "__main__":
    main()
