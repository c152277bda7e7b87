package assess

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/meshtrial/meshtrial/internal/note"
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
	problems map[string]*Problem // by code
	spans    [][2]time.Time
}

// ErrNoLog is returned for text without a line of istiod's log.
var ErrNoLog = errors.New("not a line is in the format of istiod's log")

// Read reads one log: text or JSON, in the forms of Istio since 1.12, also with the prefix that kubectl logs
// --prefix or --timestamps writes. Lines in other forms are ignored.
func (l *Logs) Read(in io.Reader) error {
	if l.reasons == nil {
		l.reasons, l.pushes, l.problems = map[string]int{}, map[string]int{}, map[string]*Problem{}
	}
	if len(l.spans) == maxSpans {
		return errors.New("more logs than an assessment reads")
	}
	r := bufio.NewReaderSize(in, maxLine)
	var span [2]time.Time
	for {
		line, err := r.ReadSlice('\n')
		if e, ok := parseLine(line); ok && !e.at.IsZero() {
			l.take(e)
			if span[0].IsZero() || e.at.Before(span[0]) {
				span[0] = e.at
			}
			if e.at.After(span[1]) {
				span[1] = e.at
			}
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = r.ReadSlice('\n')
		}
		if err == nil {
			continue
		}
		if !span[0].IsZero() { // lines before an error count, with their time
			l.spans = append(l.spans, span)
		}
		switch {
		case !errors.Is(err, io.EOF):
			return err
		case span[0].IsZero():
			return ErrNoLog
		}
		return nil
	}
}

