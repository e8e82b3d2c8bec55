package org.apache.curator.framework.recipes.locks;

/** Tells the node of a mutex, which Curator shows to its own package only. */
public final class Node {
    private Node() {}

    public static String of(InterProcessMutex lock) {
        return lock.getLockPath();
    }
}
