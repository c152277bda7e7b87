package findings

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
)

// cut divides the requests among the windows. The first window includes requests due before the
// start of the timeline, the last those due after its end, so that the windows add up to the whole.
func (s *trialScenario) cut(book *ledger.Book) {
	zero := s.trial.Scenario.StartNS
	spans := []ledger.Span{{}}
	for i := range s.bounds {
		span := ledger.Span{FromNS: zero + s.bounds[i].at, ToNS: math.MaxInt64}
		if i == 0 {
			span.FromNS = math.MinInt64
		}
		if i+1 < len(s.bounds) {
			span.ToNS = zero + s.bounds[i+1].at
		}
		spans = append(spans, span)
	}
	accounts := book.AccountsAt(func(c *ledger.ClientEntry) int64 { return zero + s.moment(c) }, spans...)
	s.account = accounts[0]
	s.total, s.totalLatency = s.window("whole", []string{"whole"}, 0, s.length, s.requests, accounts[0])
	for i, b := range s.bounds {
		to := s.length
		if i+1 < len(s.bounds) {
			to = s.bounds[i+1].at
		}
		w, latency := s.window(strings.Join(b.names, " + "), b.names, b.at, to, s.own(i), accounts[i+1])
		s.windows, s.latency = append(s.windows, w), append(s.latency, latency)
	}
	s.countZones(book)
	s.move()
	s.expect()
}

// own returns the requests of a window.
func (s *trialScenario) own(window int) []sent {
	low, high := 0, len(s.requests)
	if window > 0 {
		low = s.first(s.bounds[window].at)
	}
	if window+1 < len(s.bounds) {
		high = s.first(s.bounds[window+1].at)
	}
	return s.requests[low:high]
}

// first returns the index of the first request from a time on.
func (s *trialScenario) first(at int64) int {
	i, _ := slices.BinarySearchFunc(s.requests, at, func(r sent, at int64) int { return cmp.Compare(r.at, at) })
	return i
}

// keyOf returns the key of a request, and the endpoint that the clients' proxy chose for it.
func keyOf(r *ledger.Request) (key int, host string) {
	n, err := strconv.ParseInt(r.ID[strings.LastIndexByte(r.ID, '-')+1:], 10, 64)
	if err != nil || n < 0 {
		return -1, ""
	}
	for i := range r.Proxies {
		if p := &r.Proxies[i]; p.Side == ledger.SideClient && p.Service == fault.LoadService {
			host = p.Host
		}
	}
	return int(n % resilience.HashKeys), host
}

// move counts, for each window, the keys that moved to another endpoint.
func (s *trialScenario) move() {
	before := map[int]string{}
	for i := range s.windows {
		w := &s.windows[i]
		now := map[int]string{}
		for _, r := range s.own(i) {
			if r.ok && r.key >= 0 && r.host != "" {
				now[r.key] = r.host
			}
		}
		for key, host := range now {
			if old, known := before[key]; known {
				w.Keys++
				if old != host {
					w.MovedKeys++
				}
			}
			before[key] = host
		}
	}
}

// window summarizes some requests. Its own latency covers answered requests; ofAll counts
// unanswered ones as infinitely late.
func (s *trialScenario) window(name string, names []string, from, to int64, requests []sent, a *ledger.Account) (w record.ScenarioWindow, ofAll record.Latency) {
	w = record.ScenarioWindow{
		Name: name, Names: names, FromS: float64(from) / 1e9, ToS: float64(to) / 1e9,
		Requests: int64(len(requests)), FailedBy: a.Failed,
		Attempts: a.Amplification(), Hidden: a.Hidden, Phantom: a.Phantom.Requests, PhantomAttempts: a.Phantom.Attempts,
		Unreconciled: a.Classes[ledger.ClassUnreconciled] + a.Orphans, Ready: map[string]int{}, Ejected: map[string]int{},
	}
	var micros []int64
	for i := range requests {
		switch r := &requests[i]; {
		case r.ok:
			w.Answered++
			micros = append(micros, r.micros)
		case r.failed:
			w.Failed++
		default:
			w.Unfinished++
		}
	}
	if len(w.FailedBy) == 0 {
		w.FailedBy = nil
	}
	if w.Requests > 0 {
		w.ErrorShare = float64(w.Failed+w.Unfinished) / float64(w.Requests)
	}
	if seconds := w.ToS - w.FromS; seconds > 0 {
		w.RateRPS, w.AnswerRPS = float64(w.Requests)/seconds, float64(s.answersIn(from, to))/seconds
	}
	lost := w.Failed + w.Unfinished
	w.Latency, ofAll = enough(record.LatencyOf(micros, 0), w.Answered, 0), enough(record.LatencyOf(micros, int(lost)), w.Requests, lost)
	w.LongestFailUS = float64(longestFailing(requests, to)) / 1e3
	for _, sample := range s.during(from, to) {
		for service, n := range sample.Ready {
			if was, ok := w.Ready[service]; !ok || n < was {
				w.Ready[service] = n
			}
		}
		for service, n := range sample.Ejected {
			w.Ejected[service] = max(w.Ejected[service], n)
		}
	}
	w.Edges = s.edges(a, requests, w)
	for _, e := range w.Edges {
		if e.Requests > 0 {
			w.Attempts = max(w.Attempts, float64(e.Attempts)/float64(e.Requests))
		}
	}
	return w, ofAll
}

