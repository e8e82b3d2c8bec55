// Package main is redsync behind the line protocol of interop/README.md.
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

	"github.com/go-redsync/redsync/v4"
	pool "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// What redsync gives a lease that asks for nothing.
const lease = 8 * time.Second

type peer struct {
	rs    *redsync.Redsync
	first *redis.Client
	held  map[string]*redsync.Mutex
}

func main() {
	var pools []pool.Pool
	var first *redis.Client
	for _, address := range strings.Split(os.Args[1], ",") {
		client := redis.NewClient(&redis.Options{Addr: address, PoolSize: 128})
		if first == nil {
			first = client
		}
		pools = append(pools, goredis.NewPool(client))
	}
	p := &peer{rs: redsync.New(pools...), first: first, held: map[string]*redsync.Mutex{}}
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
	case "extend":
		return p.extend(words[2], millis(words[3]))
	case "contend":
		return p.contend(words[2], number(words[3]), millis(words[4]))
	case "bench":
		return p.bench(number(words[2]), millis(words[3]))
	default:
		return "error unknown command " + words[0]
	}
}

func (p *peer) lock(name string, wait, ttl time.Duration) string {
	if ttl == 0 {
		ttl = lease
	}
	mutex := p.rs.NewMutex(name, redsync.WithExpiry(ttl), redsync.WithTries(1_000_000))
	if err := take(mutex, wait); err != nil {
		return refusal(err)
	}
	p.held[name] = mutex
	return fmt.Sprintf("granted - %d", monotonic())
}

// take waits at most that long; not at all if it is zero.
func take(mutex *redsync.Mutex, wait time.Duration) error {
	if wait == 0 {
		return mutex.TryLock()
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	return mutex.LockContext(ctx)
}

func refusal(err error) string {
	var taken *redsync.ErrTaken
	if errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed) || errors.Is(err, context.DeadlineExceeded) {
		return "busy"
	}
	return "error " + strings.ReplaceAll(err.Error(), "\n", " ")
}

func (p *peer) unlock(name string) string {
	before := monotonic()
	if ok, err := p.held[name].Unlock(); !ok || err != nil {
		return "lost"
	}
	return fmt.Sprintf("released %d", before)
}

// extend keeps the value and sets another ttl, which a mutex of redsync takes
// only at its birth.
func (p *peer) extend(name string, ttl time.Duration) string {
	value := p.held[name].Value()
	mutex := p.rs.NewMutex(name, redsync.WithExpiry(ttl), redsync.WithValue(value))
	if ok, err := mutex.Extend(); !ok || err != nil {
		return "lost"
	}
	p.held[name] = mutex
	return "extended"
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
