package observe

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/internal/lines"
)

// LogKind is the stage of a push that a line of istiod's log reports.
type LogKind int

// Log lines about a push, all written at level info.
const (
	// LogDebounced: changes have been merged and their push begins
	// (pilot/pkg/xds/discovery.go, debounce).
	LogDebounced LogKind = iota + 1
	// LogPushing: the push context is ready, and all proxies are queued
	// (pilot/pkg/xds/ads.go, AdsPushAll).
	LogPushing
	// LogSent: resources of one type were written to one proxy's stream
	// (pilot/pkg/xds/delta.go and xdsgen.go). Pushes of only endpoints are not
	// logged at this level.
	LogSent
)

// LogEvent is one such line.
type LogEvent struct {
	Kind LogKind `json:"kind"`
	At   int64   `json:"at_unix_ns"` // by istiod's clock; the log has microsecond resolution

	Events int           `json:"events,omitempty"`   // LogDebounced: changes merged
	Quiet  time.Duration `json:"quiet_ns,omitempty"` // LogDebounced: since the last of them
	Delay  time.Duration `json:"delay_ns,omitempty"` // LogDebounced: since the first of them
	Config string        `json:"config,omitempty"`   // LogDebounced: one of them, Kind/namespace/name, or the reasons

	Connected int `json:"connected,omitempty"` // LogPushing: proxies

	Type    string `json:"type,omitempty"`    // LogSent: cds, eds, ...
	Node    string `json:"node,omitempty"`    // LogSent: the proxy, NAME.NAMESPACE
	Request bool   `json:"request,omitempty"` // LogSent: in response to the proxy's request
}

// IstiodLine is a line of istiod's log.
type IstiodLine struct {
	At    time.Time
	Level string // debug, info, warn, error or fatal
	Scope string // "" if the message has none
	Text  string
}

// Discovery reports whether a line is of istiod's discovery server: no other program of Istio has its scopes.
func (l IstiodLine) Discovery() bool { return l.Scope == "ads" || l.Scope == "delta" }

// ParseIstiodLine parses a line in the forms of Istio since 1.12: text or JSON, also with what kubectl logs
// --prefix or --timestamps writes before it. ok is false for any other line.
func ParseIstiodLine(line []byte) (l IstiodLine, ok bool) {
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
		return l, false
	}
	var err error
	if l.At, err = time.Parse(time.RFC3339Nano, next()); err != nil {
		return l, false
	}
	if l.Level = next(); !slices.Contains([]string{"debug", "info", "warn", "error", "fatal"}, l.Level) {
		return l, false
	}
	// The scope follows, but for messages of none.
	if rest := line; len(rest) > 0 {
		if tab := bytes.IndexByte(rest, '\t'); tab > 0 && tab < 40 && !bytes.ContainsRune(rest[:tab], ' ') {
			l.Scope, line = string(rest[:tab]), rest[tab+1:]
		} else if space := bytes.IndexByte(rest, ' '); tab < 0 && space > 0 && (IstiodLine{Scope: string(rest[:space])}).Discovery() {
			l.Scope, line = string(rest[:space]), bytes.TrimLeft(rest[space:], " ") // whose tabs became spaces
		}
	}
	l.Text = string(line)
	return l, true
}

func isTime(word []byte) bool {
	return len(word) >= len("2006-01-02T15:04:05Z") && word[4] == '-' && word[10] == 'T'
}

// parseJSONLine parses a line of --log_as_json, or in the format of Stackdriver.
func parseJSONLine(line []byte) (l IstiodLine, ok bool) {
	var j struct {
		Time, Level, Scope, Msg              string
		Timestamp, Severity, Logger, Message string
	}
	if json.Unmarshal(line, &j) != nil {
		return l, false
	}
	at, err := time.Parse(time.RFC3339Nano, cmp.Or(j.Time, j.Timestamp))
	l = IstiodLine{at, strings.ToLower(cmp.Or(j.Level, j.Severity)), cmp.Or(j.Scope, j.Logger), cmp.Or(j.Msg, j.Message)}
	if l.Level == "warning" {
		l.Level = "warn"
	}
	return l, err == nil && l.Level != ""
}

// Event returns what a line says about a push. ok is false for lines about something else. Invalid UTF-8 becomes
// U+FFFD, as in the JSON that stores events.
func (l IstiodLine) Event() (e LogEvent, ok bool) {
	switch text := strings.ToValidUTF8(l.Text, "\uFFFD"); {
	case strings.HasPrefix(text, "Push debounce stable["):
		e, ok = parseDebounced(text)
	case strings.HasPrefix(text, "XDS: Pushing "):
		e, ok = parsePushing(text)
	default:
		e, ok = parseSent(text)
	}
	if !ok {
		return LogEvent{}, false
	}
	e.At = l.At.UnixNano()
	return e, true
}

// parseDebounced parses "Push debounce stable[N] EVENTS for config NAME and MORE: QUIET since last change,
// DELAY since last push, forced=BOOL", or the same with "for reason ..." in place of config; before Istio
// 1.14 with nothing in its place.
func parseDebounced(message string) (e LogEvent, ok bool) {
	_, rest, _ := strings.Cut(message, "] ")
	at := strings.LastIndex(rest, ": ") // the name may contain colons; the durations do not
	if at < 0 {
		return e, false
	}
	count, cause, _ := strings.Cut(rest[:at], " for ")
	quiet, rest, _ := strings.Cut(rest[at+2:], " since last change, ")
	delay, _, ok := strings.Cut(rest, " since last push")
	_, name, _ := strings.Cut(cause, " ") // strip "config" or "reason"
	e.Kind = LogDebounced
	e.Config, _, _ = strings.Cut(name, " and ")
	var errs [3]error
	e.Events, errs[0] = strconv.Atoi(count)
	e.Quiet, errs[1] = time.ParseDuration(quiet)
	e.Delay, errs[2] = time.ParseDuration(delay)
	return e, ok && errors.Join(errs[:]...) == nil && e.Events >= 0 && e.Quiet >= 0 && e.Delay >= 0
}

