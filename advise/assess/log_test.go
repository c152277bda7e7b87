package assess

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/testing/must"
)

func readLogs(t *testing.T, texts ...string) *Log {
	t.Helper()
	var l Logs
	for _, text := range texts {
		must.OK(t, l.Read(strings.NewReader(text)))
	}
	return l.Log()
}

// at makes a line of a log of each second.
func logOf(from int, messages ...string) string {
	var out strings.Builder
	for i, m := range messages {
		fmt.Fprintf(&out, "2026-11-30T10:%02d:%02d.000000Z\tinfo\tads\t%s\n", (from+i)/60, (from+i)%60, m)
	}
	return out.String()
}

// The messages of Istio's versions, as their source has them.
func TestLogForms(t *testing.T) {
	for version, c := range map[string]struct {
		messages []string
		reasons  string
		updates  int
	}{
		"1.12": {[]string{"Push debounce stable[31] 3: 100.981865ms since last change, 100.981653ms since last push, full=true",
			"XDS: Pushing:2021-04-23T20:53:29Z/23 Services:15 ConnectedEndpoints:2  Version:2021-04-23T20:53:29Z/23",
			"CDS: PUSH for node:cart-0.shop resources:14 size:9.2kB", "EDS: PUSH INC for node:cart-0.shop resources:1 size:120B", "LDS: PUSH request for node:cart-0.shop resources:9 size:40kB",
			"ADS: new connection for node:sidecar~10.0.0.1~cart-0.shop~shop.svc.cluster.local-1"}, "unknown", 3},
		"1.16": {[]string{"Push debounce stable[2] 4 for reason endpoint:3 and service:1: 100ms since last change, 110ms since last push, full=false",
			"CDS: PUSH for node:cart-0.shop resources:14 size:9.2kB cached:12/14", "EDS: PUSH for node:cart-0.shop resources:14 size:9.2kB", "NDS: PUSH request for node:cart-0.shop resources:1 size:1kB",
			"ADS: new delta connection for node:cart-0.shop-2"}, "endpoint", 4},
		"1.24": {[]string{"Push debounce stable[7] 103 for config ServiceEntry/shop/cart and 42 more configs: 100.026396ms since last change, 163.533964ms since last push, full=true",
			"XDS: Pushing Services:26 ConnectedEndpoints:0 Version:2024-07-25T20:12:53Z/1", "CDS: PUSH for node:cart-0.shop resources:14 removed:2 size:9.2kB", "EDS: PUSH INC for node:cart-0.shop resources:1 removed:0 size:120B",
			"LDS: PUSH request for node:cart-0.shop resources:9 removed:0 size:40kB", "ADS: new connection for node:cart-0.shop-3"}, "ServiceEntry", 103},
		"1.31": {[]string{"Push debounce stable[9] 1 for config VirtualService/shop/cart: 100ms since last change, 100ms since last push, forced=false",
			"CDS: PUSH for node:cart-0.shop resources:14 removed:2 size:9.2kB", "EDS: PUSH for node:cart-0.shop resources:1 removed:0 size:120B", "RDS: PUSH request for node:cart-0.shop resources:9 removed:0 size:40kB",
			"ADS: new connection for node:cart-0.shop-4"}, "VirtualService", 1},
	} {
		text := logOf(0, append(slices.Clone(c.messages), "end")...)
		var asJSON, stackdriver, prefixed, spaces strings.Builder
		for line := range strings.Lines(text) {
			f := strings.SplitN(strings.TrimSpace(line), "\t", 4)
			fmt.Fprintf(&asJSON, "{\"level\":%q,\"time\":%q,\"scope\":%q,\"msg\":%q}\n", f[1], f[0], f[2], f[3])
			fmt.Fprintf(&stackdriver, "{\"severity\":\"INFO\",\"timestamp\":%q,\"logger\":%q,\"message\":%q}\n", f[0], f[2], f[3])
			fmt.Fprintf(&prefixed, "[pod/istiod-5d/discovery] %s %s", f[0], line)
			spaces.WriteString(strings.ReplaceAll(line, "\t", " "))
		}
		for form, text := range map[string]string{"text": text, "JSON": asJSON.String(), "Stackdriver": stackdriver.String(), "prefixed": prefixed.String(), "spaces": spaces.String()} {
			l := readLogs(t, text)
			if l.Rounds != 1 || l.Updates != c.updates || len(l.Reasons) != 1 || l.Reasons[0].Name != c.reasons || l.Requested != 1 || l.Connects != 1 ||
				!slices.Equal(l.Pushes, []Counted{{"CDS", 1}, {"EDS", 1}}) || l.Seconds != float64(len(c.messages)) || len(l.Problems) != 0 {
				t.Errorf("%s, %s: %+v", version, form, l)
			}
			if got := Sniff([]byte(text), false); got != ContentLog {
				t.Errorf("%s, %s: %q", version, form, got)
			}
		}
	}
}

