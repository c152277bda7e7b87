package load

import (
	"fmt"
	"maps"
	"slices"

	"github.com/meshtrial/meshtrial/drive/load/arrival"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/rate"
)

// reportSchema is the version of a [Report].
const reportSchema = 3

// Report is the document of `meshtrial load --json`.
type Report struct {
	Schema      int       `json:"schema"`
	URL         string    `json:"url"`
	Protocol    string    `json:"protocol"`
	Arrival     string    `json:"arrival"`
	Rate        rate.Rate `json:"rate_rps"` // the intended mean
	Connections int       `json:"connections"`
	// MaxConnections is the maximum number of connections; 0: Connections.
	MaxConnections int `json:"max_connections,omitempty"`

	KeepAlive   bool             `json:"keep_alive"`
	Seed        uint64           `json:"seed"`
	Start       string           `json:"start"` // RFC 3339
	StartUnixNS int64            `json:"start_unix_ns"`
	DurationS   float64          `json:"duration_s"`
	Interrupted bool             `json:"interrupted"`
	Scheduled   int64            `json:"scheduled"`
	Completed   int64            `json:"completed"`
	Failed      map[string]int64 `json:"failed"`
	Unfinished  int64            `json:"unfinished"`
	// Answered counts requests completed before the schedule ended, and AchievedRPS is
	// that number per second. Backlog counts those that were due by then and had neither
	// completed nor failed.
	Answered    int64   `json:"answered"`
	Backlog     int64   `json:"backlog"`
	AchievedRPS float64 `json:"achieved_rps"`

	Intended Latency `json:"latency_intended_us"`
	Send     Latency `json:"latency_send_us"`
	// Wait is how long requests that were due waited for a free connection.
	Wait record.Latency `json:"connection_wait_us"`
	Lag  record.Latency `json:"schedule_lag_us"`
	// Schedule describes how well the intended arrivals were kept; absent if there are
	// none, as at rate max.
	Schedule *record.Schedule `json:"schedule,omitempty"`
	// Autocorrelation is that of successive latencies, and EffectiveRequests the number of
	// independent requests that they are worth; absent if unknown.
	Autocorrelation   *float64 `json:"autocorrelation,omitempty"`
	EffectiveRequests float64  `json:"effective_requests,omitempty"`

	MaxInFlight int   `json:"max_in_flight"`
	BytesSent   int64 `json:"bytes_sent"`
	BytesRead   int64 `json:"bytes_read"`
	Connects    int64 `json:"connects"` // made for requests, not before the start
	Clamped     int64 `json:"clamped"`  // values above 60 s, recorded as 60 s
	CPU         CPU   `json:"cpu_s"`

	Valid    bool     `json:"valid"`
	Warnings []string `json:"warnings"`

	// Reasons are the first few distinct ones of each kind of failure.
	Reasons map[string][]string `json:"failure_reasons,omitempty"`
}

// Latency is a histogram's summary in microseconds.
type Latency = record.Latency

// Report returns what the run measured, and whether it is valid.
func (r *Result) Report() Report {
	w := r.Total()
	t, _ := r.Spec.parseTarget()
	rep := Report{
		Schema: reportSchema, URL: r.Spec.URL, Protocol: t.protocol.Name, Arrival: r.Spec.Arrival,
		Connections: r.Spec.Connections, MaxConnections: r.Spec.MaxConnections, KeepAlive: r.Spec.KeepAlive, Seed: r.Spec.Seed,
		StartUnixNS: r.Start.UnixNano(),
		Start:       r.Start.UTC().Format("2006-01-02T15:04:05.000Z07:00"), DurationS: float64(r.EndNS) / 1e9,
		Interrupted: r.Interrupted,
		Scheduled:   w.Scheduled, Completed: w.Completed, Failed: w.Failed, Unfinished: w.Unfinished,
		Answered: w.Within.Answered, Backlog: w.BacklogEnd, AchievedRPS: w.AchievedRPS(),
		Intended: Summarise(w.Intended), Send: Summarise(w.Send), Wait: Summarise(w.Wait), Lag: Summarise(w.Lag),
		MaxInFlight: w.MaxInFlight, BytesSent: w.BytesSent, BytesRead: w.BytesRead,
		Connects: w.Connects, Clamped: w.Clamped, CPU: w.CPU, Schedule: w.Schedule(),
	}
	rep.Reasons = w.Reasons
	rep.Autocorrelation, rep.EffectiveRequests = w.Dependence()
	switch {
	case r.Spec.Rate.IsMax():
		rep.Rate = rate.Max
	case r.Spec.Rate > 0 && len(r.Changes) == 0:
		rep.Rate = rate.Rate(r.Spec.Rate.RPS() * r.Spec.fraction())
	case rep.DurationS > 0: // the rate changes: report its mean
		rep.Rate = rate.Rate(float64(w.Scheduled) / rep.DurationS)
	}
	verdict := Judge(w, &r.Spec)
	rep.Valid, rep.Warnings = verdict.Valid, verdict.Warnings
	if text := r.overloadWarning(); text != "" {
		rep.Warnings = append(rep.Warnings, text)
	}
	if r.Requests != nil && r.Requests.Header().Lost > 0 {
		rep.Warnings = append(rep.Warnings, fmt.Sprintf("the request log lacks %d requests beyond %d", r.Requests.Header().Lost, r.Requests.Header().Requests))
	}
	if r.Interrupted {
		rep.Warnings = append(rep.Warnings, fmt.Sprintf("the run was interrupted after %.3g of %g s", rep.DurationS, r.Spec.DurationS))
	}
	return rep
}

