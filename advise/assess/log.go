package assess

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/meshtrial/meshtrial/internal/lines"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/observe"
)

// Log is what the logs of istiods say, all together.
type Log struct {
	// Seconds are covered by at least one of the logs: those of replicas overlap, those that were
	// rotated follow each other. Rates are over this time.
	Seconds float64 `json:"seconds"`
	Lines   int     `json:"lines"`
	// Rounds are pushes to all proxies that need one, after debouncing; Updates are what was merged
	// into them.
	Rounds  int `json:"rounds"`
	Updates int `json:"updates"`
	// Reasons are rounds by what caused them: the kind of the configuration that istiod names, which is
	// one of those that changed, or the trigger.
	Reasons []Counted `json:"reasons,omitempty"`
	// Pushes are configurations sent to a proxy by type, except those that a proxy requested, which
	// are Requested; Connects are proxies that connected.
	Pushes    []Counted `json:"pushes,omitempty"`
	Requested int       `json:"requested"`
	Connects  int       `json:"connects"`
	// Problems are messages that matter, most first; Warnings and Errors count all lines of that level.
	Problems []Problem `json:"problems,omitempty"`
	Warnings int       `json:"warnings"`
	Errors   int       `json:"errors"`
}

// Counted is how often something was logged.
type Counted struct {
	Name string `json:"name"`
	N    int    `json:"count"`
}

// Problem is a kind of message that reports a problem.
type Problem struct {
	What note.Note `json:"what"`
	N    int       `json:"count"`
	// Example is the first of these messages, cut.
	Example string `json:"example"`
}

// Problems of istiod that appear in its log.
var (
	LogRejected    = note.Define("assess_log_rejected", "proxies rejected configuration")
	LogRateLimited = note.Define("assess_log_rate_limited", "proxies had to wait to connect: PILOT_MAX_REQUESTS_PER_SECOND")
	LogSendFailed  = note.Define("assess_log_send_failed", "configuration was not sent")
	LogTimeout     = note.Define("assess_log_timeout", "a proxy did not take its configuration in time")
	LogTerminated  = note.Define("assess_log_terminated", "connections of proxies ended with an error")
	LogThrottled   = note.Define("assess_log_throttled", "requests to the API server waited: they were throttled")
	LogDeadline    = note.Define("assess_log_deadline", "something took longer than its deadline")
	LogContext     = note.Define("assess_log_context", "the push context could not be computed")
)

// troubles are the words by which istiod's messages tell of a problem, in the forms that they had since Istio
// 1.12. The first that fits counts.
var troubles = []struct {
	words string
	kind  *note.Kind
}{
	{": ACK ERROR ", LogRejected}, {" exceeded rate limit", LogRateLimited}, {"Send failure for node", LogSendFailed},
	{"Timeout writing ", LogTimeout}, {"QUEUE TIMEOUT for node", LogTimeout},
	{"failed to init push context", LogContext}, {"XDS: Failed to update services", LogContext},
	{"client-side throttling", LogThrottled}, {"Throttling request took", LogThrottled},
	{" terminated with error", LogTerminated}, {"context deadline exceeded", LogDeadline},
}

// Limits of what is kept of a log.
const (
	maxLine    = 64 << 10 // bytes; the rest of a line is ignored
	maxNames   = 50
	maxExample = 200
	maxSpans   = 10_000
)

// otherNames counts what has no name of its own, since there are too many.
const otherNames = "(others)"

// Logs reads logs of istiods. The zero value has read none.
type Logs struct {
	log      Log
	reasons  map[string]int
	pushes   map[string]int
	problems map[string]Problem // by code
	spans    [][2]time.Time
}

// ErrNoLog is returned for text without a line of istiod's log.
var ErrNoLog = errors.New("not a line is in the format of istiod's log")

