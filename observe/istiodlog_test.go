package observe

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/testing/must"
)

const (
	debouncedLine = "2026-11-21T13:38:04.542166Z\tinfo\tads\tPush debounce stable[6] 3 for config Sidecar/istio-system/default and 2 more configs: 101.5ms since last change, 1.647796301s since last push, forced=false"
	reasonLine    = "2026-11-21T13:38:07.610336Z\tinfo\tads\tPush debounce stable[7] 1 for reason global:1: 100.949133ms since last change, 100.948972ms since last push, forced=true"
	pushingLine   = "2026-11-21T13:38:04.542286Z\tinfo\tads\tXDS: Pushing Services:4 ConnectedEndpoints:1 Version:2026-11-21T13:38:04Z/6"
	sentLine      = "2026-11-21T13:38:04.542750Z\tinfo\tdelta\tCDS: PUSH for node:web-6cb7876f97-qtfxl.t1 resources:6 removed:0 size:2.4kB cached:0/2"
	requestLine   = "2026-11-21T13:38:04.628385Z\tinfo\tdelta\tEDS: PUSH request for node:web.t1 resources:2 removed:0 size:291B empty:0 cached:0/2 filtered:5"
	sotwLine      = "2026-11-21T13:38:04.628385Z\tinfo\tads\tEDS: PUSH INC for node:web.t1 resources:2 size:291B"
)

func eventOf(line []byte) (LogEvent, bool) {
	l, ok := ParseIstiodLine(line)
	if !ok {
		return LogEvent{}, false
	}
	return l.Event()
}

func TestIstiodLineEvent(t *testing.T) {
	at := func(clock string) int64 {
		v, err := time.Parse(time.RFC3339Nano, "2026-11-21T"+clock+"Z")
		must.OK(t, err)
		return v.UnixNano()
	}
	for name, tt := range map[string]struct {
		line string
		want LogEvent
		ok   bool
	}{
		"debounced": {debouncedLine, LogEvent{Kind: LogDebounced, At: at("13:38:04.542166"), Events: 3,
			Quiet: 101500 * time.Microsecond, Delay: 1647796301, Config: "Sidecar/istio-system/default"}, true},
		"by reason": {reasonLine, LogEvent{Kind: LogDebounced, At: at("13:38:07.610336"), Events: 1,
			Quiet: 100949133, Delay: 100948972, Config: "global:1"}, true},
		"pushing":         {pushingLine, LogEvent{Kind: LogPushing, At: at("13:38:04.542286"), Connected: 1}, true},
		"sent":            {sentLine, LogEvent{Kind: LogSent, At: at("13:38:04.54275"), Type: "cds", Node: "web-6cb7876f97-qtfxl.t1"}, true},
		"sent on request": {requestLine, LogEvent{Kind: LogSent, At: at("13:38:04.628385"), Type: "eds", Node: "web.t1", Request: true}, true},
		"sent in part":    {sotwLine, LogEvent{Kind: LogSent, At: at("13:38:04.628385"), Type: "eds", Node: "web.t1"}, true},
		"a line end":      {pushingLine + "\r\n", LogEvent{Kind: LogPushing, At: at("13:38:04.542286"), Connected: 1}, true},
		"JSON": {`{"level":"info","time":"2026-11-21T13:38:04.542750Z","scope":"delta","msg":"CDS: PUSH for node:web.t1 resources:6"}`,
			LogEvent{Kind: LogSent, At: at("13:38:04.54275"), Type: "cds", Node: "web.t1"}, true},
		"without a cause": {"2026-11-21T13:38:04.542286Z\tinfo\tads\tPush debounce stable[31] 3: 101ms since last change, 102ms since last push, full=true",
			LogEvent{Kind: LogDebounced, At: at("13:38:04.542286"), Events: 3, Quiet: 101 * time.Millisecond, Delay: 102 * time.Millisecond}, true},
		"no scope":       {"2026-11-21T13:38:04.542286Z\tinfo\tXDS: Pushing Services:4 ConnectedEndpoints:1 Version:x", LogEvent{Kind: LogPushing, At: at("13:38:04.542286"), Connected: 1}, true},
		"another line":   {"2026-11-21T13:30:35.348729Z\tinfo\tsync complete\tname=crd watcher attempt=1 time=1.291µs", LogEvent{}, false},
		"no node":        {"2026-11-21T13:38:04.542750Z\tinfo\tdelta\tCDS: PUSH for node: resources:6", LogEvent{}, false},
		"no time":        {"yesterday\tinfo\tads\tXDS: Pushing Services:4 ConnectedEndpoints:1 Version:x", LogEvent{}, false},
		"cut short":      {debouncedLine[:140], LogEvent{}, false},
		"a failure":      {"2026-11-21T13:38:04.542750Z\twarn\tdelta\tCDS: Send failure for node:web.t1 resources:6", LogEvent{}, false},
		"negative count": {strings.Replace(debouncedLine, "] 3 for", "] -3 for", 1), LogEvent{}, false},
		"empty":          {"", LogEvent{}, false},
		"broken JSON":    {`{"msg":"XDS: Pushing`, LogEvent{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := eventOf([]byte(tt.line))
			if ok != tt.ok || got != tt.want {
				t.Errorf("got %+v, %v", got, ok)
			}
		})
	}
}

