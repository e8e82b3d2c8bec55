package leasehold.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.ArrayDeque;

import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RedissonClient;

/** One lock, whatever its kind. */
interface Door {
    /** Redisson renews a lease without an end of its own. */
    long RENEWED = -1;

    /** The token of the grant ("-" if the kind has none), or null if it is busy. */
    String lock(long wait, long lease) throws InterruptedException;

    /** Whether it was still ours. */
    boolean unlock();

    static Door open(RedissonClient client, String kind, String name) {
        String[] parts = kind.split(":");
        return switch (parts[0]) {
            case "lock" -> plain(client.getLock(name));
            case "fair" -> plain(client.getFairLock(name));
            case "spin" -> plain(client.getSpinLock(name));
            case "read" -> plain(client.getReadWriteLock(name).readLock());
            case "write" -> plain(client.getReadWriteLock(name).writeLock());
            case "fenced" -> fenced(client.getFencedLock(name));
            case "semaphore" -> permits(client.getPermitExpirableSemaphore(name), Integer.parseInt(parts[1]));
            default -> throw new IllegalArgumentException("no kind " + kind);
        };
    }

    private static Door plain(RLock lock) {
        return new Door() {
            @Override
            public String lock(long wait, long lease) throws InterruptedException {
                return lock.tryLock(wait, lease > 0 ? lease : RENEWED, MILLISECONDS) ? "-" : null;
            }

            @Override
            public boolean unlock() {
                return unlocked(lock);
            }
        };
    }

    private static Door fenced(RFencedLock lock) {
        return new Door() {
            @Override
            public String lock(long wait, long lease) {
                Long token = lock.tryLockAndGetToken(wait, lease > 0 ? lease : RENEWED, MILLISECONDS);
                return token == null ? null : token.toString();
            }

            @Override
            public boolean unlock() {
                return unlocked(lock);
            }
        };
    }

    /** Permits have no owner: the ids are what a holder holds, the oldest first. */
    private static Door permits(RPermitExpirableSemaphore semaphore, int count) {
        semaphore.trySetPermits(count);
        ArrayDeque<String> held = new ArrayDeque<>();
        return new Door() {
            @Override
            public String lock(long wait, long lease) throws InterruptedException {
                String id = semaphore.tryAcquire(wait, lease > 0 ? lease : 30_000, MILLISECONDS);
                if (id != null) {
                    held.add(id);
                }
                return id == null ? null : "-";
            }

            @Override
            public boolean unlock() {
                return semaphore.tryRelease(held.remove());
            }
        };
    }

    private static boolean unlocked(RLock lock) {
        try {
            lock.unlock();
            return true;
        } catch (IllegalMonitorStateException lost) {
            return false;
        }
    }
}
