package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/redis/go-redis/v9"
)

// contend adds to a counter in two steps, from many tasks on one name.
func (p *peer) contend(name string, tasks int, span time.Duration) string {
	end := time.Now().Add(span)
	did := make([]int, tasks)
	failed := crowd(tasks, func(task int) error {
		for time.Now().Before(end) {
			mutex := p.rs.NewMutex(name, redsync.WithTries(1_000_000))
			if take(mutex, time.Until(end)) != nil {
				continue
			}
			if err := p.count(name + ":counter"); err != nil {
				return err
			}
			did[task]++
			if ok, err := mutex.Unlock(); !ok || err != nil {
				return fmt.Errorf("lost while it was held: %v", err)
			}
		}
		return nil
	})
	if failed != nil {
		return fmt.Sprintf("error %v", failed)
	}
	sum := 0
	for _, each := range did {
		sum += each
	}
	return fmt.Sprintf("did %d", sum)
}

func (p *peer) count(key string) error {
	ctx := context.Background()
	before, err := p.first.Get(ctx, key).Int()
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	return p.first.Set(ctx, key, before+1, 0).Err()
}

// bench locks and unlocks, each task on a name of its own.
func (p *peer) bench(tasks int, span time.Duration) string {
	start := time.Now()
	samples := make([][]int64, tasks)
	failed := crowd(tasks, func(task int) error {
		for now := time.Now(); now.Sub(start) < span; {
			mutex := p.rs.NewMutex(fmt.Sprintf("bench:%d", task))
			if err := mutex.Lock(); err != nil {
				return err
			}
			if _, err := mutex.Unlock(); err != nil {
				return err
			}
			then := time.Now()
			samples[task] = append(samples[task], then.Sub(now).Nanoseconds())
			now = then
		}
		return nil
	})
	if failed != nil {
		return fmt.Sprintf("error %v", failed)
	}
	seconds := time.Since(start).Seconds()
	all := slices.Concat(samples...)
	slices.Sort(all)
	return fmt.Sprintf(`{"ops":%d,"seconds":%f,"p50_ns":%d,"p99_ns":%d}`,
		len(all), seconds, all[len(all)/2], all[len(all)*99/100])
}

func crowd(tasks int, work func(int) error) error {
	var group sync.WaitGroup
	errs := make([]error, tasks)
	for task := range tasks {
		group.Add(1)
		go func() {
			defer group.Done()
			errs[task] = work(task)
		}()
	}
	group.Wait()
	return errors.Join(errs...)
}
