package leasehold.interop;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.LongStream;

import org.apache.curator.framework.CuratorFramework;

/** Many threads that lock at the same time. */
final class Crowd {
    private final CuratorFramework client;
    private final String kind;

    Crowd(CuratorFramework client, String kind) {
        this.client = client;
        this.kind = kind;
    }

    /** Each on a name of its own; how long a lock with its unlock takes. */
    String bench(int tasks, long millis) throws Exception {
        long start = System.nanoTime();
        long[] all = run(tasks, millis).stream().flatMapToLong(Arrays::stream).sorted().toArray();
        double seconds = (System.nanoTime() - start) / 1e9;
        return "{\"ops\":" + all.length + ",\"seconds\":" + seconds + ",\"p50_ns\":" + all[all.length / 2]
                + ",\"p99_ns\":" + all[all.length * 99 / 100] + "}";
    }

    private List<long[]> run(int tasks, long millis) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(tasks);
        try {
            List<Callable<long[]>> calls = new ArrayList<>();
            for (int task = 0; task < tasks; task++) {
                String path = "/bench/" + kind.replace(':', '_') + "/" + task;
                calls.add(() -> pairs(Door.open(client, kind, path), millis));
            }
            List<long[]> results = new ArrayList<>();
            for (Future<long[]> done : threads.invokeAll(calls)) {
                results.add(done.get());
            }
            return results;
        } finally {
            threads.shutdown();
        }
    }

    private static long[] pairs(Door door, long millis) throws Exception {
        LongStream.Builder samples = LongStream.builder();
        long end = System.nanoTime() + millis * 1_000_000;
        for (long now = System.nanoTime(); now < end; ) {
            door.lock(0);
            door.unlock();
            long then = System.nanoTime();
            samples.add(then - now);
            now = then;
        }
        return samples.build().toArray();
    }
}
