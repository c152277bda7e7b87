package load

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/meshtrial/meshtrial/drive/load/arrival"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/rate"
	"github.com/meshtrial/meshtrial/stat"
)

// Kinds of failure.
const (
	FailConnect  = "connect"  // no connection could be established
	FailTimeout  = "timeout"  // no full response within the timeout
	FailReset    = "reset"    // the connection was reset
	FailEOF      = "eof"      // the peer closed before the response was complete
	FailProtocol = "protocol" // the response violated its protocol
	FailStatus   = "status"   // a complete response with an unexpected HTTP status or a gRPC code other than OK
	FailTLS      = "tls"      // the TLS handshake failed
	FailStream   = "stream"   // the message's stream was not open, or was lost before it
	FailOther    = "other"    // any other error of the operating system or library
)

// kinds in the order of a tally's counters.
var kinds = [...]string{FailConnect, FailTimeout, FailReset, FailEOF, FailProtocol, FailStatus, FailTLS, FailStream, FailOther}

// Account counts the requests of a period, by intended time.
// Scheduled == Completed + sum of Failed + Unfinished.
type Account struct {
	Scheduled  int64            `json:"scheduled"`
	Completed  int64            `json:"completed"`
	Failed     map[string]int64 `json:"failed"`
	Unfinished int64            `json:"unfinished"`
}

// FailedTotal returns the number of failed requests of all kinds.
func (a Account) FailedTotal() int64 {
	total := int64(0)
	for _, n := range a.Failed {
		total += n
	}
	return total
}

// Balanced reports whether the account adds up.
func (a Account) Balanced() bool {
	return a.Scheduled == a.Completed+a.FailedTotal()+a.Unfinished
}

func (a *Account) add(b Account) {
	a.Scheduled += b.Scheduled
	a.Completed += b.Completed
	a.Unfinished += b.Unfinished
	if a.Failed == nil && len(b.Failed) > 0 {
		a.Failed = map[string]int64{}
	}
	for kind, n := range b.Failed {
		a.Failed[kind] += n
	}
}

// Within counts the requests that ended in a period, whenever they were due. Rates and costs
// of the period are relative to these. An [Account] has the outcomes of requests due in it.
type Within struct {
	Answered int64 `json:"answered"` // completed, in the sense of Account
	Failed   int64 `json:"failed"`
}

func (w *Within) add(v Within) {
	w.Answered += v.Answered
	w.Failed += v.Failed
}

// CPU is processor time of the generator itself, in seconds.
type CPU struct {
	User   float64 `json:"user"`
	System float64 `json:"system"`
}

// Total returns user plus system time in seconds.
func (c CPU) Total() float64 { return c.User + c.System }

func (c CPU) sub(d CPU) CPU { return CPU{c.User - d.User, c.System - d.System} }
func (c CPU) add(d CPU) CPU { return CPU{c.User + d.User, c.System + d.System} }

// Counts holds the outcomes of the requests due in a period.
type Counts struct {
	Account
	Within Within `json:"within"`
	// Clamped counts values above the histograms' 60 s, recorded as 60 s.
	Clamped int64 `json:"clamped"`
	// MaxInFlight is the largest number of requests outstanding at once
	// while requests of an interval were being sent.
	MaxInFlight int   `json:"max_in_flight"`
	BytesSent   int64 `json:"bytes_sent"`
	BytesRead   int64 `json:"bytes_read"`
	Connects    int64 `json:"connects"` // connections begun for these requests, or streams reopened in the period
	// CPU is the process's own CPU time between the period's wall-clock edges.
	CPU CPU `json:"cpu_s"`
}

func (c *Counts) add(d *Counts) {
	c.Account.add(d.Account)
	c.Within.add(d.Within)
	c.Clamped += d.Clamped
	c.MaxInFlight += d.MaxInFlight
	c.BytesSent += d.BytesSent
	c.BytesRead += d.BytesRead
	c.Connects += d.Connects
	c.CPU = c.CPU.add(d.CPU)
}

