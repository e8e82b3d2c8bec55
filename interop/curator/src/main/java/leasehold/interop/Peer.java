package leasehold.interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.retry.RetryNTimes;

/** Curator behind the line protocol of interop/README.md. */
public final class Peer {
    private static final int SESSION = Integer.getInteger("session", 10_000);

    private final CuratorFramework client;
    private final Map<String, Door> doors = new HashMap<>();

    private Peer(CuratorFramework client) {
        this.client = client;
    }

    public static void main(String[] args) throws Exception {
        // Patient enough for a leader to be elected.
        RetryNTimes patient = new RetryNTimes(200, 100);
        CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], SESSION, SESSION, patient);
        client.start();
        client.blockUntilConnected();
        System.out.println("ready");
        new Peer(client).serve();
        client.close();
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
                case "lock" -> lock(words[1], words[2], number(words[3]));
                case "unlock" -> unlock(words[1], words[2]);
                case "node" -> "node " + door(words[1], words[2]).node();
                case "asked" -> "asked " + door(words[1], words[2]).asked();
                case "ask" -> ask(words[1]);
                case "leader" -> "leader " + new LeaderLatch(client, words[1]).getLeader().getId();
                case "session" -> "session " + client.getZookeeperClient().getZooKeeper().getSessionId();
                case "bench" -> new Crowd(client, words[1]).bench((int) number(words[2]), number(words[3]));
                default -> "error unknown command " + words[0];
            };
        } catch (Exception error) {
            return "error " + String.valueOf(error).replace('\n', ' ');
        }
    }

    private String lock(String kind, String name, long wait) throws Exception {
        Door door = door(kind, name);
        return door.lock(wait) ? "granted " + czxid(door.node()) + " " + System.nanoTime() : "busy";
    }

    /** The change that made the node; "-" if it has gone already. */
    private String czxid(String node) throws Exception {
        var stat = node == null ? null : client.checkExists().forPath(node);
        return stat == null ? "-" : Long.toString(stat.getCzxid());
    }

    /** Curator does not tell whether its node was still there, so we look. */
    private String unlock(String kind, String name) throws Exception {
        long before = System.nanoTime();
        Door door = door(kind, name);
        boolean held = !czxid(door.node()).equals("-");
        door.unlock();
        return held ? "released " + before : "lost";
    }

    /** Asks whoever made the node to let go. */
    private String ask(String node) throws Exception {
        Revoker.attemptRevoke(client, node);
        return "done";
    }

    /** The same object for lock and unlock: it remembers what it holds. */
    private Door door(String kind, String name) {
        return doors.computeIfAbsent(kind + " " + name, unused -> Door.open(client, kind, name));
    }

    private static long number(String word) {
        return Long.parseLong(word);
    }
}
