package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/client/v3/concurrency"
)

// bench locks and unlocks, each task on a name and in a session of its own.
func (p *peer) bench(tasks int, span time.Duration) string {
	start := time.Now()
	samples := make([][]int64, tasks)
	failed := crowd(tasks, func(task int) error {
		session, err := concurrency.NewSession(p.client)
		if err != nil {
			return err
		}
		defer session.Close()
		samples[task], err = pairs(session, fmt.Sprintf("bench/%d", task), start, span)
		return err
	})
	if failed != nil {
		return failure(failed)
	}
	seconds := time.Since(start).Seconds()
	all := slices.Concat(samples...)
	slices.Sort(all)
	return fmt.Sprintf(`{"ops":%d,"seconds":%f,"p50_ns":%d,"p99_ns":%d}`,
		len(all), seconds, all[len(all)/2], all[len(all)*99/100])
}

func pairs(session *concurrency.Session, name string, start time.Time, span time.Duration) ([]int64, error) {
	var samples []int64
	for now := time.Now(); now.Sub(start) < span; {
		mutex := concurrency.NewMutex(session, name)
		if err := mutex.Lock(context.Background()); err != nil {
			return nil, err
		}
		if err := mutex.Unlock(context.Background()); err != nil {
			return nil, err
		}
		then := time.Now()
		samples = append(samples, then.Sub(now).Nanoseconds())
		now = then
	}
	return samples, nil
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
