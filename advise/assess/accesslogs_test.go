package assess

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/meshtrial/meshtrial/testing/must"
)

func logLine(second int, code int, cluster, source string) string {
	return fmt.Sprintf(`{"start_time":"2026-11-24T03:14:%02d.000Z","protocol":"HTTP/2","response_code":%d,"bytes_received":10,"bytes_sent":30,"duration":%d,"authority":"x.example.com:443","upstream_cluster":%q,"upstream_local_address":%q}`+"\n", second, code, second, cluster, source)
}

const logCart = "outbound|80|v2|cart.shop.svc.cluster.local"

// A log in two parts, out of order, with lines of other kinds and one that is cut, is one log.
func TestAccessLogs(t *testing.T) {
	l := NewAccessLogs()
	must.OK(t, l.Read(strings.NewReader("starting\n"+logLine(10, 200, logCart, "10.1.0.5:1")+logLine(4, 503, logCart, "10.1.0.5:2")+strings.Repeat("x", 3*maxLogLine)+"\n"), "one", "shop/web-1"))
	must.OK(t, l.Read(strings.NewReader(logLine(0, 200, "inbound|8080||", "127.0.0.6:1")+logLine(2, 200, "PassthroughCluster", "10.1.0.5:3")+logLine(3, 404, "-", "-")+logLine(3, 200, "outbound|80||", "10.1.0.5:3")+logLine(50, 200, logCart, "10.1.0.5:4")[:100]), "two", "shop/web-1"))
	all := l.Writers()
	if len(all) != 1 || all[0].Seconds() != 10 || all[0].Address != "10.1.0.5" || all[0].Pod != "shop/web-1" || l.TooLong != 1 {
		t.Fatalf("%+v", all)
	}
	want := map[AccessEntry]float64{{Host: "cart.shop.svc.cluster.local", Port: "80"}: 0.2, {}: 0.1, {Host: "x.example.com"}: 0.1}
	if got := all[0].Rates(); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	left, entered := l.Logged().Left, l.Logged().Entered
	if left.Requests != 5 || left.Connections != 0 || left.Codes[503] != 1 || left.Codes[404] != 1 || *left.Received != 10 || *left.Sent != 30 || entered.Requests != 1 || left.Protocols["HTTP/2"] != 5 {
		t.Errorf("%+v, %+v", left, entered)
	}
}

// kubectl's prefix says which pod wrote a line.
func TestAccessLogsWithPrefix(t *testing.T) {
	l := NewAccessLogs()
	text := ""
	for second := range 3 {
		text += "[pod/web-1/istio-proxy] " + logLine(second, 200, logCart, "10.1.0.5:1") + "[pod/web-2/istio-proxy] " + logLine(2*second, 200, logCart, "10.1.0.6:1")
	}
	must.OK(t, l.Read(strings.NewReader(text), "file", ""))
	all := l.Writers()
	if len(all) != 2 || all[0].Pod != "web-1" || all[0].Seconds() != 2 || all[1].Pod != "web-2" || all[1].Seconds() != 4 || all[1].Address != "10.1.0.6" {
		t.Errorf("%+v, %+v", all[0], all[1])
	}
}

// Names that clients choose do not fill the memory.
func TestAccessLogsAreBounded(t *testing.T) {
	l := NewAccessLogs()
	var text strings.Builder
	for i := range 500 {
		text.WriteString(strings.Replace(logLine(i%60, 200, logCart, "x"), "HTTP/2", fmt.Sprintf("HTTP/%d", i), 1))
	}
	must.OK(t, l.Read(strings.NewReader(text.String()), "file", ""))
	if n := len(l.Logged().Left.Protocols); n > maxLogTexts+1 {
		t.Errorf("%d protocols", n)
	}
}

func TestAccessLogsFail(t *testing.T) {
	l := NewAccessLogs()
	for _, text := range []string{"", "hello\nworld\n", logLine(1, 200, logCart, "x")[:50]} {
		if err := l.Read(strings.NewReader(text), "file", ""); !errors.Is(err, ErrNoAccessLog) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if l.Logged() != nil {
		t.Error("something was logged")
	}
	gone := errors.New("the disk is gone")
	if err := l.Read(io.MultiReader(strings.NewReader(logLine(1, 200, logCart, "x")), iotest.ErrReader(gone)), "file", ""); !errors.Is(err, gone) {
		t.Error(err)
	}
}

func FuzzAccessLogs(f *testing.F) {
	f.Add(logLine(1, 200, logCart, "10.1.0.5:1") + "[pod/a/b] " + logLine(5, 200, "inbound|80||", "x") + logLine(6, 200, "outbound|80||", "x"))
	f.Add("[pod/\n[pod/] \n[]\n")
	f.Fuzz(func(t *testing.T, text string) {
		l := NewAccessLogs()
		err := l.Read(strings.NewReader(text), "file", "a/b")
		if (err == nil) != (l.Requests > 0) {
			t.Errorf("%d requests: %v", l.Requests, err)
		}
		for _, w := range l.Writers() {
			for e, perS := range w.Rates() {
				if !(perS > 0) || perS > float64(l.Requests) {
					t.Errorf("%+v: %g a second", e, perS)
				}
			}
		}
	})
}

// What is called outside the mesh goes by its authority, without the port.
func TestAccessLogsOutside(t *testing.T) {
	for authority, want := range map[string]string{"a.example:443": "a.example", "a.example": "a.example", "[fd00::1]:443": "fd00::1", "[fd00::1]": "fd00::1", ":443": outside, "": outside} {
		l := NewAccessLogs()
		line := func(second int) string {
			return strings.Replace(logLine(second, 200, "PassthroughCluster", "10.1.0.5:1"), "x.example.com:443", authority, 1)
		}
		must.OK(t, l.Read(strings.NewReader(line(0)+line(2)), "file", "shop/web-1"))
		if got := l.Writers()[0].Rates(); !maps.Equal(got, map[AccessEntry]float64{{Host: want}: 1}) {
			t.Errorf("%q: %v", authority, got)
		}
	}
}
