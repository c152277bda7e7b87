package main

import (
	"fmt"
	"runtime"
	"time"

	"github.com/meshtrial/meshtrial/drive/load/arrival"
	"golang.org/x/sys/unix"
)

// wakeCost measures, n times, the cost of waking a thread on a core at each
// instant of a Poisson schedule of rate, without further work, in microseconds
// of CPU per instant.
func wakeCost(cpu int, rate float64, n int) ([]float64, error) {
	var out []float64
	failed := make(chan error, 1)
	go func() {
		// Never unlocked: the thread ends with the goroutine, and its settings
		// with it.
		runtime.LockOSThread()
		var set unix.CPUSet
		set.Set(cpu)
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			failed <- fmt.Errorf("a core for the wake-ups: %w", err)
			return
		}
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
		for i := range n {
			cost, err := wakeOnce(rate, uint64(i))
			if err != nil {
				failed <- err
				return
			}
			out = append(out, cost)
		}
		failed <- nil
	}()
	err := <-failed
	return out, err
}

// wakeOnce waits for each instant of a two-second schedule.
func wakeOnce(rate float64, seed uint64) (float64, error) {
	schedule := arrival.Poisson(arrival.Shape{Kind: arrival.Constant, RateRPS: rate}, 2, seed)
	used := func() (float64, error) {
		var u unix.Rusage
		err := unix.Getrusage(unix.RUSAGE_THREAD, &u)
		return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e3, err
	}
	before, err := used()
	if err != nil {
		return 0, err
	}
	begin, instants := time.Now(), 0
	for r, ok := schedule.Next(); ok; r, ok = schedule.Next() {
		instants++
		if left := r.Offset - int64(time.Since(begin)); left > 0 {
			ts := unix.NsecToTimespec(left)
			_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &ts, nil) // if interrupted, it only becomes cheaper
		}
	}
	after, err := used()
	return (after - before) / float64(instants), err
}
