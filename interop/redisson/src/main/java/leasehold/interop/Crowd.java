package leasehold.interop;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.LongStream;

import org.redisson.api.RBucket;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/** Many threads that lock at the same time. */
final class Crowd {
    private final RedissonClient client;
    private final String kind;

    Crowd(RedissonClient client, String kind) {
        this.client = client;
        this.kind = kind;
    }

    /** All on one name; each adds one to a counter in two steps while it holds. */
    String contend(String name, int tasks, long millis) throws Exception {
        RBucket<String> counter = client.getBucket(name + ":counter", StringCodec.INSTANCE);
        List<long[]> did = run(tasks, task -> {
            Door door = Door.open(client, kind, name);
            return new long[] {count(door, counter, millis)};
        });
        return "did " + did.stream().flatMapToLong(Arrays::stream).sum();
    }

    private static long count(Door door, RBucket<String> counter, long millis) throws Exception {
        long end = System.nanoTime() + millis * 1_000_000;
        long did = 0;
        while (System.nanoTime() < end) {
            if (door.lock((end - System.nanoTime()) / 1_000_000, 0) != null) {
                String before = counter.get();
                counter.set(Long.toString(before == null ? 1 : Long.parseLong(before) + 1));
                did++;
                if (!door.unlock()) {
                    throw new IllegalStateException("lost while it was held");
                }
            }
        }
        return did;
    }

    /** Each on a name of its own; how long a lock with its unlock takes. */
    String bench(int tasks, long millis) throws Exception {
        long start = System.nanoTime();
        List<long[]> samples = run(tasks, task -> pairs(Door.open(client, kind, "bench:" + task), millis));
        double seconds = (System.nanoTime() - start) / 1e9;
        long[] all = samples.stream().flatMapToLong(Arrays::stream).sorted().toArray();
        return "{\"ops\":" + all.length + ",\"seconds\":" + seconds + ",\"p50_ns\":" + all[all.length / 2]
                + ",\"p99_ns\":" + all[all.length * 99 / 100] + "}";
    }

    private static long[] pairs(Door door, long millis) throws Exception {
        LongStream.Builder samples = LongStream.builder();
        long end = System.nanoTime() + millis * 1_000_000;
        for (long now = System.nanoTime(); now < end; ) {
            door.lock(0, 0);
            door.unlock();
            long then = System.nanoTime();
            samples.add(then - now);
            now = then;
        }
        return samples.build().toArray();
    }

    private interface Work {
        long[] of(int task) throws Exception;
    }

    private static List<long[]> run(int tasks, Work work) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(tasks);
        try {
            List<Callable<long[]>> calls = new ArrayList<>();
            for (int task = 0; task < tasks; task++) {
                int number = task;
                calls.add(() -> work.of(number));
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
}
