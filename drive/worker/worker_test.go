package worker

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/drive/worker/control"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/rawgrpc"
	"github.com/meshtrial/meshtrial/study/protocol"
	"github.com/meshtrial/meshtrial/testing/must"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

// running is a worker that serves for a test.
type running struct {
	*Worker
	addr map[string]string
	stop func() error // drains; the end of the test may call it once more
	ctl  control.Client
}

func start(t *testing.T, change func(*Options)) running {
	t.Helper()
	const any = "127.0.0.1:0"
	options := Options{Control: any, Health: any, Listen: map[string]string{},
		Config: control.Config{ResponseBytes: control.EchoBody}, DrainTimeout: 5 * time.Second}
	for _, e := range protocol.Endpoints() {
		options.Listen[e.Listener] = any
	}
	if change != nil {
		change(&options)
	}
	w, err := New(options)
	must.OK(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- w.Serve(ctx) }()
	stop := sync.OnceValue(func() error {
		cancel()
		return <-served
	})
	t.Cleanup(func() { _ = stop() })
	return running{w, w.Addresses(), stop, control.Client{BaseURL: "http://" + w.Addresses()["control"]}}
}

// client returns an HTTP client that speaks one protocol only.
func client(t *testing.T, speaks string) *http.Client {
	transport := &http.Transport{Protocols: new(http.Protocols), TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	switch speaks {
	case protocol.HTTP1:
		transport.Protocols.SetHTTP1(true)
	case protocol.HTTP2:
		transport.Protocols.SetUnencryptedHTTP2(true)
	case protocol.HTTPS:
		transport.Protocols.SetHTTP2(true)
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func httpCall(t *testing.T, c *http.Client, url, body string, header http.Header) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	must.OK(t, err)
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := c.Do(req)
	must.OK(t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	must.OK(t, err)
	return resp.StatusCode, string(data)
}

// unary calls the gRPC method.
func unary(ctx context.Context, t *testing.T, address, body string) (string, error) {
	t.Helper()
	return unaryWith(ctx, t, address, body, insecure.NewCredentials())
}

// A sink of access logs answers with an empty message, whatever the worker's
// own answers are, and counts.
func TestSinkOfLogs(t *testing.T) {
	w := start(t, nil)
	conn, err := grpc.NewClient(w.addr[protocol.GRPC], grpc.WithTransportCredentials(insecure.NewCredentials()))
	must.OK(t, err)
	defer conn.Close()
	before := w.Counters().Protocols[protocol.GRPC].Requests
	for range 3 {
		reply := rawgrpc.Message{Body: []byte("what was there before")}
		err := conn.Invoke(t.Context(), "/"+control.OTLPLogs+"/Export", &rawgrpc.Message{Body: []byte("entries")}, &reply, grpc.ForceCodecV2(rawgrpc.Codec{}))
		if err != nil || len(reply.Body) != 0 {
			t.Fatalf("%q, %v", reply.Body, err)
		}
	}
	if got := w.Counters().Protocols[protocol.GRPC].Requests - before; got != 3 {
		t.Errorf("%d requests counted, 3 sent", got)
	}
}

func unaryWith(ctx context.Context, t *testing.T, address, body string, secure credentials.TransportCredentials) (string, error) {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(secure))
	must.OK(t, err)
	defer conn.Close()
	var reply rawgrpc.Message
	err = conn.Invoke(ctx, protocol.GRPCPath, &rawgrpc.Message{Body: []byte(body)}, &reply, grpc.ForceCodecV2(rawgrpc.Codec{}))
	return string(reply.Body), err
}

func scheme(speaks string) string {
	if speaks == protocol.HTTPS {
		return "https://"
	}
	return "http://"
}

func TestEchoOverEachProtocol(t *testing.T) {
	w := start(t, nil)
	for _, speaks := range []string{protocol.HTTP1, protocol.HTTP2, protocol.HTTPS} {
		for _, body := range []string{"hello", "", strings.Repeat("long ", 50_000)} {
			code, got := httpCall(t, client(t, speaks), scheme(speaks)+w.addr[speaks]+"/any/path", body, nil)
			if code != 200 || got != body {
				t.Errorf("%s: %d, %d bytes back of %d", speaks, code, len(got), len(body))
			}
		}
	}
	if got, err := unary(t.Context(), t, w.addr[protocol.GRPC], "hello"); err != nil || got != "hello" {
		t.Errorf("grpc: %q, %v", got, err)
	}
	conn := dial(t, w.addr[protocol.TCP])
	for range 3 {
		fmt.Fprint(conn, "hello")
		got := make([]byte, 5)
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != "hello" {
			t.Errorf("tcp: %q, %v", got, err)
		}
	}
	counters, err := w.ctl.Counters(t.Context())
	must.OK(t, err)
	for speaks, want := range map[string]int64{protocol.HTTP1: 3, protocol.HTTP2: 3, protocol.HTTPS: 3, protocol.GRPC: 1, protocol.TCP: 3} {
		if got := counters.Protocols[speaks].Requests; got != want {
			t.Errorf("%s counted %d requests, sent %d", speaks, got, want)
		}
	}
	flat := counters.Flat()
	for key, want := range map[string]float64{
		"requests": 13, "errors": 0, "client_cert": 0, "through_proxy": 0, "http1.status.200": 3, "grpc.status.OK": 1, "tcp.status.ok": 3,
		"http1.bytes_in": 250_005, "http1.bytes_out": 250_005, "tcp.bytes_in": 15, "https.tls_handshakes": 3, "tcp.open": 0, "refused": 0,
	} {
		if flat[key] != want {
			t.Errorf("counter %s is %v, expected %v", key, flat[key], want)
		}
	}
	if counters.Protocols[protocol.TCP].Open != 1 || counters.Protocols[protocol.TCP].Connections != 1 {
		t.Errorf("tcp connections: %+v", counters.Protocols[protocol.TCP])
	}
}

func TestEchoOverTLS(t *testing.T) {
	w := start(t, func(o *Options) { o.DrainTimeout = time.Minute })
	config := &tls.Config{InsecureSkipVerify: true}
	conn, err := tls.Dial("tcp", w.addr["tcps"], config)
	must.OK(t, err)
	defer conn.Close()
	fmt.Fprint(conn, "hello")
	got := make([]byte, 5)
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "hello" {
		t.Errorf("tcps: %q, %v", got, err)
	}
	if got, err := unaryWith(t.Context(), t, w.addr["grpcs"], "hello", credentials.NewTLS(config)); err != nil || got != "hello" {
		t.Errorf("grpcs: %q, %v", got, err)
	}
	flat := w.Counters().Flat()
	for key, want := range map[string]float64{"tcp.requests": 1, "tcp.tls_handshakes": 1, "grpc.requests": 1, "grpc.tls_handshakes": 1, "tls_handshakes": 2} {
		if flat[key] != want {
			t.Errorf("counter %s is %v, expected %v", key, flat[key], want)
		}
	}
	must.OK(t, w.stop())
}

func TestChunkedBodyIsEchoed(t *testing.T) {
	w := start(t, nil)
	body := strings.Repeat("0123456789", 30_000)
	req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://"+w.addr[protocol.HTTP1], io.MultiReader(strings.NewReader(body)))
	resp, err := client(t, protocol.HTTP1).Do(req)
	must.OK(t, err)
	defer resp.Body.Close()
	if got, _ := io.ReadAll(resp.Body); string(got) != body {
		t.Errorf("%d bytes back of %d", len(got), len(body))
	}
	if left := w.bodies.left.Load(); left != w.options.BodyMemoryBytes {
		t.Errorf("%d bytes of the body budget were not given back", w.options.BodyMemoryBytes-left)
	}
}

func TestResponseSize(t *testing.T) {
	w := start(t, nil)
	for _, size := range []int64{0, 1, 1000, 1 << 20} {
		must.OK(t, must.Err(w.ctl.Update(t.Context(), func(c *control.Config) { c.ResponseBytes = size })))
		if _, got := httpCall(t, client(t, protocol.HTTP1), "http://"+w.addr[protocol.HTTP1], "request", nil); int64(len(got)) != size {
			t.Errorf("asked for %d bytes, got %d", size, len(got))
		}
		if got, err := unary(t.Context(), t, w.addr[protocol.GRPC], "request"); err != nil || int64(len(got)) != size {
			t.Errorf("grpc: asked for %d bytes, got %d, %v", size, len(got), err)
		}
	}
	if p := payload(20); string(p) != "meshtrial meshtrial " {
		t.Errorf("payload is %q", p)
	}
}

func TestProofsOfTheMeshAreCounted(t *testing.T) {
	w := start(t, nil)
	c := client(t, protocol.HTTP1)
	url := "http://" + w.addr[protocol.HTTP1]
	httpCall(t, c, url, "", nil)
	httpCall(t, c, url, "", http.Header{"X-Request-Id": {"1"}})
	httpCall(t, c, url, "", http.Header{"X-Request-Id": {"2"}, "X-Forwarded-Client-Cert": {"By=spiffe://a;URI=spiffe://b"}})
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-forwarded-client-cert", "By=x", "x-envoy-attempt-count", "1", "x-meshtrial-wasm", "a")
	httpCall(t, c, url, "", http.Header{"X-Meshtrial-Lua": {"a"}, "X-Meshtrial-Wasm": {"a"}})
	must.OK(t, must.Err(unary(ctx, t, w.addr[protocol.GRPC], "x")))
	flat := w.Counters().Flat()
	if flat["through_proxy"] != 3 || flat["client_cert"] != 2 || flat["http1.client_cert"] != 1 || flat["grpc.client_cert"] != 1 {
		t.Errorf("through_proxy %v, client_cert %v", flat["through_proxy"], flat["client_cert"])
	}
	if flat["lua_header"] != 1 || flat["wasm_header"] != 2 || flat["grpc.wasm_header"] != 1 {
		t.Errorf("lua_header %v, wasm_header %v", flat["lua_header"], flat["wasm_header"])
	}
}

func TestHTTP1OnTheHTTP2PortIsCountedAsWhatItIs(t *testing.T) {
	w := start(t, nil)
	httpCall(t, client(t, protocol.HTTP1), "http://"+w.addr[protocol.HTTP2], "x", nil)
	flat := w.Counters().Flat()
	if flat["http1.requests"] != 1 || flat["http2.requests"] != 0 || flat["http2.connections"] != 1 {
		t.Errorf("%v", flat)
	}
}

func TestTCPMessages(t *testing.T) {
	w := start(t, func(o *Options) { o.Config.TCPMessageBytes = 40_000 })
	conn := dial(t, w.addr[protocol.TCP])
	message := bytes.Repeat([]byte("abcdefgh"), 5000)
	go func() { // three messages in uneven pieces
		all := bytes.Repeat(message, 3)
		for len(all) > 0 {
			n := min(len(all), 7001)
			if _, err := conn.Write(all[:n]); err != nil {
				return
			}
			all = all[n:]
		}
	}()
	got := make([]byte, 3*len(message))
	if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, bytes.Repeat(message, 3)) {
		t.Errorf("not echoed: %v", err)
	}
	if p := w.Counters().Protocols[protocol.TCP]; p.Requests != 3 || p.BytesIn != 120_000 {
		t.Errorf("%+v", p)
	}
	// Half a message and then the end: an error, not a served request.
	fmt.Fprint(conn, "half")
	_ = conn.(*net.TCPConn).CloseWrite()
	if _, err := conn.Read(got); !errors.Is(err, io.EOF) {
		t.Errorf("half a message: %v", err)
	}
	if p := w.Counters().Protocols[protocol.TCP]; p.Status["error"] != 1 {
		t.Errorf("%+v", p)
	}
}

func TestServiceTimeHoldsRequests(t *testing.T) {
	w := start(t, func(o *Options) {
		o.Config.ServiceTime = control.ServiceTime{Distribution: control.Fixed, MeanUS: 20_000}
	})
	began := time.Now()
	httpCall(t, client(t, protocol.HTTP1), "http://"+w.addr[protocol.HTTP1], "x", nil)
	if took := time.Since(began); took < 19*time.Millisecond {
		t.Errorf("answered after %v", took)
	}
	if c := w.Counters(); c.HeldRequests != 1 || c.ServiceTimeS != 0.02 || c.HeldS < 0.019 {
		t.Errorf("held %d requests, asked for %v s, held %v s", c.HeldRequests, c.ServiceTimeS, c.HeldS)
	}
}

func TestAddressTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer taken.Close()
	_, err = New(Options{Control: "127.0.0.1:0", Listen: map[string]string{protocol.HTTP1: taken.Addr().String()}})
	if errs.Code(err) != errs.CodeUsage || !strings.Contains(errs.Hint(err), "--http") {
		t.Errorf("%v (hint %q)", err, errs.Hint(err))
	}
	if _, err := New(Options{Listen: map[string]string{protocol.HTTP1: "192.0.2.254:1"}}); errs.Code(err) != errs.CodeUsage || !strings.Contains(errs.Hint(err), "--http") {
		t.Errorf("not this machine's: %v (hint %q)", err, errs.Hint(err))
	}
	if _, err := New(Options{Listen: map[string]string{protocol.HTTP1: "127.0.0.1:0"}, DrainTimeout: -1}); errs.Code(err) != errs.CodeUsage {
		t.Errorf("negative drain timeout: %v", err)
	}
	if _, err := New(Options{}); errs.Code(err) != errs.CodeUsage {
		t.Errorf("no address: %v", err)
	}
	if _, err := New(Options{Listen: map[string]string{protocol.HTTP1: "nonsense"}}); errs.Code(err) != errs.CodeUsage {
		t.Errorf("bad address: %v", err)
	}
}