// Log returns what was read; nil for nothing.
func (l *Logs) Log() *Log {
	if len(l.spans) == 0 {
		return nil
	}
	out := l.log
	out.Seconds = covered(l.spans).Seconds()
	out.Reasons, out.Pushes = counted(l.reasons), counted(l.pushes)
	for _, p := range l.problems {
		out.Problems = append(out.Problems, *p)
	}
	slices.SortFunc(out.Problems, func(a, b Problem) int { return cmp.Or(b.N-a.N, cmp.Compare(a.What.Code, b.What.Code)) })
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

// entry is one line of a log.
type entry struct {
	at    time.Time
	level string
	scope string // "" if the message has none
	text  string
}

// parseLine parses a line, without what kubectl wrote before it.
func parseLine(line []byte) (e entry, ok bool) {
	line = bytes.TrimSpace(line)
	if len(line) > 0 && line[0] == '[' { // kubectl logs --prefix
		if end := bytes.Index(line, []byte("] ")); end > 0 {
			line = line[end+2:]
		}
	}
	if at := bytes.IndexByte(line, ' '); at > 0 && isTime(line[:at]) && at+1 < len(line) { // kubectl logs --timestamps
		if rest := bytes.TrimLeft(line[at:], " "); rest[0] == '{' || isTime(rest[:max(0, bytes.IndexAny(rest, " \t"))]) {
			line = rest
		}
	}
	if len(line) > 0 && line[0] == '{' {
		return parseJSONLine(line)
	}
	next := func() string {
		end := bytes.IndexAny(line, " \t")
		if end < 0 {
			end = len(line)
		}
		word := string(line[:end])
		line = bytes.TrimLeft(line[end:], " \t")
		return word
	}
	if len(line) == 0 || line[0] < '0' || line[0] > '9' {
		return e, false
	}
	var err error
	if e.at, err = time.Parse(time.RFC3339Nano, next()); err != nil {
		return e, false
	}
	if e.level = next(); !slices.Contains([]string{"debug", "info", "warn", "error", "fatal"}, e.level) {
		return e, false
	}
	// The scope follows, but for messages of none.
	if rest := line; len(rest) > 0 {
		if tab := bytes.IndexByte(rest, '\t'); tab > 0 && tab < 40 && !bytes.ContainsRune(rest[:tab], ' ') {
			e.scope, line = string(rest[:tab]), rest[tab+1:]
		} else if space := bytes.IndexByte(rest, ' '); tab < 0 && space > 0 && slices.Contains(scopes, string(rest[:space])) {
			e.scope, line = string(rest[:space]), bytes.TrimLeft(rest[space:], " ") // whose tabs became spaces
		}
	}
	e.text = string(line)
	return e, true
}

// scopes are those of istiod's discovery server: no other program of Istio has them.
var scopes = []string{"ads", "delta"}

func isTime(word []byte) bool {
	return len(word) >= len("2006-01-02T15:04:05Z") && word[4] == '-' && word[10] == 'T'
}

// parseJSONLine parses a line of --log_as_json, or in the format of Stackdriver.
func parseJSONLine(line []byte) (e entry, ok bool) {
	var j struct {
		Time, Level, Scope, Msg              string
		Timestamp, Severity, Logger, Message string
	}
	if json.Unmarshal(line, &j) != nil {
		return e, false
	}
	at, err := time.Parse(time.RFC3339Nano, cmp.Or(j.Time, j.Timestamp))
	e = entry{at, strings.ToLower(cmp.Or(j.Level, j.Severity)), cmp.Or(j.Scope, j.Logger), cmp.Or(j.Msg, j.Message)}
	if e.level == "warning" {
		e.level = "warn"
	}
	return e, err == nil && e.level != ""
}

// take counts one line.
func (l *Logs) take(e entry) {
	l.log.Lines++
	switch e.level {
	case "warn":
		l.log.Warnings++
	case "error", "fatal":
		l.log.Errors++
	}
	for _, t := range troubles {
		if strings.Contains(e.text, t.words) {
			what := t.kind.Of()
			p := l.problems[what.Code]
			if p == nil {
				p = &Problem{What: what, Example: shortened(e.text)}
				l.problems[what.Code] = p
			}
			p.N++
			return
		}
	}
	switch {
	case strings.HasPrefix(e.text, "Push debounce stable["):
		l.round(e.text)
	case strings.Contains(e.text, "new connection for node:"), strings.Contains(e.text, "new delta connection for node:"):
		l.log.Connects++
	default:
		l.push(e.text)
	}
}

// round counts a line such as
//
//	Push debounce stable[3] 7 for config ServiceEntry/shop/cart and 2 more configs: 100ms since last change, ...
//	Push debounce stable[4] 1 for reason endpoint:1 and service:2: 100ms since last change, ...
//	Push debounce stable[5] 1: 100ms since last change, ... (Istio 1.12 and 1.13, without configuration)
func (l *Logs) round(text string) {
	_, text, _ = strings.Cut(text, "] ")
	digits := 0
	for digits < len(text) && text[digits] >= '0' && text[digits] <= '9' {
		digits++
	}
	n, err := strconv.Atoi(text[:digits])
	if err != nil {
		return
	}
	l.log.Rounds++
	l.log.Updates += min(n, 1<<30)
	reason := "unknown"
	if _, config, ok := strings.Cut(text, " for config "); ok {
		reason, _, _ = strings.Cut(config, "/")
	} else if _, trigger, ok := strings.Cut(text, " for reason "); ok {
		reason, _, _ = strings.Cut(trigger, ":")
	}
	count(l.reasons, shortened(reason), 1)
}

// push counts a line such as
//
//	CDS: PUSH for node:cart-0.shop resources:14 size:9.2kB
//	EDS: PUSH INC for node:cart-0.shop resources:1 size:120B
//	LDS: PUSH request for node:cart-0.shop resources:9 size:40kB
func (l *Logs) push(text string) {
	kind, rest, ok := strings.Cut(text, ": PUSH")
	if !ok || len(kind) > 8 || strings.ContainsFunc(kind, unicode.IsSpace) {
		return
	}
	rest = strings.TrimPrefix(rest, " INC")
	switch {
	case strings.HasPrefix(rest, " for node:"):
		count(l.pushes, shortened(kind), 1)
	case strings.HasPrefix(rest, " request for node:"):
		l.log.Requested++
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
		if e, ok := parseLine(line); ok && slices.Contains(scopes, e.scope) {
			return true
		}
	}
	return false
}
