package load

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/meshtrial/meshtrial/study/protocol"
	"github.com/meshtrial/meshtrial/testing/must"
	"pgregory.net/rapid"
)

// TestReasons checks that the result and its documents say why requests failed.
func TestReasons(t *testing.T) {
	refuse := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set("Grpc-Status", "7")
			w.Header().Set("Grpc-Message", "not you%0A")
			return
		}
		w.WriteHeader(http.StatusForbidden)
	})
	plain := plainServer(t, refuse)
	secure := httptest.NewTLSServer(refuse)
	defer secure.Close()
	malformed := answering(func(int64) string { return "HTTP/1.1 200 OK\r\nA\x1bb: " + strings.Repeat("c", 9000) + "\r\n\r\n" })
	for _, tt := range []struct{ name, url, protocol, kind, want string }{
		{"http1 status", plain.URL, protocol.HTTP1, FailStatus, "HTTP status 403"},
		{"http1 tls status", secure.URL, protocol.HTTP1, FailStatus, "HTTP status 403"},
		{"http2 status", plain.URL, protocol.HTTP2, FailStatus, "HTTP status 403"},
		{"grpc status", plain.URL, protocol.GRPC, FailStatus, `PermissionDenied: not you\n`},
		{"http1 malformed", "http://" + tcpServer(t, malformed), protocol.HTTP1, FailProtocol, `http1: malformed header line: "A\x1bb: ccc`},
		{"http1 tls malformed", "https://" + tcpServer(t, secured(malformed)), protocol.HTTP1, FailProtocol, `http1: malformed header line: "A\x1bb: ccc`},
		{"http1 closed", "http://" + tcpServer(t, answering(func(int64) string { return "" })), protocol.HTTP1, FailEOF, errClosed.Error()},
		{"http1 tls closed", "https://" + tcpServer(t, secured(answering(func(int64) string { return "" }))), protocol.HTTP1, FailEOF, errClosed.Error()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spec := quick(tt.url)
			spec.Protocol, spec.DurationS = tt.protocol, 0.1
			if strings.HasPrefix(tt.url, "https") {
				spec.TLS = &TLS{InsecureSkipVerify: true}
			}
			r := mustRun(t, spec)
			got := r.Reasons[tt.kind]
			if len(r.Reasons) != 1 || len(got) != 1 || !strings.HasPrefix(got[0], tt.want) || len(got[0]) > reasonBytes {
				t.Fatalf("%q", r.Reasons)
			}
			read := reread(t, r)
			sum, err := Merge(read, read)
			must.OK(t, err)
			for name, reasons := range map[string]map[string][]string{
				"read": read.Reasons, "merged": sum.Reasons, "report": r.Report().Reasons, "record": r.Total().Record(spec.Rate).Reasons,
			} {
				if !reflect.DeepEqual(reasons, r.Reasons) {
					t.Errorf("%s: %q, want %q", name, reasons, r.Reasons)
				}
			}
		})
	}
}

// TestReasonsBounded checks that, whatever a peer sends, reasons are few, short
// and printable, and that forwarding them changes nothing.
func TestReasonsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &reasons{}
		for _, why := range rapid.SliceOf(rapid.SliceOf(rapid.Byte())).Draw(t, "reasons") {
			r.add(failProtocol, errors.New(string(why)))
		}
		got := r.byKind()
		for _, why := range got[FailProtocol] {
			if len(why) > reasonBytes || strings.ContainsFunc(why, func(c rune) bool { return !unicode.IsPrint(c) }) {
				t.Errorf("%q", why)
			}
		}
		if len(got[FailProtocol]) > mostReasons {
			t.Errorf("%d reasons", len(got[FailProtocol]))
		}
		if again := mergeReasons(got, got); !reflect.DeepEqual(again, got) {
			t.Errorf("%q became %q", got, again)
		}
	})
	// A truncated reason is not truncated again, wherever the last whole escape
	// ended.
	for n := range 60 {
		once := printable(strings.Repeat("\x00", n) + strings.Repeat("a", 3*n))
		if again := printable(once); again != once {
			t.Errorf("%q became %q", once, again)
		}
	}
	if why := reasonOf(&net.OpError{Op: "read", Err: io.ErrClosedPipe, Addr: &net.TCPAddr{}}); why != "read: io: read/write on closed pipe" {
		t.Errorf("%q", why)
	}
}

// TestExpectStatus checks that a Spec determines which statuses count as
// success.
func TestExpectStatus(t *testing.T) {
	redirect := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusFound) })
	plain := plainServer(t, redirect)
	secure := httptest.NewTLSServer(redirect)
	defer secure.Close()
	for _, tt := range []struct{ url, protocol string }{{plain.URL, protocol.HTTP1}, {plain.URL, protocol.HTTP2}, {secure.URL, protocol.HTTP1}} {
		for list, good := range map[string]bool{"": false, "2xx,3xx": true, "302": true, "200,301,5xx": false} {
			spec := quick(tt.url)
			spec.Protocol, spec.DurationS = tt.protocol, 0.05
			if list != "" {
				spec.ExpectStatus = strings.Split(list, ",")
			}
			if spec.URL == secure.URL {
				spec.TLS = &TLS{InsecureSkipVerify: true}
			}
			w := mustRun(t, spec).Total()
			if got := map[bool]int64{true: w.Completed, false: w.Failed[FailStatus]}[good]; got == 0 || got != w.Scheduled {
				t.Errorf("%s %s, %q: %+v", tt.url, tt.protocol, list, w.Account)
			}
		}
	}
	for _, bad := range []string{"", "1xx", "6xx", "2x", "20", "199", "600", "+20", "all"} {
		if _, err := parseStatuses([]string{bad}); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	spec := DefaultSpec("grpc://h:1")
	if spec.ExpectStatus = []string{"2xx"}; spec.Validate() == nil {
		t.Error("gRPC has HTTP response statuses")
	}
}