func TestLogProblems(t *testing.T) {
	for text, want := range map[string]*note.Kind{
		"warn\tads\tADS:CDS: ACK ERROR sidecar~10.0.0.1~a.b~b.svc-1 Internal:Error adding/updating cluster(s)":               LogRejected,
		"warn\tads\tdADS:LDS: ACK ERROR a.b-3 Internal:x":                                                                    LogRejected,
		"warn\tads\tADS: \"10.0.0.1:4\" exceeded rate limit: rate: Wait(n=1) would exceed context deadline":                  LogRateLimited,
		"warn\tads\tEDS: Send failure for node:a.b resources:4 size:1kB: rpc error":                                          LogSendFailed,
		"info\tads\tTimeout writing a.b-3: EDS":                                                                              LogTimeout,
		"warn\tads\tEDS: QUEUE TIMEOUT for node:a.b":                                                                         LogTimeout,
		"error\tads\tADS: \"10.0.0.1:4\" a.b-3 terminated with error: rpc error: code = DeadlineExceeded":                    LogTerminated,
		"info\tklog\tWaited for 1.19s due to client-side throttling, not priority and fairness, request: GET:https://x/apis": LogThrottled,
		"error\tcontrollers\terror handling x: context deadline exceeded":                                                    LogDeadline,
		"error\tads\tXDS: failed to init push context: x":                                                                    LogContext,
	} {
		line := "2026-11-30T10:00:00.000000Z\t" + text + "\n"
		l := readLogs(t, line+line)
		if len(l.Problems) != 1 || !l.Problems[0].What.Is(want) || l.Problems[0].N != 2 || l.Warnings+l.Errors != 2 && !strings.HasPrefix(text, "info") {
			t.Errorf("%s: %+v", text, l.Problems)
		}
	}
}

// Logs of replicas overlap, and those that were rotated follow each other: time counts once.
func TestLogsOfSeveral(t *testing.T) {
	round := "Push debounce stable[1] 1 for reason endpoint:1: 100ms since last change, 100ms since last push, full=true"
	if l := readLogs(t, logOf(0, round, round, round), logOf(1, round, round, round)); l.Seconds != 3 || l.Rounds != 6 {
		t.Errorf("overlapping: %+v", l)
	}
	if l := readLogs(t, logOf(100, round, round), logOf(0, round, round)); l.Seconds != 2 || l.Rounds != 4 {
		t.Errorf("rotated: %+v", l)
	}
}

// Of lines without end, of names without number and of other text nothing is kept.
func TestLogBounds(t *testing.T) {
	var text bytes.Buffer
	for i := range 1000 {
		fmt.Fprintf(&text, "2026-11-30T10:00:00Z\tinfo\tads\tPush debounce stable[1] 1 for config Kind%d/a/b: 1ms since last change, 1ms since last push, full=true\nnot a line\n", i)
	}
	fmt.Fprintf(&text, "2026-11-30T10:00:01Z\twarn\tads\tADS:CDS: ACK ERROR a Internal:\x1b[31m\xff%s\n", strings.Repeat("x", 1<<20))
	l := readLogs(t, text.String())
	if len(l.Reasons) != maxNames+1 || l.Reasons[0].Name != otherNames || l.Reasons[0].N != 1000-maxNames || l.Rounds != 1000 || l.Lines != 1001 {
		t.Errorf("%d reasons, first %+v, %d rounds, %d lines", len(l.Reasons), l.Reasons[0], l.Rounds, l.Lines)
	}
	if e := l.Problems[0].Example; len(e) > maxExample+3 || strings.Contains(e, "\x1b") || !utf8.ValidString(e) {
		t.Errorf("%q", e)
	}
	var none Logs
	if err := none.Read(strings.NewReader("a log\nof something\n")); !errors.Is(err, ErrNoLog) || none.Log() != nil {
		t.Errorf("other text: %v, %+v", err, none.Log())
	}
}

// Of a log that breaks off, what was read counts over its own time.
func TestLogCut(t *testing.T) {
	var l Logs
	round := "Push debounce stable[1] 1: 1ms since last change, 1ms since last push, full=true"
	err := l.Read(io.MultiReader(strings.NewReader(logOf(0, round, round, round)), iotest.ErrReader(io.ErrUnexpectedEOF)))
	if got := l.Log(); !errors.Is(err, io.ErrUnexpectedEOF) || got == nil || got.Rounds != 3 || got.Seconds != 2 {
		t.Errorf("%v, %+v", err, got)
	}
}

func FuzzLog(f *testing.F) {
	f.Add([]byte(logOf(0, "Push debounce stable[1] 99999999999 for config /: x", "CDS: PUSH for node:", "x: ACK ERROR ")))
	f.Add([]byte(`{"level":"info","time":"2026-11-30T10:00:00Z","msg":"x"}`))
	f.Add([]byte("[pod] 0001-01-01T00:00:00Z 9999-12-31T23:59:59Z info \t\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var l Logs
		if err := l.Read(bytes.NewReader(text)); err != nil {
			return
		}
		got := l.Log()
		if got.Lines == 0 || got.Seconds < 0 || got.Rounds > got.Lines || len(got.Reasons) > maxNames+1 {
			t.Errorf("%+v of %q", got, text)
		}
	})
}