// Interval holds the outcomes of the requests due in one interval. Latencies are of completed
// requests; lag and wait of all that were sent.
type Interval struct {
	Index      int   `json:"index"`
	StartNS    int64 `json:"start_ns"` // since the run's start
	DurationNS int64 `json:"duration_ns"`
	Counts
	// Gaps are the gaps between the generator's actions on due requests, each
	// counted with the later one; empty at rate max.
	Gaps arrival.Gaps `json:"gaps,omitzero"`
	// Serial has pairs of successive intended latencies of a thread's requests,
	// as natural logarithms of nanoseconds, in order of intended time.
	Serial stat.Serial `json:"latency_pairs,omitzero"`

	Intended *hdrhistogram.PackedHistogram `json:"-"` // done - intended, ns
	Send     *hdrhistogram.PackedHistogram `json:"-"` // done - sent, ns
	Lag      *hdrhistogram.PackedHistogram `json:"-"` // sent - max(intended, free), ns
	Wait     *hdrhistogram.PackedHistogram `json:"-"` // max(0, free - intended), ns
}

// Summary is a finished interval without its histograms: by intended time, except
// Answered.
type Summary struct {
	Index      int     `json:"index"`
	StartNS    int64   `json:"start_ns"` // since the run's start
	DurationNS int64   `json:"duration_ns"`
	Scheduled  int64   `json:"scheduled"`
	Completed  int64   `json:"completed"`
	Failed     int64   `json:"failed"`
	Unfinished int64   `json:"unfinished"`
	Answered   int64   `json:"answered"` // within the interval, whenever due
	P50NS      float64 `json:"p50_ns"`   // intended latency
	P99NS      float64 `json:"p99_ns"`
	// Intended is the histogram of intended latency, if requested.
	Intended Buckets `json:"latency_buckets,omitempty"`
}

// Result is everything a run recorded.
type Result struct {
	Spec  Spec      `json:"spec"`
	Start time.Time `json:"start"` // wall clock at offset 0
	// Intervals are in order and without gaps, the first at index 0.
	Intervals []Interval `json:"-"`
	// EndNS is when the schedule ended, since the start: the duration, or
	// earlier if the run was stopped.
	EndNS int64 `json:"end_ns"`
	// Interrupted says that the run was cancelled before its schedule ended.
	Interrupted bool `json:"interrupted"`
	// Replicas is the number of results merged into this one, at least 1.
	Replicas int `json:"replicas"`
	// CPUs is the number of CPUs that the engine could use: one per event loop, or for the
	// pool those of Go's scheduler. It is the sum over all generators.
	CPUs int `json:"cpus"`
	// Opened is the number of connections opened before the first request; the intervals count
	// later ones. Probes is the number of connections made to find an address that answers,
	// and closed without sending a byte.
	Opened int64 `json:"opened"`
	Probes int64 `json:"probes"`
	// Changes are the rate changes during the run, in the order in which they were made.
	Changes []RateChange `json:"rate_changes,omitempty"`
	// Reasons are the first few distinct reasons of each kind of failure.
	Reasons map[string][]string `json:"failure_reasons,omitempty"`
	// Requests is the request log, if the Spec asked for one. Streams do not
	// include it.
	Requests *RequestLog `json:"-"`
	// dealt is the number of generators that divided one schedule, if this is the result of
	// all of them; else 0.
	dealt int
}

// Window is the sum of a range of whole intervals.
type Window struct {
	From, To int // intervals From..To-1
	Counts
	// BacklogStart and BacklogEnd count requests that were due before the window's
	// start and end and had not ended by then.
	BacklogStart, BacklogEnd int64

	StartNS    int64
	DurationNS int64
	Intended   *hdrhistogram.Histogram // ns
	Send       *hdrhistogram.Histogram
	Lag        *hdrhistogram.Histogram
	Wait       *hdrhistogram.Histogram
	Gaps       arrival.Gaps
	Serial     stat.Serial
	// Reasons are the run's first few reasons for the kinds of failure in the window. They may
	// be of failures before it.
	Reasons map[string][]string
	law     law
}

// AchievedRPS returns the rate of responses within the window.
func (w *Window) AchievedRPS() float64 {
	if w.DurationNS <= 0 {
		return 0
	}
	return float64(w.Within.Answered) / (float64(w.DurationNS) / 1e9)
}

// within returns the events between the window's edges in the form that a trial records.
func (w *Window) within() record.Within {
	return record.Within{Answered: w.Within.Answered, Failed: w.Within.Failed, BacklogStart: w.BacklogStart, BacklogEnd: w.BacklogEnd}
}

// Record returns the window in the form that a trial records; asked is the intended rate.
func (w *Window) Record(asked rate.Rate) *record.Load {
	out := &record.Load{
		Rate:      asked,
		Scheduled: w.Scheduled, Completed: w.Completed, Failed: w.Failed, Unfinished: w.Unfinished,
		AchievedRPS: w.AchievedRPS(),
		Within:      w.within(),
		Intended:    Summarise(w.Intended), Send: Summarise(w.Send), Lag: Summarise(w.Lag),
		CPU:      record.CPU{UserS: w.CPU.User, SystemS: w.CPU.System},
		Schedule: w.Schedule(),
	}
	out.Reasons = w.Reasons
	out.Autocorrelation, out.EffectiveRequests = w.Dependence()
	return out
}

