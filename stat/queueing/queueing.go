// Package queueing simulates a queue with given arrivals and service times. Tests
// compare analysis with it. It is pure.
//
// Times are plain numbers in any one unit; rates are per that unit.
//
// Source: Lindley, "The theory of queues with a single server", Proc. Cambridge
// Philosophical Society 1952.
package queueing

import (
	"container/heap"
	"math"
)

// Sojourns returns the time in system of each of a sequence of requests at a
// first-come-first-served queue with the given number of servers. Arrival times
// ascend. With one server it is Lindley's recursion; with infinitely many (0) it is
// the service time.
func Sojourns(arrivals, services []float64, servers int) []float64 {
	out := make([]float64, len(arrivals))
	if servers <= 0 {
		copy(out, services)
		return out
	}
	free := make(times, servers) // when each server is free again
	for i, at := range arrivals {
		start := math.Max(at, free[0])
		end := start + services[i]
		out[i] = end - at
		free[0] = end
		heap.Fix(&free, 0)
	}
	return out
}

type times []float64

func (t times) Len() int           { return len(t) }
func (t times) Less(i, j int) bool { return t[i] < t[j] }
func (t times) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *times) Push(x any)        { *t = append(*t, x.(float64)) }
func (t *times) Pop() any {
	old := *t
	x := old[len(old)-1]
	*t = old[:len(old)-1]
	return x
}
