package assess

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/internal/accesslog"
	"github.com/meshtrial/meshtrial/internal/lines"
)

// AccessLogs sums access logs of proxies, line by line. Use [NewAccessLogs].
type AccessLogs struct {
	writers  map[string]*Writer
	entries  int
	sum      map[bool]*logSum // of requests that left pods, and of those that entered
	Lines    int64
	Requests int64 // or connections: lines of access logs
	TooLong  int64 // lines that were skipped
}

// Writer is a proxy that wrote a log.
type Writer struct {
	Pod     string // NAMESPACE/NAME; "" if unknown
	Name    string // of the file
	Address string // of its pod, as far as its lines tell: IP
	Ztunnel bool

	first, last   int64 // when requests began, ns since 1970
	ended, failed int64 // requests that are known to have ended, and that failed
	several       bool
	entries       map[AccessEntry]int64
}

// AccessEntry is what lines of a log count.
type AccessEntry struct {
	Caller string // NAMESPACE/NAME of a pod; "" for the one whose proxy wrote the log
	Host   string // called; "" for requests that entered the pod
	Port   string
	TCP    bool // a connection
}

// Limits of what is kept of logs, in which clients choose names.
const (
	maxLogLine    = 1 << 20 // bytes
	maxLogEntries = 500_000
	maxWriters    = 50_000
	maxLogTexts   = 64
	// longestCall is the longest duration that is counted exactly, in ms: a day.
	longestCall = 86_400_000
	// A log of fewestEnded requests that all failed has been filtered.
	fewestEnded = 10
	// shortestLog, in seconds, is the shortest log from which rates are computed.
	shortestLog = 1
)

// ErrNoAccessLog reports a file without a line of an access log, such as the output of a proxy that logs no requests.
var ErrNoAccessLog = errors.New("no line of it is one of an access log")

// NewAccessLogs returns an empty sum.
func NewAccessLogs() *AccessLogs {
	return &AccessLogs{writers: map[string]*Writer{}, sum: map[bool]*logSum{true: newLogSum(), false: newLogSum()}}
}

// Read reads a log of a pod's proxy, "" if that is unknown, in any order of its lines. Lines of other
// kinds, and a last one that is cut, are skipped. name distinguishes logs of unknown pods.
func (l *AccessLogs) Read(r io.Reader, name, pod string) error {
	before, had := l.Lines, l.Requests
	for line, err := range lines.Of(r, maxLogLine) {
		if err != nil {
			return fmt.Errorf("after line %d: %w", l.Lines-before, err)
		}
		switch l.Lines++; {
		case line.Long:
			l.TooLong++
		case !line.Cut:
			l.line(line.Text, name, pod)
		}
	}
	if l.Requests == had {
		return ErrNoAccessLog
	}
	return nil
}

func (l *AccessLogs) line(line []byte, name, pod string) {
	if of, rest := accesslog.CutPod(line); of != "" {
		namespace, _, known := strings.Cut(pod, "/")
		name, line = name+":"+of, rest
		if pod = of; known {
			pod = namespace + "/" + of
		}
	}
	if c, ok := accesslog.ParseZtunnel(line); ok {
		l.connection(c, name, pod)
	} else if e, ok := accesslog.Parse(line); ok {
		l.request(e, name, pod)
	}
}

// writer returns the writer of a line, and notes when its request began.
func (l *AccessLogs) writer(name, pod string, at int64) *Writer {
	key := name
	if strings.Contains(pod, "/") {
		key = pod
	}
	w := l.writers[key]
	if w == nil && len(l.writers) >= maxWriters {
		key, pod, name = "", "", ""
		w = l.writers[key]
	}
	if w == nil {
		w = &Writer{Pod: pod, Name: name, first: at, last: at, entries: map[AccessEntry]int64{}}
		l.writers[key] = w
	}
	w.first, w.last = min(w.first, at), max(w.last, at)
	l.Requests++
	return w
}

func (l *AccessLogs) count(w *Writer, e AccessEntry) {
	if _, known := w.entries[e]; !known {
		if l.entries == maxLogEntries {
			return
		}
		l.entries++
	}
	w.entries[e]++
}

func (l *AccessLogs) request(e accesslog.Line, name, pod string) {
	w := l.writer(name, pod, e.StartNS)
	if e.Status >= 100 || e.Flags != "" {
		w.ended++
		if e.Status >= 400 || e.Status == 0 {
			w.failed++
		}
	} else if e.Protocol == "" { // a connection that ended well
		w.ended++
	}
	direction, port, _, host, named := scope.SplitCluster(e.Cluster)
	left := named && direction == "outbound" || e.Cluster == "PassthroughCluster" || e.Cluster == "BlackHoleCluster"
	entry := AccessEntry{TCP: e.Protocol == ""}
	switch {
	case left && named && host != "":
		entry.Host, entry.Port = host, port
		w.address(e.Source)
	case left && !named:
		host := e.Authority
		if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
			host = host[:i]
		}
		entry.Host = cmp.Or(strings.Trim(host, "[]"), outside)
	case left, e.Cluster == "": // nobody's cluster, or its own answer, or a format without clusters
		l.sum[true].add(e.Protocol, e.Status, e.Flags, e.Received, e.Sent, e.DurationMS)
		return
	}
	l.count(w, entry)
	l.sum[left].add(e.Protocol, e.Status, e.Flags, e.Received, e.Sent, e.DurationMS)
}

// outside stands for hosts that no line names.
const outside = "(outside the mesh)"

// address notes from where the pod called.
func (w *Writer) address(from string) {
	i := strings.LastIndexByte(from, ':')
	if i <= 0 || w.several {
		return
	}
	ip := strings.Trim(from[:i], "[]")
	if w.Address != "" && w.Address != ip {
		w.Address, w.several = "", true
		return
	}
	w.Address = ip
}

