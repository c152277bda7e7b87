package findings

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// judgeMoments evaluates an expression at every moment of a part of the timeline: each second that
// lies entirely in the part, at 10 ms steps. If the part or a limit is shorter than a second,
// moments have that length instead.
func (s *trialScenario) judgeMoments(e study.Expr) (outcome, detail string) {
	from, to, err := s.part(e)
	if err != nil {
		return record.VerdictInconclusive, err.Error()
	}
	long := min(secondNS, to-from)
	if e.Within > 0 {
		long = min(long, max(grid, floor(e.Within.Nanoseconds())))
	}
	c, err := compileMoment(e)
	if err != nil {
		return record.VerdictInconclusive, err.Error()
	}
	latency := false
	for _, v := range momentFields {
		latency = latency || v.unit == "ms" && c.names[v.name]
	}
	m := s.moments(latency)
	run := momentRun{e: e, from: from, to: to, first: from + long, names: c.names}
	for at := run.first; at <= to; at += grid {
		now := m.look(at-long, at)
		values := momentValues(&now)
		held, err := c.holds(now, values)
		if err != nil {
			return record.VerdictInconclusive, fmt.Sprintf("at %s: %v", at2s(at), err)
		}
		run.add(held, values)
	}
	if run.judge() {
		return record.VerdictPass, run.detail
	}
	return record.VerdictFail, run.detail
}

// part returns the part of the timeline that an assertion covers.
func (s *trialScenario) part(e study.Expr) (from, to int64, err error) {
	to = s.length
	begin := func(name string) (int64, error) {
		for _, one := range s.steps {
			if one.Name == name && (one.BeginS != 0 || one.AppliedS != 0) {
				return one.begin, nil
			}
		}
		return 0, fmt.Errorf("step %q did not happen", name)
	}
	if e.After != "" {
		if from, err = begin(e.After); err != nil {
			return 0, 0, err
		}
	}
	if e.Until != "" {
		if to, err = begin(e.Until); err != nil {
			return 0, 0, err
		}
	}
	if to-from < grid {
		return 0, 0, fmt.Errorf("there is no time between %s and %s", at2s(from), at2s(to))
	}
	return from, to, nil
}

// at2s formats a time of the timeline.
func at2s(ns int64) string { return strconv.FormatFloat(float64(ns)/1e9, 'f', 2, 64) + " s" }

// momentRun holds an expression's outcome at each moment of a part.
type momentRun struct {
	e               study.Expr
	from, to, first int64 // first: the end of the first moment
	names           map[string]bool
	held            []bool
	values          []map[string]any
	detail          string
}

func (r *momentRun) add(held bool, values map[string]any) {
	for name := range values {
		if !r.names[name] {
			delete(values, name)
		}
	}
	r.held, r.values = append(r.held, held), append(r.values, values)
}

func (r *momentRun) at(i int) int64 { return r.first + int64(i)*grid }

// next returns the index of the first moment from i on with this outcome, or the number of moments
// if there is none.
func (r *momentRun) next(i int, held bool) int {
	for ; i < len(r.held); i++ {
		if r.held[i] == held {
			return i
		}
	}
	return len(r.held)
}

// says formats the values at a moment.
func (r *momentRun) says(i int) string {
	var out []string
	for _, v := range momentFields {
		if value, ok := r.values[i][v.name]; ok {
			out = append(out, v.name+" "+valueWords(v.unit, value))
		}
	}
	if len(out) == 0 {
		return "false"
	}
	return strings.Join(out, ", ")
}

// between formats the minimum and maximum of each value over moments with this outcome.
func (r *momentRun) between(low, high int, held bool) string {
	var out []string
	for _, v := range momentFields {
		least, most, any := math.Inf(1), math.Inf(-1), false
		for i := low; i < high; i++ {
			if r.held[i] != held {
				continue
			}
			x, ok := number(r.values[i][v.name])
			if !ok {
				continue
			}
			least, most, any = math.Min(least, x), math.Max(most, x), true
		}
		if any && least < most {
			out = append(out, fmt.Sprintf("%s from %s to %s", v.name, valueWords(v.unit, least), valueWords(v.unit, most)))
		} else if any {
			out = append(out, v.name+" "+valueWords(v.unit, least))
		}
	}
	return strings.Join(out, ", ")
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int64:
		return float64(v), true
	}
	return 0, false
}

