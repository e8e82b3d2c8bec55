// Package main is Go's concurrency package of etcd behind the line protocol of
// interop/README.md.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// What a lease lives that asks for nothing, in seconds.
const lease = 10

type peer struct {
	client *clientv3.Client
	held   map[string]held
}

// held is a mutex, and the session that it lives on.
type held struct {
	session *concurrency.Session
	mutex   *concurrency.Mutex
}

func main() {
	config := clientv3.Config{Endpoints: strings.Split(os.Args[1], ","), DialTimeout: 10 * time.Second}
	client, err := clientv3.New(config)
	if err != nil {
		panic(err)
	}
	p := &peer{client: client, held: map[string]held{}}
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan() && in.Text() != "quit"; {
		fmt.Println(p.answer(strings.Fields(in.Text())))
	}
}

func (p *peer) answer(words []string) string {
	switch words[0] {
	case "lock":
		return p.lock(words[2], millis(words[3]), millis(words[4]))
	case "unlock":
		return p.unlock(words[2])
	case "node":
		return "node " + p.held[words[2]].mutex.Key()
	case "bench":
		return p.bench(number(words[2]), millis(words[3]))
	default:
		return "error unknown command " + words[0]
	}
}

func (p *peer) lock(name string, wait, ttl time.Duration) string {
	seconds := max(int(ttl/time.Second), 1)
	if ttl == 0 {
		seconds = lease
	}
	session, err := concurrency.NewSession(p.client, concurrency.WithTTL(seconds))
	if err != nil {
		return failure(err)
	}
	mutex := concurrency.NewMutex(session, name)
	if err := take(mutex, wait); err != nil {
		session.Close()
		return refusal(err)
	}
	p.held[name] = held{session, mutex}
	return p.granted(mutex)
}

// take waits at most that long; not at all if it is zero.
func take(mutex *concurrency.Mutex, wait time.Duration) error {
	if wait == 0 {
		return mutex.TryLock(context.Background())
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	return mutex.Lock(ctx)
}

// granted tells the revision that made the key: who has a smaller one came earlier.
func (p *peer) granted(mutex *concurrency.Mutex) string {
	at := monotonic()
	found, err := p.client.Get(context.Background(), mutex.Key())
	if err != nil {
		return failure(err)
	}
	if len(found.Kvs) == 0 {
		return fmt.Sprintf("granted - %d", at)
	}
	return fmt.Sprintf("granted %d %d", found.Kvs[0].CreateRevision, at)
}

func refusal(err error) string {
	if errors.Is(err, concurrency.ErrLocked) || errors.Is(err, context.DeadlineExceeded) {
		return "busy"
	}
	return failure(err)
}

func failure(err error) string {
	return "error " + strings.ReplaceAll(err.Error(), "\n", " ")
}

func (p *peer) unlock(name string) string {
	before := monotonic()
	mine := p.held[name]
	delete(p.held, name)
	found, err := p.client.Get(context.Background(), mine.mutex.Key())
	if err == nil {
		err = mine.mutex.Unlock(context.Background())
	}
	mine.session.Close()
	if err != nil || len(found.Kvs) == 0 {
		return "lost"
	}
	return fmt.Sprintf("released %d", before)
}

func number(word string) int {
	value, err := strconv.Atoi(word)
	if err != nil {
		panic(err)
	}
	return value
}

func millis(word string) time.Duration {
	return time.Duration(number(word)) * time.Millisecond
}
