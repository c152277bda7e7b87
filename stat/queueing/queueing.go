// Package queueing knows what a queue should answer: closed formulas, and a
// simulator of a queue on given arrivals and service times. Tests hold the
// simulator of pushes and analysis against it. It is pure.
//
// Times are plain numbers in any one unit; rates are per that unit.
//
// Sources: Kleinrock, "Queueing Systems" volume 1, 1975; Lindley, "The theory
// of queues with a single server", Proc. Cambridge Philosophical Society 1952.
package queueing

import (
	"container/heap"
	"math"
)

// MM1Sojourn returns the q-quantile of the time in system (waiting and
// service) of an M/M/1 queue, first come first served: it is exponential with
// rate mu - lambda. +Inf if the queue is not stable, lambda >= mu.
func MM1Sojourn(lambda, mu, q float64) float64 {
	if lambda >= mu {
		return math.Inf(1)
	}
	return -math.Log1p(-q) / (mu - lambda)
}

// MG1MeanWait returns the mean waiting time of an M/G/1 queue whose service
// times have the given mean and variance (Pollaczek and Khinchine). Variance 0
// is M/D/1.
func MG1MeanWait(lambda, mean, variance float64) float64 {
	rho := lambda * mean
	if rho >= 1 {
		return math.Inf(1)
	}
	return lambda * (variance + mean*mean) / (2 * (1 - rho))
}

// Sojourns returns the time in system of each of a sequence of requests at a
// queue with the given number of servers, first come first served: requests
// arrive at ascending times and take the given service times. With one server
// it is Lindley's recursion; with infinitely many (0) it is the service time.
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