// judge reports whether the assertion holds and fills in the reason.
func (r *momentRun) judge() bool {
	n := len(r.held)
	if r.e.Within == 0 && r.e.For == 0 {
		bad := r.next(0, false)
		if bad == n {
			r.detail = fmt.Sprintf("held from %s to %s", at2s(r.from), at2s(r.to))
			if w := r.between(0, n, true); w != "" {
				r.detail += ": " + w
			}
			return true
		}
		r.detail = fmt.Sprintf("false at %s: %s; false for %s of %s in total, %s", at2s(r.at(bad)), r.says(bad), r.time(false), at2s(int64(n)*grid), r.between(bad, n, false))
		return false
	}
	latest := r.to
	if r.e.Within > 0 {
		latest = max(r.first, r.from+r.e.Within.Nanoseconds())
	}
	// It may become true and false again before it stays true.
	for i := r.next(0, true); ; {
		if i == n || r.at(i) > latest {
			return r.late(i, latest)
		}
		end := i // without For, once is enough
		if r.e.For > 0 {
			end = i + int(ceil(r.e.For.Nanoseconds())/grid)
		}
		bad := r.next(i, false)
		if bad > end {
			r.detail = fmt.Sprintf("true %s after %s", at2s(r.at(i)-r.from), r.begin())
			if r.e.For > 0 {
				r.detail += fmt.Sprintf(" and for %s then", r.e.For)
			}
			r.detail += ": " + r.between(i, min(end+1, n), true)
			return true
		}
		if bad == n { // true, but the part ends too early
			r.detail = fmt.Sprintf("true from %s on, but only %s remained until %s, and it must stay true for %s", at2s(r.at(i)), at2s(r.to-r.at(i)), at2s(r.to), r.e.For)
			return false
		}
		i = r.next(bad, true)
	}
}

// late records that it did not become true in time, and returns false.
func (r *momentRun) late(i int, latest int64) bool {
	n := len(r.held)
	high := min(n, max(1, int((latest-r.first)/grid)+1))
	stays := ""
	if r.e.For > 0 {
		stays = fmt.Sprintf(" for %s", r.e.For)
	}
	last := "it never was"
	switch at := r.next(0, true); {
	case i < n:
		last = fmt.Sprintf("it was true at %s, %s too late", at2s(r.at(i)), time.Duration(r.at(i)-latest))
	case at < n:
		last = fmt.Sprintf("it was true at %s, and false again at %s: %s", at2s(r.at(at)), at2s(r.at(r.next(at, false))), r.says(r.next(at, false)))
	}
	r.detail = fmt.Sprintf("not true%s by %s (%s after %s): %s; until then %s", stays, at2s(latest), at2s(latest-r.from), r.begin(), last, r.between(0, high, false))
	return false
}

func (r *momentRun) begin() string {
	if r.e.After != "" {
		return r.e.After
	}
	return "the timeline's start"
}

// time formats the total time with this outcome.
func (r *momentRun) time(held bool) string {
	n := int64(0)
	for _, h := range r.held {
		if h == held {
			n++
		}
	}
	return at2s(n * grid)
}

// moments views a trial through a sliding one-second window.
type moments struct {
	s       *trialScenario
	ats     []int64 // of the requests
	failed  []int64 // number of requests before each that failed or never ended
	latency bool    // whether latency is needed
}

func (s *trialScenario) moments(latency bool) *moments {
	m := &moments{s: s, ats: make([]int64, len(s.requests)), failed: make([]int64, len(s.requests)+1), latency: latency}
	for i := range s.requests {
		m.ats[i] = s.requests[i].at
		m.failed[i+1] = m.failed[i]
		if !s.requests[i].ok {
			m.failed[i+1]++
		}
	}
	return m
}

// look returns the moment from one time until before another, in nanoseconds since the start of the
// timeline.
func (m *moments) look(from, to int64) record.Moment {
	low, _ := slices.BinarySearch(m.ats, from)
	high, _ := slices.BinarySearch(m.ats, to)
	out := record.Moment{AtS: float64(to) / 1e9, Requests: int64(high - low), Failed: m.failed[high] - m.failed[low]}
	if out.Requests > 0 {
		out.ErrorShare = float64(out.Failed) / float64(out.Requests)
	}
	out.RateRPS = float64(m.s.answersIn(from, to)) / (float64(to-from) / 1e9)
	if m.latency {
		var micros []int64
		for _, r := range m.s.requests[low:high] {
			if r.ok {
				micros = append(micros, r.micros)
			}
		}
		out.SetLatency(micros)
	}
	zero := m.s.trial.Scenario.StartNS
	samples := m.s.trial.Scenario.Samples
	if i := sort.Search(len(samples), func(i int) bool { return samples[i].AtNS-zero > to }); i > 0 {
		out.Ready, out.Ejected = samples[i-1].Ready, samples[i-1].Ejected
	}
	return out
}

// momentNames lists the fields of expressions about moments, in words.
func momentNames() string {
	var out []string
	for _, v := range momentFields {
		out = append(out, v.name)
	}
	return strings.Join(out, ", ") + ", ready(service), ejected(service)"
}