// answersIn counts the answers from one time until before another, in nanoseconds since the start
// of the timeline, regardless of when their requests were due.
func (s *trialScenario) answersIn(from, to int64) int {
	low, _ := slices.BinarySearch(s.answers, from)
	high, _ := slices.BinarySearch(s.answers, to)
	return high - low
}

// during returns the samples of the services in a part of the timeline.
func (s *trialScenario) during(from, to int64) []record.ScenarioSample {
	zero := s.trial.Scenario.StartNS
	all := s.trial.Scenario.Samples
	at := func(ns int64) int { return sort.Search(len(all), func(i int) bool { return all[i].AtNS-zero >= ns }) }
	return all[at(from):max(at(from), at(to))]
}

// longestFailing returns the longest time, in nanoseconds, from a request that failed or never
// ended to the next answered one, or to the end if there is none. Requests are sorted by at.
func longestFailing(requests []sent, end int64) int64 {
	longest, since, failing := int64(0), int64(0), false
	for i := range requests {
		switch r := &requests[i]; {
		case r.ok && failing:
			longest, failing = max(longest, r.at-since), false
		case !r.ok && !failing:
			since, failing = r.at, true
		}
	}
	if failing {
		longest = max(longest, end-since)
	}
	return longest
}

// edges returns the traffic between services. For clients without a proxy it uses the clients' own
// account.
func (s *trialScenario) edges(a *ledger.Account, requests []sent, w record.ScenarioWindow) []record.ScenarioEdge {
	out := slices.Clone(a.Edges)
	clients := false
	for i, e := range out {
		clients = clients || e.From == fault.LoadService
		out[i].Latency = enough(record.Latency{Quantiles: e.Latency}, e.Requests, 0).Quantiles
	}
	if !clients && w.Requests > 0 {
		out = append(out, record.ScenarioEdge{From: fault.LoadService, To: resilience.Of(s.study).Entry, Requests: w.Requests, Attempts: w.Requests, Failed: w.Failed + w.Unfinished, Latency: w.Latency.Quantiles})
	}
	return out
}

// measureSteps fills in the effect of each step, until the next one began.
func (s *trialScenario) measureSteps() {
	var failures, lost []int64 // when clients learned of failures, and when requests without any outcome were due
	for i := range s.requests {
		switch r := &s.requests[i]; {
		case r.failed && r.done != record.Never:
			failures = append(failures, r.done)
		case !r.ok:
			lost = append(lost, r.at)
		}
	}
	slices.Sort(failures)
	zero := s.trial.Scenario.StartNS
	for i := range s.steps {
		one := &s.steps[i]
		if one.BeginS == 0 && one.AppliedS == 0 {
			continue
		}
		next := s.length
		last := true
		for _, later := range s.steps[i+1:] {
			if later.begin > one.begin {
				next, last = later.begin, false
				break
			}
		}
		turn := func(times []int64) []int64 {
			from, _ := slices.BinarySearch(times, one.begin)
			to, _ := slices.BinarySearch(times, next)
			if last {
				to = len(times) // outcome known after the end of the timeline
			}
			return times[from:to]
		}
		after := func(at int64) *float64 { us := float64(at-one.begin) / 1e3; return &us }
		told := turn(failures)
		if len(told) > 0 {
			one.DetectUS = after(told[0])
		}
		if all := slices.Concat(told, turn(lost)); len(all) > 0 {
			end := slices.Max(all)
			one.RecoverUS, one.StillFailing = after(end), end > next-min(secondNS, (next-one.begin)/4)
			one.Failed = int64(len(all))
		}
		before := 0
		if looks := s.during(0, one.begin); len(looks) > 0 {
			before = sum(looks[len(looks)-1].Ejected)
		}
		for _, sample := range s.during(one.begin, next) {
			if sum(sample.Ejected) > before {
				us := float64(sample.AtNS-zero-one.begin) / 1e3
				one.EjectUS = &us
				break
			}
		}
		one.LongestFailUS = float64(longestFailing(s.requests[s.first(one.begin):s.first(next)], next)) / 1e3
	}
}

func sum(by map[string]int) int {
	n := 0
	for _, v := range by {
		n += v
	}
	return n
}
