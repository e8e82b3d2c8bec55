package leasehold.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Node;

/** One lock, whatever its kind. */
abstract class Door {
    /** Whether it is ours after waiting so long. */
    abstract boolean lock(long wait) throws Exception;

    abstract void unlock() throws Exception;

    /** The node of what is held; null if nothing is. */
    abstract String node() throws Exception;

    /** Whether somebody has asked for it back. */
    boolean asked() {
        return false;
    }

    static Door open(CuratorFramework client, String kind, String path) {
        String[] parts = kind.split(":");
        return switch (parts[0]) {
            case "mutex" -> new Mutex(new InterProcessMutex(client, path));
            case "revocable" -> new Revocable(new InterProcessMutex(client, path));
            case "read" -> new Mutex(new InterProcessReadWriteLock(client, path).readLock());
            case "write" -> new Mutex(new InterProcessReadWriteLock(client, path).writeLock());
            case "semaphore" -> new Permits(client, path, Integer.parseInt(parts[1]));
            case "semaphore_mutex" -> new Single(client, path);
            case "latch" -> new Latch(client, path);
            default -> throw new IllegalArgumentException("no kind " + kind);
        };
    }

    private static class Mutex extends Door {
        private final InterProcessMutex lock;

        Mutex(InterProcessMutex lock) {
            this.lock = lock;
        }

        @Override
        boolean lock(long wait) throws Exception {
            return lock.acquire(wait, MILLISECONDS);
        }

        @Override
        void unlock() throws Exception {
            lock.release();
        }

        @Override
        String node() {
            return Node.of(lock);
        }
    }

    private static final class Revocable extends Mutex {
        private final AtomicBoolean asked = new AtomicBoolean();

        Revocable(InterProcessMutex lock) {
            super(lock);
            lock.makeRevocable(unused -> asked.set(true));
        }

        @Override
        boolean asked() {
            return asked.get();
        }
    }

    /** What a holder holds, the newest last: it is given back first. */
    private static final class Permits extends Door {
        private final InterProcessSemaphoreV2 semaphore;
        private final String path;
        private final Deque<Lease> held = new ArrayDeque<>();

        Permits(CuratorFramework client, String path, int count) {
            this.semaphore = new InterProcessSemaphoreV2(client, path, count);
            this.path = path;
        }

        @Override
        boolean lock(long wait) throws Exception {
            Lease lease = semaphore.acquire(wait, MILLISECONDS);
            if (lease != null) {
                held.addLast(lease);
            }
            return lease != null;
        }

        @Override
        void unlock() {
            semaphore.returnLease(held.removeLast());
        }

        @Override
        String node() throws Exception {
            return held.isEmpty() ? null : path + "/leases/" + held.peekLast().getNodeName();
        }
    }

    /** A lock that is held for as long as it leads. A latch is good for one time. */
    private static final class Latch extends Door {
        private final CuratorFramework client;
        private final String path;
        private LeaderLatch latch;

        Latch(CuratorFramework client, String path) {
            this.client = client;
            this.path = path;
        }

        @Override
        boolean lock(long wait) throws Exception {
            latch = new LeaderLatch(client, path, "java");
            latch.start();
            boolean leads = latch.await(wait, MILLISECONDS);
            if (!leads) {
                latch.close();
            }
            return leads;
        }

        @Override
        void unlock() throws Exception {
            latch.close();
        }

        @Override
        String node() throws Exception {
            long session = client.getZookeeperClient().getZooKeeper().getSessionId();
            for (String child : client.getChildren().forPath(path)) {
                var stat = client.checkExists().forPath(path + "/" + child);
                if (stat != null && stat.getEphemeralOwner() == session) {
                    return path + "/" + child;
                }
            }
            return null;
        }
    }

    /** It does not tell its node; there is one at most. */
    private static final class Single extends Door {
        private final CuratorFramework client;
        private final InterProcessSemaphoreMutex lock;
        private final String path;

        Single(CuratorFramework client, String path) {
            this.client = client;
            this.lock = new InterProcessSemaphoreMutex(client, path);
            this.path = path;
        }

        @Override
        boolean lock(long wait) throws Exception {
            return lock.acquire(wait, MILLISECONDS);
        }

        @Override
        void unlock() throws Exception {
            lock.release();
        }

        @Override
        String node() throws Exception {
            List<String> leases = client.getChildren().forPath(path + "/leases");
            return leases.isEmpty() ? null : path + "/leases/" + leases.get(0);
        }
    }
}
