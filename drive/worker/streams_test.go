package worker

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/meshtrial/meshtrial/drive/worker/control"
	"github.com/meshtrial/meshtrial/internal/rawgrpc"
	"github.com/meshtrial/meshtrial/study/protocol"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/must"
)

func dialWebSocket(t *testing.T, w running) *websocket.Conn {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), "ws://"+w.addr[protocol.WebSocket], &websocket.DialOptions{HTTPHeader: http.Header{"X-Forwarded-Client-Cert": {"x"}}})
	must.OK(t, err)
	t.Cleanup(func() { conn.CloseNow() })
	conn.SetReadLimit(-1)
	return conn
}

// dialStream opens a gRPC stream, and waits until it is open.
func dialStream(t *testing.T, w running) grpc.ClientStream {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+w.addr[protocol.GRPCStream], grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawgrpc.Codec{})))
	must.OK(t, err)
	t.Cleanup(func() { conn.Close() })
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, protocol.GRPCStreamPath)
	must.OK(t, err)
	_, err = stream.Header()
	must.OK(t, err)
	return stream
}

func TestWebSocketMessages(t *testing.T) {
	w := start(t, func(o *Options) { o.MaxBodyBytes = 100_000 })
	conn := dialWebSocket(t, w)
	for _, text := range []string{"", "x", strings.Repeat("long ", 10_000)} {
		must.OK(t, conn.Write(t.Context(), websocket.MessageText, []byte(text)))
		kind, got, err := conn.Read(t.Context())
		if err != nil || kind != websocket.MessageText || string(got) != text {
			t.Errorf("%.10q: %v, %.10q, %v", text, kind, got, err)
		}
	}
	seen := w.Counters().Protocols[protocol.WebSocket]
	if seen.Requests != 3 || seen.ClientCert != 3 || seen.BytesIn != 50_001 || seen.BytesOut != 50_001 || seen.Connections != 1 {
		t.Errorf("%+v", seen)
	}
	must.OK(t, conn.Write(t.Context(), websocket.MessageBinary, make([]byte, 100_002)))
	if _, _, err := conn.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusMessageTooBig {
		t.Errorf("a message that is too large: %v", err)
	}
	resp, err := http.Get("http://" + w.addr[protocol.WebSocket])
	must.OK(t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("a request without an upgrade: %s", resp.Status)
	}
	eventually.Holds(t, "no WebSocket is open", func() bool { return w.counters.openConnections.Load() <= 1 })
}

func TestGRPCStreamMessages(t *testing.T) {
	w := start(t, nil)
	stream := dialStream(t, w)
	for _, text := range []string{"", "x", strings.Repeat("long ", 10_000)} {
		must.OK(t, stream.SendMsg(&rawgrpc.Message{Body: []byte(text)}))
		var got rawgrpc.Message
		if err := stream.RecvMsg(&got); err != nil || string(got.Body) != text {
			t.Errorf("%.10q: %.10q, %v", text, got.Body, err)
		}
	}
	must.OK(t, stream.CloseSend())
	if err := stream.RecvMsg(&rawgrpc.Message{}); status.Code(err) != codes.Unknown || err.Error() != "EOF" {
		t.Errorf("after the client's end: %v", err)
	}
	if seen := w.Counters().Protocols[protocol.GRPCStream]; seen.Requests != 3 || seen.Status["OK"] != 3 {
		t.Errorf("%+v", seen)
	}
}

// TestMessagesInMemoryAreBounded checks that messages beyond the budget end their stream.
func TestMessagesInMemoryAreBounded(t *testing.T) {
	w := start(t, func(o *Options) { o.BodyMemoryBytes = 10_000 })
	conn, stream := dialWebSocket(t, w), dialStream(t, w)
	must.OK(t, conn.Write(t.Context(), websocket.MessageBinary, make([]byte, 20_000)))
	if _, _, err := conn.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusTryAgainLater {
		t.Errorf("%v", err)
	}
	must.OK(t, stream.SendMsg(&rawgrpc.Message{Body: make([]byte, 20_000)}))
	if err := stream.RecvMsg(&rawgrpc.Message{}); status.Code(err) != codes.Unavailable {
		t.Errorf("%v", err)
	}
	eventually.Holds(t, "the budget is whole again", func() bool { return w.bodies.left.Load() == 10_000 })
}

// TestDrainEndsStreams checks that idle streams end in an orderly way, and do not delay the drain.
func TestDrainEndsStreams(t *testing.T) {
	w := start(t, func(o *Options) { o.DrainTimeout = time.Minute })
	conn, stream := dialWebSocket(t, w), dialStream(t, w)
	closed := make(chan websocket.StatusCode, 1)
	go func() {
		_, _, err := conn.Read(context.Background())
		closed <- websocket.CloseStatus(err)
	}()
	must.OK(t, w.stop())
	if code := <-closed; code != websocket.StatusGoingAway {
		t.Errorf("the WebSocket ended with code %d", code)
	}
	if err := stream.RecvMsg(&rawgrpc.Message{}); err == nil || err.Error() != "EOF" {
		t.Errorf("the gRPC stream ended with %v", err)
	}
}

// TestIdleConnectionsFollowChanges checks that the first message after a change of the configuration
// is served by the new one, on connections that were waiting for it.
func TestIdleConnectionsFollowChanges(t *testing.T) {
	w := start(t, func(o *Options) { o.Config.ResponseBytes = 3 })
	conn, stream := dialWebSocket(t, w), dialStream(t, w)
	ask := func(text, want string) {
		t.Helper()
		must.OK(t, conn.Write(t.Context(), websocket.MessageText, []byte(text)))
		if _, got, err := conn.Read(t.Context()); err != nil || string(got) != want {
			t.Errorf("WebSocket: %q is answered by %q, %v", text, got, err)
		}
		must.OK(t, stream.SendMsg(&rawgrpc.Message{Body: []byte(text)}))
		var got rawgrpc.Message
		if err := stream.RecvMsg(&got); err != nil || string(got.Body) != want {
			t.Errorf("gRPC: %q is answered by %q, %v", text, got.Body, err)
		}
	}
	tcp := dial(t, w.addr[protocol.TCP])
	echo := func(parts ...string) {
		t.Helper()
		for _, part := range parts {
			must.OK(t, must.Err(io.WriteString(tcp, part)))
			time.Sleep(20 * time.Millisecond) // so that the worker reads them one by one
		}
		whole := strings.Join(parts, "")
		got := make([]byte, len(whole))
		if _, err := io.ReadFull(tcp, got); err != nil || string(got) != whole {
			t.Errorf("TCP: %q, %v", got, err)
		}
	}
	ask("hello", "mes")
	echo("hello")
	w.set(t, func(c *control.Config) { c.ResponseBytes, c.TCPMessageBytes = control.EchoBody, 10 })
	ask("hello", "hello")
	echo("hello", "there")
	if n := w.Counters().Protocols[protocol.TCP].Requests; n != 2 {
		t.Errorf("%d messages by TCP, of 2", n)
	}
}