// Read reads one log: text or JSON, in the forms of Istio since 1.12, also with the prefix that kubectl logs
// --prefix or --timestamps writes. Lines in other forms are ignored.
func (l *Logs) Read(in io.Reader) error {
	if l.reasons == nil {
		l.reasons, l.pushes, l.problems = map[string]int{}, map[string]int{}, map[string]Problem{}
	}
	if len(l.spans) == maxSpans {
		return errors.New("more logs than an assessment reads")
	}
	var span [2]time.Time
	defer func() { // lines before an error count, with their time
		if !span[0].IsZero() {
			l.spans = append(l.spans, span)
		}
	}()
	for line, err := range lines.Of(in, maxLine) {
		if err != nil {
			return err
		}
		e, ok := observe.ParseIstiodLine(line.Text)
		if !ok || e.At.IsZero() {
			continue
		}
		l.take(e)
		if span[0].IsZero() || e.At.Before(span[0]) {
			span[0] = e.At
		}
		if e.At.After(span[1]) {
			span[1] = e.At
		}
	}
	if span[0].IsZero() {
		return ErrNoLog
	}
	return nil
}

// Log returns what was read; nil for nothing.
func (l *Logs) Log() *Log {
	if len(l.spans) == 0 {
		return nil
	}
	out := l.log
	out.Seconds = covered(l.spans).Seconds()
	out.Reasons, out.Pushes = counted(l.reasons), counted(l.pushes)
	out.Problems = slices.SortedFunc(maps.Values(l.problems), func(a, b Problem) int {
		return cmp.Or(b.N-a.N, cmp.Compare(a.What.Code, b.What.Code))
	})
	return &out
}

// covered is the time that at least one of the spans covers.
func covered(spans [][2]time.Time) (total time.Duration) {
	spans = slices.Clone(spans)
	slices.SortFunc(spans, func(a, b [2]time.Time) int { return a[0].Compare(b[0]) })
	var until time.Time
	for _, s := range spans {
		from := s[0]
		if until.After(from) {
			from = until
		}
		if s[1].After(from) {
			total += s[1].Sub(from)
			until = s[1]
		}
	}
	return total
}

func counted(by map[string]int) (out []Counted) {
	for name, n := range by {
		out = append(out, Counted{name, n})
	}
	slices.SortFunc(out, func(a, b Counted) int { return cmp.Or(b.N-a.N, cmp.Compare(a.Name, b.Name)) })
	return out
}

func count(by map[string]int, name string, n int) {
	if by[name] == 0 && len(by) >= maxNames {
		name = otherNames
	}
	by[name] += n
}

// take counts one line.
func (l *Logs) take(e observe.IstiodLine) {
	l.log.Lines++
	switch e.Level {
	case "warn":
		l.log.Warnings++
	case "error", "fatal":
		l.log.Errors++
	}
	for _, t := range troubles {
		if strings.Contains(e.Text, t.words) {
			what := t.kind.Of()
			p, known := l.problems[what.Code]
			if !known {
				p = Problem{What: what, Example: shortened(e.Text)}
			}
			p.N++
			l.problems[what.Code] = p
			return
		}
	}
	if strings.Contains(e.Text, "new connection for node:") || strings.Contains(e.Text, "new delta connection for node:") {
		l.log.Connects++
	}
	switch event, _ := e.Event(); {
	case event.Kind == observe.LogDebounced:
		l.log.Rounds++
		l.log.Updates += min(event.Events, 1<<30)
		reason := cmp.Or(event.Config, "unknown") // Istio 1.12 and 1.13 name none
		if i := strings.IndexAny(reason, "/:"); i >= 0 {
			reason = reason[:i]
		}
		count(l.reasons, shortened(reason), 1)
	case event.Kind == observe.LogSent && event.Request:
		l.log.Requested++
	case event.Kind == observe.LogSent:
		count(l.pushes, shortened(strings.ToUpper(event.Type)), 1)
	}
}

// shortened is text as a report shows it: of one line, cut.
func shortened(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "�"))
	if len(text) > maxExample {
		text = strings.ToValidUTF8(text[:maxExample], "") + "..."
	}
	return text
}

// isLog reports whether text begins with lines of istiod's log.
func isLog(head []byte) bool {
	for line := range bytes.Lines(head) {
		if e, ok := observe.ParseIstiodLine(line); ok && e.Discovery() {
			return true
		}
	}
	return false
}