// Total returns the whole run as one window.
func (r *Result) Total() *Window {
	w, _ := r.Window(0, len(r.Intervals))
	return w
}

// Window merges intervals from..to-1.
func (r *Result) Window(from, to int) (*Window, error) {
	if from < 0 || to > len(r.Intervals) || from > to {
		return nil, fmt.Errorf("window of intervals %d..%d: the run has %d", from, to, len(r.Intervals))
	}
	w := &Window{
		From: from, To: to, Counts: Counts{Account: Account{Failed: map[string]int64{}}},
		Intended: NewHistogram(), Send: NewHistogram(), Lag: NewHistogram(), Wait: NewHistogram(),
		law: r.law(),
	}
	for i := range r.Intervals[:to] {
		iv := &r.Intervals[i]
		out := iv.Scheduled - iv.Within.Answered - iv.Within.Failed // of these requests, or of earlier ones
		w.BacklogEnd += out
		if i < from {
			w.BacklogStart += out
			continue
		}
		if i == from {
			w.StartNS = iv.StartNS
		}
		w.DurationNS += iv.DurationNS
		most := max(w.MaxInFlight, iv.MaxInFlight)
		w.Counts.add(&iv.Counts)
		w.MaxInFlight = most
		iv.Intended.MergeInto(w.Intended)
		iv.Send.MergeInto(w.Send)
		iv.Lag.MergeInto(w.Lag)
		iv.Wait.MergeInto(w.Wait)
		w.Gaps.Merge(&iv.Gaps)
		w.Serial.Merge(&iv.Serial)
	}
	w.Reasons = reasonsFor(w.Failed, r.Reasons)
	return w, nil
}

// Merge adds up the results of replicas that ran the same Spec (seeds may differ), interval by
// interval and without loss. The start is the earliest, the changes of the rate those of the
// first. If all generators that shared a rate are included, the sum has the complete rate.
// Request logs are not merged.
func Merge(results ...*Result) (*Result, error) {
	if len(results) == 0 {
		return nil, fmt.Errorf("merge: no results")
	}
	first := results[0]
	out := &Result{Spec: first.Spec, Start: first.Start, Changes: first.Changes}
	for i, r := range results {
		if r.Spec.IntervalS != first.Spec.IntervalS {
			return nil, fmt.Errorf("merge: result %d has intervals of %v s, the first of %v s", i, r.Spec.IntervalS, first.Spec.IntervalS)
		}
		if r.Start.Before(out.Start) {
			out.Start = r.Start
		}
		out.EndNS = max(out.EndNS, r.EndNS)
		out.Interrupted = out.Interrupted || r.Interrupted
		out.Replicas += r.Replicas
		out.CPUs += r.CPUs
		out.Opened += r.Opened
		out.Probes += r.Probes
		out.Reasons = mergeReasons(out.Reasons, r.Reasons)
		for j := range r.Intervals {
			if j == len(out.Intervals) {
				out.Intervals = append(out.Intervals, emptyInterval(&r.Intervals[j]))
			}
			out.Intervals[j].merge(&r.Intervals[j])
		}
	}
	if s := out.Spec.Share; s != nil && s.Of == out.Replicas {
		out.Spec.Share = nil // together they sent the whole rate
		if s.Connections > 0 {
			out.Spec.Connections, out.dealt = s.Connections, s.Of
		}
	}
	return out, nil
}

func emptyInterval(like *Interval) Interval {
	return Interval{
		Index: like.Index, StartNS: like.StartNS, Counts: Counts{Account: Account{Failed: map[string]int64{}}},
		Intended: newPacked(), Send: newPacked(), Lag: newPacked(), Wait: newPacked(),
	}
}

func (iv *Interval) merge(other *Interval) {
	iv.DurationNS = max(iv.DurationNS, other.DurationNS)
	iv.Counts.add(&other.Counts)
	iv.Intended.Merge(other.Intended)
	iv.Send.Merge(other.Send)
	iv.Lag.Merge(other.Lag)
	iv.Wait.Merge(other.Wait)
	iv.Gaps.Merge(&other.Gaps)
	iv.Serial.Merge(&other.Serial)
}
