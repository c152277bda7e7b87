package observe

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

// LogKind is what a line of istiod's log tells of a push.
type LogKind int

// Lines that tell of a push, all written at level info.
const (
	// LogDebounced: changes have been merged and their push begins
	// (pilot/pkg/xds/discovery.go, debounce).
	LogDebounced LogKind = iota + 1
	// LogPushing: the push context is there, and all proxies are queued
	// (pilot/pkg/xds/ads.go, AdsPushAll).
	LogPushing
	// LogSent: one type of resources was handed to one proxy's stream
	// (pilot/pkg/xds/delta.go and xdsgen.go). Pushes of nothing but endpoints
	// are not logged at this level.
	LogSent
)

// LogEvent is one such line.
type LogEvent struct {
	Kind LogKind
	At   int64 // by istiod's clock, nanoseconds since 1970; the log has microseconds

	Events int           // LogDebounced: changes merged
	Quiet  time.Duration // LogDebounced: since the last of them
	Delay  time.Duration // LogDebounced: since the first of them
	Config string        // LogDebounced: one of them, Kind/namespace/name, or the reasons

	Connected int // LogPushing: proxies

	Type    string // LogSent: cds, eds, ...
	Node    string // LogSent: the proxy, NAME.NAMESPACE
	Request bool   // LogSent: the proxy had asked for it
}

// ParseIstiodLine reads one line of istiod's log, as text or as JSON; ok is
// false for lines that tell of no push.
func ParseIstiodLine(line []byte) (e LogEvent, ok bool) {
	stamp, message, ok := splitLine(line)
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

// splitLine finds a line's time and message. The text form is time, level,
// perhaps a scope, and the message, between tabs.
func splitLine(line []byte) (stamp, message string, ok bool) {
	line = bytes.TrimRight(line, "\r\n")
	if len(line) > 0 && line[0] == '{' {
		if !bytes.Contains(line, []byte("ush")) && !bytes.Contains(line, []byte("PUSH")) {
			return "", "", false // spare the parser
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

// parseDebounced reads "Push debounce stable[N] EVENTS for config NAME and
// MORE: QUIET since last change, DELAY since last push, forced=BOOL", or "for
// reason ..." in place of config.
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
	// The name may hold colons, the durations do not.
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
	_, name, _ = strings.Cut(name, " ") // config or reason
	e.Config, _, _ = strings.Cut(name, " and ")
	return e, true
}

// parsePushing reads "XDS: Pushing Services:N ConnectedEndpoints:N Version:V".
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

// parseSent reads "CDS: PUSH for node:NAME.NAMESPACE resources:...", where
// PUSH may be "PUSH INC", and either may be followed by " request".
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

// IstiodLog gathers the pushes that one istiod logs. Read fills it, in a
// goroutine of the caller's, while the log is followed; [MakeStages] reads it
// afterwards.
type IstiodLog struct {
	// AheadNS is how far istiod's clock is ahead of the one that events
	// are timed by, nanoseconds.
	AheadNS int64
	// FromNS and ToNS are when istiod's metrics were read before and after,
	// by the events' clock; 0 for no such readings.
	FromNS, ToNS int64

	mu     sync.Mutex
	pushes []push    // in the order of their last changes
	queued []push    // the same, as they were logged
	open   *LogEvent // a LogDebounced whose LogPushing has not come
	sent   map[sentKey][]int64
	names  map[string]string // nodes, each kept once
	last   int64
	lines  int
}

// push is one push of istiod's to all proxies, by istiod's clock.
type push struct {
	first, lastChange int64 // when the merged changes came
	stable            int64 // when debouncing ended
	pushing           int64 // when proxies were queued
	debounced         bool  // the first three are known
}

type sentKey struct{ kind, node string }

// maxLogLine bounds a line, in bytes; longer ones are skipped.
const maxLogLine = 1 << 20

// Read takes lines until the log ends or ctx does, neither of which is an
// error.
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

// Add takes one line.
func (l *IstiodLog) Add(e LogEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines++
	l.last = max(l.last, e.At)
	switch e.Kind {
	case LogDebounced:
		l.open = &e
	case LogPushing:
		p := push{first: e.At, lastChange: e.At, stable: e.At, pushing: e.At}
		if l.open != nil {
			p = push{first: l.open.At - int64(l.open.Delay), lastChange: l.open.At - int64(l.open.Quiet),
				stable: l.open.At, pushing: e.At, debounced: true}
			l.open = nil
		}
		l.queued = append(l.queued, p)
		// Mostly at the end: a push of endpoints that need not wait may
		// overtake one that does.
		i := sort.Search(len(l.pushes), func(i int) bool { return l.pushes[i].lastChange > p.lastChange })
		l.pushes = slices.Insert(l.pushes, i, p)
	case LogSent:
		if l.sent == nil {
			l.sent, l.names = map[sentKey][]int64{}, map[string]string{}
		}
		node, ok := l.names[e.Node]
		if !ok {
			node = strings.Clone(e.Node)
			l.names[node] = node
		}
		key := sentKey{strings.Clone(e.Type), node}
		l.sent[key] = append(l.sent[key], e.At)
	}
}

// Seen returns how many lines told of pushes, and the time of the latest by
// istiod's clock.
func (l *IstiodLog) Seen() (lines int, last time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines, time.Unix(0, l.last)
}

// knows tells whether anything was sent to a node here.
func (l *IstiodLog) knows(node string) bool {
	_, ok := l.names[node]
	return ok
}

// before finds the latest line of a type and node that is not after an
// instant, by the events' clock.
func (l *IstiodLog) before(kind, node string, at int64) (int64, bool) {
	times := l.sent[sentKey{kind, node}]
	at += l.AheadNS
	i := sort.Search(len(times), func(i int) bool { return times[i] > at })
	if i == 0 {
		return 0, false
	}
	return times[i-1] - l.AheadNS, true
}

// carrying finds the push that a change went out with: the first that merged
// something at or after the change was sent to the API server, and that began
// before a proxy had it. All by the events' clock. endpoints says that the
// change is one of endpoints alone, which need not wait when istiod does not
// debounce them.
func (l *IstiodLog) carrying(sent, received int64, endpoints bool) (push, bool) {
	i := sort.Search(len(l.pushes), func(i int) bool { return l.pushes[i].lastChange-l.AheadNS >= sent })
	for ; i < len(l.pushes); i++ {
		p := l.pushes[i].moved(-l.AheadNS)
		if p.lastChange > received {
			break
		}
		if (p.debounced || endpoints) && p.pushing <= received {
			return p, true
		}
	}
	return push{}, false
}
