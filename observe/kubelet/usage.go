package kubelet

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"time"
)

// Sample is a container's CPU counter when the kubelet read it.
type Sample struct {
	At time.Time // by the node's clock
	// UsedNS is the CPU time used since the container started.
	UsedNS uint64
	// Since is when the container started; zero if unknown.
	Since time.Time
}

// Series has the samples of one container in ascending order of time.
type Series struct{ samples []Sample }

// ErrReset is wrapped by errors about a counter that restarted because the
// container restarted.
var ErrReset = errors.New("restarted within the window")

// Add adds a sample and reports whether it is new. It ignores a sample that is
// already present or older than the last. Polling more often than the kubelet
// samples returns duplicates.
func (s *Series) Add(x Sample) bool {
	n := len(s.samples)
	if x.At.IsZero() || n > 0 && !x.At.After(s.samples[n-1].At) {
		return false
	}
	s.samples = append(s.samples, x)
	return true
}

// Last returns the newest sample; false if there is none.
func (s *Series) Last() (Sample, bool) {
	if len(s.samples) == 0 {
		return Sample{}, false
	}
	return s.samples[len(s.samples)-1], true
}

// first returns the first sample at or after at; false if there is none.
func (s *Series) first(at time.Time) (Sample, bool) {
	i := sort.Search(len(s.samples), func(i int) bool { return !s.samples[i].At.Before(at) })
	if i == len(s.samples) {
		return Sample{}, false
	}
	return s.samples[i], true
}

// second returns the second sample; false if there is none.
func (s *Series) second() (Sample, bool) {
	if len(s.samples) < 2 {
		return Sample{}, false
	}
	return s.samples[1], true
}

// Usage is the CPU time that a container used in a window, in seconds.
type Usage struct {
	Seconds float64
	// LowS and HighS bound the use, whatever the container did between samples:
	// its counter never decreases.
	LowS, HighS float64
	// ErrorS is the standard error of Seconds, assuming a steady rate around the
	// window with independent fluctuations.
	ErrorS float64
	// Samples is the number of samples used, Gap the longest time between two of
	// them.
	Samples int
	Gap     time.Duration
}

// gapsInWindow is the minimum ratio of a window's length to the longest time
// between two of its samples.
const gapsInWindow = 4

// ShortError means that a window is too short for the time between its samples.
type ShortError struct {
	Window, Gap time.Duration
	// Least is the minimum length of the window.
	Least time.Duration
}

func (e *ShortError) Error() string {
	return fmt.Sprintf("the window of %v is too short for samples %v apart: it would have to be %v", e.Window, e.Gap.Round(100*time.Millisecond), e.Least)
}

// Between returns the container's use from a to b. There must be samples on both
// sides of each edge, or on it. If the time between two samples exceeds a quarter
// of the window, the error is a [ShortError], and the usage contains what is
// nevertheless known.
//
// The counter at an edge is interpolated linearly between the neighbouring samples.
// The standard error is that of a Brownian bridge between them (variance
// v·x·(T−x)/T at x of T; Karatzas and Shreve, "Brownian Motion and Stochastic
// Calculus", 5.6.B), where v is estimated from the variation of rates between
// samples.
func (s *Series) Between(a, b time.Time) (Usage, error) {
	if !a.Before(b) {
		return Usage{}, fmt.Errorf("a window from %v to %v has no length", a, b)
	}
	all := s.samples
	// The last sample not after a, and the first not before b.
	from := sort.Search(len(all), func(i int) bool { return all[i].At.After(a) }) - 1
	to := sort.Search(len(all), func(i int) bool { return !all[i].At.Before(b) })
	switch {
	case from < 0:
		return Usage{}, errors.New("the kubelet has no sample from before the window")
	case to == len(all):
		return Usage{}, errors.New("the kubelet has no sample from after the window yet")
	}
	used := all[from : to+1]
	u := Usage{Samples: len(used)}
	for i := 1; i < len(used); i++ {
		if used[i].UsedNS < used[i-1].UsedNS || used[i].Since.After(used[i-1].At) {
			return Usage{}, fmt.Errorf("CPU counter between %v and %v: %w", used[i-1].At, used[i].At, ErrReset)
		}
		u.Gap = max(u.Gap, used[i].At.Sub(used[i-1].At))
	}
	last := len(used) - 1
	first, end := edge{used[0], used[1], a}, edge{used[last-1], used[last], b}
	u.Seconds = end.counter() + rise(used[0], used[last-1]) - first.counter()
	// The counter at an edge lies between the neighbouring samples.
	u.LowS, u.HighS = rise(used[1], used[last-1]), rise(used[0], used[last])
	if first.on() {
		u.LowS = rise(used[0], used[last-1])
	}
	if end.on() {
		u.LowS += rise(used[last-1], used[last])
	}
	u.LowS = max(u.LowS, 0) // if the window lies within one interval
	u.ErrorS = (u.HighS - u.LowS) / 2
	if len(used) > 2 { // otherwise there is no information about fluctuations
		u.ErrorS = math.Sqrt(fluctuation(used) * (first.bridge() + end.bridge()))
	}
	if least := gapsInWindow * u.Gap; b.Sub(a) < least {
		return u, &ShortError{Window: b.Sub(a), Gap: u.Gap, Least: roundUp(least)}
	}
	return u, nil
}

// roundUp rounds up to a whole second.
func roundUp(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

// edge is a window's edge with the neighbouring samples.
type edge struct {
	before, after Sample
	at            time.Time
}

// on reports whether a sample was taken exactly at the edge.
func (e edge) on() bool { return e.at.Equal(e.before.At) || e.at.Equal(e.after.At) }

// counter returns the interpolated counter relative to the sample before the edge,
// in seconds.
func (e edge) counter() float64 {
	return rise(e.before, e.after) * e.at.Sub(e.before.At).Seconds() / seconds(e.before, e.after)
}

// bridge returns x·(T−x)/T, in seconds.
func (e edge) bridge() float64 {
	return e.at.Sub(e.before.At).Seconds() * e.after.At.Sub(e.at).Seconds() / seconds(e.before, e.after)
}

// fluctuation returns the variance of usage per second, in s²/s. Intervals of
// length T use r·T with variance v·T, where estimating the mean rate r costs one
// degree of freedom. It needs two intervals.
func fluctuation(used []Sample) float64 {
	n := len(used) - 1
	rate := rise(used[0], used[n]) / seconds(used[0], used[n])
	sum := 0.0
	for i := 1; i <= n; i++ {
		length := seconds(used[i-1], used[i])
		off := rise(used[i-1], used[i]) - rate*length
		sum += off * off / length
	}
	return sum / float64(n-1)
}

func seconds(a, b Sample) float64 { return b.At.Sub(a.At).Seconds() }

// rise returns the increase of the counter, in seconds.
func rise(a, b Sample) float64 { return float64(int64(b.UsedNS-a.UsedNS)) / 1e9 }