func (l *AccessLogs) connection(c accesslog.Connection, name, pod string) {
	w := l.writer(name, pod, c.EndNS-max(c.DurationMS, 0)*1e6)
	w.Ztunnel = true
	w.ended++
	flags, status := "", 0
	if c.Failed {
		flags = "error"
		w.failed++
	}
	l.sum[c.Outbound].add("", status, flags, c.Received, c.Sent, c.DurationMS)
	if !c.Outbound || c.Pod == "" {
		return // the caller's ztunnel counts it
	}
	_, port, _ := strings.Cut(c.Address, ":")
	l.count(w, AccessEntry{Caller: c.Namespace + "/" + c.Pod, Host: cmp.Or(c.Service, outside), Port: port, TCP: true})
}

// Writers are those whose logs were read, in the order of their names.
func (l *AccessLogs) Writers() (out []*Writer) {
	for _, key := range slices.Sorted(maps.Keys(l.writers)) {
		out = append(out, l.writers[key])
	}
	return out
}

// Seconds is the time from the first request of a log to the last.
func (w *Writer) Seconds() float64 { return float64(w.last-w.first) / 1e9 }

// Filtered reports whether the log lacks the requests that succeed.
func (w *Writer) Filtered() bool { return w.ended >= fewestEnded && w.failed == w.ended }

// Brief reports whether the log is too short to tell rates.
func (w *Writer) Brief() bool { return w.Seconds() < shortestLog }

// Rates are the counts a second, of a log that is neither brief nor filtered.
func (w *Writer) Rates() map[AccessEntry]float64 {
	if w.Brief() || w.Filtered() {
		return nil
	}
	out := make(map[AccessEntry]float64, len(w.entries))
	for e, n := range w.entries {
		out[e] = float64(n) / w.Seconds()
	}
	return out
}

// logSum sums lines of all pods.
type logSum struct {
	requests         int64
	protocols, flags map[string]int64
	codes            map[int]int64
	received, sent   int64 // bytes
	sized            int64 // lines that tell bytes
	durations        *hdrhistogram.Histogram
	connections      int64
}

func newLogSum() *logSum {
	return &logSum{protocols: map[string]int64{}, flags: map[string]int64{}, codes: map[int]int64{}, durations: hdrhistogram.New(1, longestCall, 2)}
}

func (s *logSum) add(protocol string, status int, flags string, received, sent, ms int64) {
	s.requests++
	named(s.protocols, cmp.Or(protocol, "TCP"))
	if flags != "" {
		named(s.flags, flags)
	}
	if protocol == "" {
		s.connections++
		return // a connection's bytes and time are not a request's
	}
	s.codes[status]++
	if received >= 0 && sent >= 0 {
		s.sized++
		s.received, s.sent = s.received+received, s.sent+sent
	}
	if ms >= 0 {
		_ = s.durations.RecordValue(min(ms, longestCall)) // it is in range
	}
}

// named counts a text that clients may choose, of which few are kept.
func named(counts map[string]int64, text string) {
	if _, known := counts[text]; !known && (len(counts) >= maxLogTexts || len(text) > 40) {
		text = "others"
	}
	counts[text]++
}

// Logged is what access logs say of requests.
type Logged struct {
	Proxies int         `json:"proxies"`
	Left    *LoggedSide `json:"left,omitempty"`    // requests that left pods
	Entered *LoggedSide `json:"entered,omitempty"` // requests that entered pods
}

// sizes are mean bytes of requests and answers; nil where no line has them.
func (l *Logged) sizes() *Sizes {
	if l == nil {
		return nil
	}
	for _, side := range []*LoggedSide{l.Left, l.Entered} {
		if side != nil && side.Received != nil {
			return &Sizes{*side.Received, *side.Sent}
		}
	}
	return nil
}

// LoggedSide sums requests of one direction.
type LoggedSide struct {
	Requests    int64            `json:"requests"`
	Connections int64            `json:"tcp_connections"`
	Protocols   map[string]int64 `json:"protocols"`
	Codes       map[int]int64    `json:"codes,omitempty"` // HTTP; 0 for none
	Flags       map[string]int64 `json:"flags,omitempty"` // Envoy's response flags
	// Received and Sent are mean bytes of bodies; nil where no line has them.
	Received *float64 `json:"request_bytes,omitempty"`
	Sent     *float64 `json:"response_bytes,omitempty"`
	// P50MS, P90MS and P99MS are percentiles of durations in ms, within 1%; nil without any.
	P50MS *float64 `json:"p50_ms,omitempty"`
	P90MS *float64 `json:"p90_ms,omitempty"`
	P99MS *float64 `json:"p99_ms,omitempty"`
}

// Logged returns the sums; nil if no log was read.
func (l *AccessLogs) Logged() *Logged {
	if len(l.writers) == 0 {
		return nil
	}
	return &Logged{Proxies: len(l.writers), Left: l.sum[true].side(), Entered: l.sum[false].side()}
}

func (s *logSum) side() *LoggedSide {
	if s.requests == 0 {
		return nil
	}
	out := &LoggedSide{Requests: s.requests - s.connections, Connections: s.connections, Protocols: s.protocols, Codes: s.codes, Flags: s.flags}
	if s.sized > 0 {
		out.Received, out.Sent = new(float64(s.received)/float64(s.sized)), new(float64(s.sent)/float64(s.sized))
	}
	if s.durations.TotalCount() > 0 {
		at := func(percent float64) *float64 { return new(float64(s.durations.ValueAtQuantile(percent))) }
		out.P50MS, out.P90MS, out.P99MS = at(50), at(90), at(99)
	}
	return out
}