// Verdict reports whether a window is valid, and why not.
type Verdict struct {
	Valid    bool
	Warnings []string // begin with "not valid:" if they invalidate the window
}

// Bounds of a valid window. They are generous: anything worse is certainly misleading.
const (
	maxLostRatio = 0.001 // failed or unfinished share of scheduled requests, above which there is a warning
	badLostRatio = 0.05  // the same, above which the window is not valid
	maxRemade    = 0.01  // connections remade per request, if they are to be kept alive
	maxBusyRatio = 0.9   // of the CPU of the generator's threads
	lagFloorUS   = 100.0 // lag that does not matter at any latency
)

// Judge looks for signs that a window shows the generator instead of the target: its own
// lag is large compared to the latency, it has no CPU left, or so many requests failed or
// are unfinished that the rest are a biased sample.
func Judge(w *Window, spec *Spec) Verdict {
	v := Verdict{Valid: true, Warnings: []string{}}
	warn := func(format string, args ...any) { v.Warnings = append(v.Warnings, fmt.Sprintf(format, args...)) }
	invalid := func(format string, args ...any) {
		v.Valid = false
		warn("not valid: "+format, args...)
	}
	if !w.Balanced() {
		invalid("the counts do not add up: %d scheduled, %d completed, %d failed, %d unfinished", w.Scheduled, w.Completed, w.FailedTotal(), w.Unfinished)
	}
	if w.Completed == 0 {
		invalid("no request completed")
		return v
	}
	if lost := w.FailedTotal() + w.Unfinished; lost > 0 {
		ratio := float64(lost) / float64(w.Scheduled)
		text := fmt.Sprintf("%.2g%% of the requests have no latency (%s)", ratio*100, lostWords(w))
		switch {
		case ratio > badLostRatio:
			invalid("%s; percentiles of the others are misleading", text)
		case ratio > maxLostRatio:
			warn("%s", text)
		}
	}
	latency, lag := Summarise(w.Intended), Summarise(w.Lag)
	if !spec.Rate.IsMax() {
		if lag.At(0.5) > max(lagFloorUS, latency.At(0.5)/4) {
			invalid("the generator itself sent half of the requests over %.0f us late, compared with a median latency of %.0f us", lag.At(0.5), latency.At(0.5))
		} else if lag.At(0.99) > max(lagFloorUS, latency.At(0.99)/4) {
			warn("the generator itself sent 1%% of the requests over %.0f us late (p99 latency %.0f us); other processes may be using its core", lag.At(0.99), latency.At(0.99))
		}
		if wait := Summarise(w.Wait); wait.At(0.99) > max(lagFloorUS, latency.At(0.5)) {
			warn("1%% of the requests waited over %.0f us for a free connection; %d connections are too few for this rate", wait.At(0.99), max(spec.Connections, spec.MaxConnections))
		}
		v.Warnings = append(v.Warnings, scheduleWords(w)...)
		if busy := w.CPU.Total() / (float64(w.DurationNS) / 1e9) / float64(spec.cpus()); busy > maxBusyRatio {
			warn("the generator used %.0f%% of its CPU; use more threads or less load", busy*100)
		}
	}
	// A server that ends connections, or sends unsolicited data, makes each latency that
	// of a new connection, which was not asked for.
	if remade := float64(w.Connects) / float64(w.Scheduled); spec.KeepAlive && spec.MaxConnections == 0 && remade > maxRemade {
		warn("keep-alive is on, but %d connections were reopened, one for every %.3g requests; that is part of the latency", w.Connects, 1/remade)
	}
	if w.Clamped > 0 {
		warn("%d values above 60 s were recorded as 60 s", w.Clamped)
	}
	return v
}

// maxBacklog limits the growth of the backlog beyond chance, relative to the requests
// answered in the same time.
const maxBacklog = 0.01

// overloadWarning returns a warning if the target did not sustain the rate, else "". A run
// begins without a backlog, and a slow target that sustains the rate builds one up, so
// only growth over the second half counts. If the rate changes, so does the backlog.
func (r *Result) overloadWarning() string {
	half := len(r.Intervals) / 2
	if half == 0 || r.Spec.Rate.IsMax() || r.Spec.shape().Kind != arrival.Constant || len(r.Changes) > 0 {
		return ""
	}
	w, err := r.Window(half, len(r.Intervals))
	if err != nil || !r.Spec.overloaded(w.within()) {
		return ""
	}
	return fmt.Sprintf("the target does not sustain this rate: in the second half it answered %.4g rps, and the backlog of unanswered requests rose from %d to %d; latency depends on how long that lasts",
		w.AchievedRPS(), w.BacklogStart, w.BacklogEnd)
}

// overloaded reports whether the backlog of a window grew by more than chance.
func (s *Spec) overloaded(w record.Within) bool {
	grown, chance := w.BacklogGrowth()
	if s.Arrival == Burst {
		chance += float64(s.Connections)
	}
	return float64(grown) > maxBacklog*float64(w.Answered)+chance
}

// lostWords lists the requests without a latency.
func lostWords(w *Window) string {
	text := ""
	for _, kind := range slices.Sorted(maps.Keys(w.Failed)) {
		text += fmt.Sprintf("%d %s, ", w.Failed[kind], kind)
	}
	return text + fmt.Sprintf("%d unfinished", w.Unfinished)
}
