package worker

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/meshtrial/meshtrial/internal/rawgrpc"
	"github.com/meshtrial/meshtrial/study/protocol"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// httpPeer calls another worker by HTTP.
type httpPeer struct{ transport *http.Transport }

// dialHTTP returns a dialer of one version of HTTP.
func dialHTTP(version func(*http.Protocols, bool)) func(string) (peer, error) {
	return func(string) (peer, error) {
		t := &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			MaxIdleConnsPerHost: 1000,
			IdleConnTimeout:     90 * time.Second,
			DisableCompression:  true,
			Protocols:           new(http.Protocols),
		}
		version(t.Protocols, true)
		return httpPeer{t}, nil
	}
}

// close lets calls in flight finish.
func (p httpPeer) close() { p.transport.CloseIdleConnections() }

func (p httpPeer) attempt(ctx context.Context, c *caller, x *Exchange) (int, error) {
	method := http.MethodGet
	var body io.Reader
	if len(c.body) > 0 {
		method, body = http.MethodPost, bytes.NewReader(c.body)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.URL, body)
	if err != nil {
		return 0, err
	}
	for _, name := range passedOn {
		if value := x.Header(name); value != "" {
			req.Header.Set(name, value)
		}
	}
	resp, err := p.transport.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxReply))
	resp.Body.Close()
	return resp.StatusCode, err
}

// grpcPeer calls another worker by gRPC.
type grpcPeer struct{ conn *grpc.ClientConn }

func dialGRPC(host string) (peer, error) {
	conn, err := grpc.NewClient("passthrough:///"+host, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawgrpc.Codec{})))
	if err != nil {
		return nil, err
	}
	return grpcPeer{conn}, nil
}

// close cancels calls in flight.
func (p grpcPeer) close() { p.conn.Close() }

func (p grpcPeer) attempt(ctx context.Context, c *caller, x *Exchange) (int, error) {
	for _, name := range passedOn {
		if value := x.Header(name); value != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, name, value)
		}
	}
	reply := rawgrpc.Message{SizeOnly: true}
	err := p.conn.Invoke(ctx, protocol.GRPCPath, &rawgrpc.Message{Body: c.body}, &reply, grpc.MaxCallRecvMsgSize(maxReply))
	switch code := status.Code(err); {
	case err == nil:
		return http.StatusOK, nil
	case ctx.Err() != nil, code == codes.Canceled:
		return 0, err
	case code == codes.DeadlineExceeded && expired(ctx, time.Now()):
		// The server knows the caller's deadline and may report it before the
		// caller's own timer fires.
		return 0, context.DeadlineExceeded
	case code == codes.DeadlineExceeded: // the server's own deadline, for a call it made
		return http.StatusGatewayTimeout, nil
	case code == codes.Unavailable:
		return http.StatusServiceUnavailable, nil
	case code == codes.ResourceExhausted:
		return http.StatusRequestEntityTooLarge, nil
	default:
		return http.StatusInternalServerError, nil
	}
}

// expired reports whether a call's deadline has passed. A server's deadline counts from
// when the call reached it, so gRPC's rounding is the only reason why it may be
// earlier.
func expired(ctx context.Context, now time.Time) bool {
	deadline, ok := ctx.Deadline()
	return ok && deadline.Sub(now) <= time.Millisecond
}
