package leasehold.interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;

import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson behind the line protocol of interop/README.md. */
public final class Peer {
    private final RedissonClient client;
    private final Map<String, Door> doors = new HashMap<>();

    private Peer(RedissonClient client) {
        this.client = client;
    }

    public static void main(String[] args) throws Exception {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://" + args[0]);
        Peer peer = new Peer(Redisson.create(config));
        System.out.println("ready");
        peer.serve();
        peer.client.shutdown();
    }

    private void serve() throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = in.readLine()) != null && !line.equals("quit")) {
            System.out.println(answer(line.trim().split(" ")));
        }
    }

    private String answer(String[] words) {
        try {
            return switch (words[0]) {
                case "lock" -> lock(words[1], words[2], number(words[3]), number(words[4]));
                case "unlock" -> unlock(door(words[1], words[2]));
                case "contend" -> new Crowd(client, words[1]).contend(words[2], (int) number(words[3]), number(words[4]));
                case "bench" -> new Crowd(client, words[1]).bench((int) number(words[2]), number(words[3]));
                default -> "error unknown command " + words[0];
            };
        } catch (Exception error) {
            return "error " + String.valueOf(error).replace('\n', ' ');
        }
    }

    private String lock(String kind, String name, long wait, long lease) throws InterruptedException {
        String token = door(kind, name).lock(wait, lease);
        return token == null ? "busy" : "granted " + token + " " + System.nanoTime();
    }

    private static String unlock(Door door) {
        long before = System.nanoTime();
        return door.unlock() ? "released " + before : "lost";
    }

    /** The same object for lock and unlock: it remembers what it holds. */
    private Door door(String kind, String name) {
        return doors.computeIfAbsent(kind + " " + name, unused -> Door.open(client, kind, name));
    }

    private static long number(String word) {
        return Long.parseLong(word);
    }
}