// A log is read to its end, excessively long lines are skipped, and a last line
// without a newline counts.
func TestReadIstiodLog(t *testing.T) {
	text := debouncedLine + "\n" + strings.Repeat("x", 3*maxLogLine) + " " + sentLine + "\n" + pushingLine + "\n" + sentLine
	var l IstiodLog
	must.OK(t, l.Read(t.Context(), strings.NewReader(text)))
	if lines, last := l.Seen(); lines != 3 || last.UnixMicro() != 1795268284542750 {
		t.Errorf("%d lines, the last at %s", lines, last.UTC())
	}
	lines := l.Lines()
	if len(lines.Pushes) != 2 || lines.Pushes[0].Kind != LogDebounced || lines.Pushes[1].Kind != LogPushing {
		t.Errorf("pushes %+v", lines.Pushes)
	}
	if len(lines.Sent) != 1 || lines.Sent[0].Node != "web-6cb7876f97-qtfxl.t1" || !slices.Equal(lines.Sent[0].At, Instants{1795268284542750000}) {
		t.Errorf("sent %+v", lines.Sent)
	}
}

func TestReadIstiodLogErrors(t *testing.T) {
	broken := errors.New("the line is down")
	var l IstiodLog
	if err := l.Read(t.Context(), iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Read(ended, iotest.ErrReader(context.Canceled)); err != nil {
		t.Errorf("a reader that was told to stop: %v", err)
	}
	if err := l.Read(t.Context(), iotest.ErrReader(io.EOF)); err != nil {
		t.Errorf("the end: %v", err)
	}
}

func FuzzIstiodLine(f *testing.F) {
	for _, line := range []string{debouncedLine, reasonLine, pushingLine, sentLine, requestLine, sotwLine,
		`{"time":"2026-11-21T13:38:04.542750Z","msg":"CDS: PUSH for node:web.t1 resources:6"}`} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		e, ok := eventOf(line)
		if !ok {
			if e != (LogEvent{}) {
				t.Errorf("refused, but %+v", e)
			}
			return
		}
		if e.Kind < LogDebounced || e.Kind > LogSent || e.Quiet < 0 || e.Delay < 0 || e.Events < 0 || e.Connected < 0 {
			t.Errorf("%+v", e)
		}
		if e.Kind == LogSent && (e.Node == "" || e.Type == "") {
			t.Errorf("%+v", e)
		}
		var l IstiodLog
		l.Add(e)
		checkKept(t, l.Lines())
	})
}

// checkKept checks that lines survive JSON.
func checkKept(t testing.TB, lines IstiodLines) {
	t.Helper()
	data, err := json.Marshal(lines)
	must.OK(t, err)
	var again IstiodLines
	must.OK(t, json.Unmarshal(data, &again))
	if !reflect.DeepEqual(again, lines) {
		t.Errorf("%+v\nbecomes %+v\nby %s", lines, again, data)
	}
}

func TestIstiodLinesAreKept(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := IstiodLog{AheadNS: rapid.Int64().Draw(rt, "ahead")}
		for range rapid.IntRange(0, 20).Draw(rt, "lines") {
			e := LogEvent{Kind: LogKind(rapid.IntRange(int(LogDebounced), int(LogSent)).Draw(rt, "kind")), At: rapid.Int64Range(0, 2e18).Draw(rt, "at")}
			switch e.Kind {
			case LogDebounced:
				e.Events, e.Quiet, e.Delay, e.Config = rapid.IntRange(0, 9).Draw(rt, "events"), 3, 4, rapid.String().Draw(rt, "config")
			case LogPushing:
				e.Connected = rapid.IntRange(0, 9).Draw(rt, "connected")
			case LogSent:
				e.Type, e.Node = rapid.SampledFrom([]string{"cds", "eds"}).Draw(rt, "type"), rapid.SampledFrom([]string{"a.x", "b.x"}).Draw(rt, "node")
				e.Request = rapid.Bool().Draw(rt, "request")
			}
			l.Add(e)
		}
		lines := l.Lines()
		checkKept(t, lines)
		if n, _ := l.Seen(); n != len(lines.Pushes)+sent(lines) {
			rt.Errorf("%d lines, kept %+v", n, lines)
		}
	})
}

func sent(lines IstiodLines) (n int) {
	for _, s := range lines.Sent {
		n += len(s.At)
	}
	return n
}
