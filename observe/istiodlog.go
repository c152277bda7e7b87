package observe

import (
	"bufio"
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

// ParseIstiodLine parses one line of istiod's log, as text or as JSON. ok is
// false for lines that are not about a push. Invalid UTF-8 becomes U+FFFD, as in
// the JSON that stores events.
func ParseIstiodLine(line []byte) (e LogEvent, ok bool) {
	stamp, message, ok := splitLine(bytes.ToValidUTF8(line, []byte("\uFFFD")))
	if !ok {
		return LogEvent{}, false
	}
	switch {
	case strings.HasPrefix(message, "Push debounce stable["):
		e, ok = parseDebounced(message)
	case strings.HasPrefix(message, "XDS: Pushing "):
		e, ok = parsePushing(message)
	default:
		e, ok = parseSent(message)
	}
	if !ok {
		return LogEvent{}, false
	}
	at, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		return LogEvent{}, false
	}
	e.At = at.UnixNano()
	return e, true
}

// splitLine finds a line's time and message. The text form has time, level, an
// optional scope and the message, separated by tabs.
func splitLine(line []byte) (stamp, message string, ok bool) {
	line = bytes.TrimRight(line, "\r\n")
	if len(line) > 0 && line[0] == '{' {
		if !bytes.Contains(line, []byte("ush")) && !bytes.Contains(line, []byte("PUSH")) {
			return "", "", false // skip the parser
		}
		var entry struct{ Time, Msg string }
		if json.Unmarshal(line, &entry) != nil {
			return "", "", false
		}
		return entry.Time, entry.Msg, true
	}
	fields := strings.Split(string(line), "\t")
	if len(fields) < 3 {
		return "", "", false
	}
	if len(fields) == 3 {
		return fields[0], fields[2], true
	}
	return fields[0], fields[3], true
}

// parseDebounced parses "Push debounce stable[N] EVENTS for config NAME and MORE:
// QUIET since last change, DELAY since last push, forced=BOOL", or the same with
// "for reason ..." in place of config.
func parseDebounced(message string) (LogEvent, bool) {
	_, rest, ok := strings.Cut(message, "] ")
	if !ok {
		return LogEvent{}, false
	}
	count, rest, ok := strings.Cut(rest, " for ")
	if !ok {
		return LogEvent{}, false
	}
	events, err := strconv.Atoi(count)
	if err != nil || events < 0 {
		return LogEvent{}, false
	}
	// The name may contain colons; the durations do not.
	at := strings.LastIndex(rest, ": ")
	if at < 0 {
		return LogEvent{}, false
	}
	name, times := rest[:at], rest[at+2:]
	quiet, times, ok := strings.Cut(times, " since last change, ")
	if !ok {
		return LogEvent{}, false
	}
	delay, _, ok := strings.Cut(times, " since last push")
	if !ok {
		return LogEvent{}, false
	}
	e := LogEvent{Kind: LogDebounced, Events: events}
	if e.Quiet, err = time.ParseDuration(quiet); err != nil || e.Quiet < 0 {
		return LogEvent{}, false
	}
	if e.Delay, err = time.ParseDuration(delay); err != nil || e.Delay < 0 {
		return LogEvent{}, false
	}
	_, name, _ = strings.Cut(name, " ") // strip "config" or "reason"
	e.Config, _, _ = strings.Cut(name, " and ")
	return e, true
}

// parsePushing parses "XDS: Pushing Services:N ConnectedEndpoints:N Version:V".
func parsePushing(message string) (LogEvent, bool) {
	_, rest, ok := strings.Cut(message, "ConnectedEndpoints:")
	if !ok {
		return LogEvent{}, false
	}
	count, _, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 {
		return LogEvent{}, false
	}
	return LogEvent{Kind: LogPushing, Connected: n}, true
}

// parseSent parses "CDS: PUSH for node:NAME.NAMESPACE resources:...", where PUSH
// may be "PUSH INC", and either may be followed by " request".
func parseSent(message string) (LogEvent, bool) {
	kind, rest, ok := strings.Cut(message, ": PUSH")
	if !ok || kind == "" || len(kind) > 8 || strings.ContainsAny(kind, " \t:") {
		return LogEvent{}, false
	}
	how, rest, ok := strings.Cut(rest, " for node:")
	if !ok {
		return LogEvent{}, false
	}
	e := LogEvent{Kind: LogSent, Type: strings.ToLower(kind)}
	switch how {
	case "", " INC":
	case " request", " INC request":
		e.Request = true
	default:
		return LogEvent{}, false
	}
	e.Node, _, ok = strings.Cut(rest, " ")
	return e, ok && e.Node != ""
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
	reader := bufio.NewReaderSize(log, 64<<10)
	var line []byte
	skip := false
	for {
		part, err := reader.ReadSlice('\n')
		if !skip {
			line = append(line, part...)
		}
		if skip = len(line) > maxLogLine || skip; skip {
			line = line[:0]
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if !skip && len(line) > 0 {
			if e, ok := ParseIstiodLine(line); ok {
				l.Add(e)
			}
		}
		line, skip = line[:0], false
		if err != nil {
			if errors.Is(err, io.EOF) || ctx.Err() != nil || errors.Is(err, fs.ErrClosed) {
				return nil
			}
			return err
		}
	}
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