// parsePushing parses "XDS: Pushing Services:N ConnectedEndpoints:N Version:V".
func parsePushing(message string) (LogEvent, bool) {
	_, rest, _ := strings.Cut(message, "ConnectedEndpoints:")
	count, _, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(count)
	return LogEvent{Kind: LogPushing, Connected: n}, err == nil && n >= 0
}

// parseSent parses "CDS: PUSH for node:NAME.NAMESPACE resources:...", where PUSH
// may be "PUSH INC", and either may be followed by " request".
func parseSent(message string) (LogEvent, bool) {
	kind, rest, _ := strings.Cut(message, ": PUSH")
	how, rest, _ := strings.Cut(rest, " for node:")
	node, _, whole := strings.Cut(rest, " ")
	how, request := strings.CutSuffix(how, " request")
	ok := kind != "" && len(kind) <= 8 && !strings.ContainsAny(kind, " \t:") && (how == "" || how == " INC") && whole && node != ""
	return LogEvent{Kind: LogSent, Type: strings.ToLower(kind), Node: node, Request: request}, ok
}

// IstiodLines holds the lines of one istiod's log about pushes.
type IstiodLines struct {
	// AheadNS is how far istiod's clock is ahead of the clock of events, in
	// nanoseconds.
	AheadNS int64 `json:"ahead_ns,omitempty"`
	// FromNS and ToNS are when istiod's metrics were read before and after, in
	// Unix nanoseconds by the events' clock; 0 if they were not read.
	FromNS int64 `json:"metrics_from_unix_ns,omitempty"`
	ToNS   int64 `json:"metrics_to_unix_ns,omitempty"`
	// Pushes has the lines of kinds LogDebounced and LogPushing, in log order.
	Pushes []LogEvent `json:"pushes,omitempty"`
	// Sent has the lines of kind LogSent, by type, proxy, and whether the proxy
	// requested it.
	Sent []SentLines `json:"sent,omitempty"`
}

// SentLines has the lines about what one proxy was sent for one type.
type SentLines struct {
	Type    string   `json:"type"` // cds, eds, ...
	Node    string   `json:"node"` // NAME.NAMESPACE
	Request bool     `json:"request,omitempty"`
	At      Instants `json:"at_unix_ns"` // by istiod's clock, in log order
}

// Instants are Unix nanoseconds. JSON stores the first value and then the
// difference of each to its predecessor.
type Instants []int64

// MarshalJSON implements json.Marshaler.
func (i Instants) MarshalJSON() ([]byte, error) {
	steps := make([]int64, len(i))
	before := int64(0)
	for k, at := range i {
		steps[k], before = at-before, at
	}
	return json.Marshal(steps)
}

// UnmarshalJSON implements json.Unmarshaler.
func (i *Instants) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, (*[]int64)(i)); err != nil {
		return err
	}
	at := int64(0)
	for k, step := range *i {
		at += step
		(*i)[k] = at
	}
	return nil
}

// IstiodLog collects the lines about pushes. The caller runs Read in a goroutine
// to follow the log; Lines returns what has been read so far.
type IstiodLog struct {
	// AheadNS is how far istiod's clock is ahead of the clock of events, in
	// nanoseconds.
	AheadNS int64

	mu     sync.Mutex
	pushes []LogEvent
	sent   map[sentKey]Instants
	last   int64
	lines  int
}

type sentKey struct {
	kind, node string
	request    bool
}

// maxLogLine is the maximum length of a line in bytes; longer ones are skipped.
const maxLogLine = 1 << 20

// Read reads lines until the log or ctx ends; neither is an error.
func (l *IstiodLog) Read(ctx context.Context, log io.Reader) error {
	for line, err := range lines.Of(log, maxLogLine) {
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, fs.ErrClosed) {
				return nil
			}
			return err
		}
		if parsed, ok := ParseIstiodLine(line.Text); ok && !line.Long {
			if e, ok := parsed.Event(); ok {
				l.Add(e)
			}
		}
	}
	return nil
}

// Add adds one line.
func (l *IstiodLog) Add(e LogEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines++
	l.last = max(l.last, e.At)
	if e.Kind != LogSent {
		l.pushes = append(l.pushes, e)
		return
	}
	if l.sent == nil {
		l.sent = map[sentKey]Instants{}
	}
	key := sentKey{e.Type, e.Node, e.Request}
	if _, known := l.sent[key]; !known { // copy, so that the key does not retain a whole line
		key.kind, key.node = strings.Clone(e.Type), strings.Clone(e.Node)
	}
	l.sent[key] = append(l.sent[key], e.At)
}

// Seen returns the number of lines about pushes, and the time of the latest by
// istiod's clock.
func (l *IstiodLog) Seen() (lines int, last time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines, time.Unix(0, l.last)
}

// Lines returns the lines read so far.
func (l *IstiodLog) Lines() IstiodLines {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := IstiodLines{AheadNS: l.AheadNS, Pushes: slices.Clone(l.pushes)}
	for key, at := range l.sent {
		out.Sent = append(out.Sent, SentLines{key.kind, key.node, key.request, slices.Clone(at)})
	}
	slices.SortFunc(out.Sent, func(a, b SentLines) int {
		if a.Request != b.Request && a.Node == b.Node && a.Type == b.Type {
			return map[bool]int{false: -1, true: 1}[a.Request]
		}
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Type, b.Type))
	})
	return out
}
