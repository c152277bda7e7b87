package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/meshtrial/meshtrial/internal/rawgrpc"

	"github.com/meshtrial/meshtrial/study/protocol"
)

func init() { dialects[protocol.GRPC] = dialect{caller: newGRPCCaller} }

// grpcCaller makes unary calls over one connection.
type grpcCaller struct {
	options []grpc.DialOption
	dialer  *dialer
	method  string
	payload []byte
	header  metadata.MD
	own     own
	keep    bool

	patience time.Duration
	liveness liveness // used by the goroutine of watch

	mu     sync.Mutex
	conn   *grpcConn
	closed bool
}

// grpcConn is a client of the library. It has one connection, which the library
// reopens when the peer closes it; the library also resends requests that the peer
// did not process.
type grpcConn struct {
	*grpc.ClientConn
	begun   atomic.Int64            // connections since the last read
	below   atomic.Pointer[watched] // the latest connection
	pinged  atomic.Pointer[pinged]  // the same, above TLS
	failed  atomic.Pointer[error]   // why the last attempt to connect failed
	calls   int                     // under way
	retired bool                    // takes no more calls; the last call closes it
}

// reconnectWait is how long the library waits after a failure to connect, the same as
// for other protocols at rate max.
const reconnectWait = closeGrace * time.Nanosecond

func newGRPCCaller(spec *Spec, t target, d *dialer) caller {
	c := &grpcCaller{
		dialer: d, method: t.path,
		payload: spec.payload(), header: metadata.MD{}, own: newOwn(spec), keep: spec.KeepAlive,
		patience: spec.patience(),
	}
	for _, h := range spec.Headers {
		c.header.Append(h.Name, h.Value)
	}
	c.options = []grpc.DialOption{
		grpc.WithAuthority(t.hostPort),
		grpc.WithUserAgent("meshtrial"),
		grpc.WithDisableServiceConfig(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: reconnectWait, Multiplier: 1, MaxDelay: reconnectWait},
			MinConnectTimeout: seconds(spec.TimeoutS),
		}),
		grpc.WithDefaultCallOptions(
			grpc.ForceCodecV2(rawgrpc.Codec{}),
			grpc.MaxCallRecvMsgSize(maxPayloadBytes),
			grpc.MaxCallSendMsgSize(maxPayloadBytes),
		),
	}
	return c
}

// dial connects for the library. The dialer does TLS, as for the other protocols.
func (c *grpcConn) dial(ctx context.Context, d *dialer) (net.Conn, error) {
	c.begun.Add(1)
	conn, err := d.dial(ctx)
	if err != nil {
		c.failed.Store(&err)
		return nil, err
	}
	c.failed.Store(nil)
	p := newPinged(conn)
	c.below.Store(p.below)
	c.pinged.Store(p)
	return p, nil
}

// open returns the connection for a call, to be returned with [grpcCaller.release].
func (c *grpcCaller) open() (*grpcConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, net.ErrClosed
	}
	if c.conn == nil {
		conn := &grpcConn{}
		options := append(c.options[:len(c.options):len(c.options)], grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return conn.dial(ctx, c.dialer)
		}))
		var err error
		if conn.ClientConn, err = grpc.NewClient("passthrough:///"+c.dialer.addr, options...); err != nil {
			return nil, err
		}
		c.conn = conn
	}
	c.conn.calls++
	return c.conn, nil
}

// release ends a call's use of a connection. With retire, the connection takes no
// more calls.
func (c *grpcCaller) release(conn *grpcConn, retire bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn.calls--
	if retire && !conn.retired {
		conn.retired = true
		if c.conn == conn {
			c.conn = nil
		}
	}
	if conn.retired && conn.calls == 0 {
		conn.Close()
	}
}

// look implements [watcher].
func (c *grpcCaller) look(now time.Time) {
	c.mu.Lock()
	conn := c.conn
	if conn == nil {
		c.mu.Unlock()
		return
	}
	calls := conn.calls
	conn.calls++
	c.mu.Unlock()
	c.release(conn, c.liveness.look(conn.pinged.Load(), calls, now, c.patience))
}

func (c *grpcCaller) connect(ctx context.Context) error {
	conn, err := c.open()
	if err != nil {
		return err
	}
	defer c.release(conn, false)
	for {
		conn.Connect()
		state := conn.GetState()
		switch state {
		case connectivity.Ready:
			conn.begun.Store(0) // it was not made for a request
			return nil
		case connectivity.TransientFailure:
			if failed := conn.failed.Load(); failed != nil {
				return *failed
			}
			return fmt.Errorf("grpc: no connection to %s", c.dialer.addr)
		}
		if !conn.WaitForStateChange(ctx, state) {
			return ctx.Err()
		}
	}
}

func (c *grpcCaller) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.conn != nil {
		c.conn.Close()
	}
}

func (c *grpcCaller) call(ctx context.Context, number int64) outcome {
	out := outcome{}
	if md := c.own.metadata(c.header, number); len(md) > 0 {
		ctx = metadata.NewOutgoingContext(ctx, md)
	}
	for try := 1; ; try++ {
		conn, err := c.open()
		if err != nil {
			out.fail(failOther, err)
			return out
		}
		a := attempt{below: conn.below.Load()}
		if a.below != nil {
			a.before, a.heard = a.below.written.Load(), a.below.heard.Load()
		}
		reply := rawgrpc.Message{SizeOnly: true}
		err = conn.Invoke(ctx, c.method, &rawgrpc.Message{Body: c.payload}, &reply,
			grpc.Peer(&a.peer), grpc.Header(&a.header), grpc.Trailer(&a.trailer))
		out.bytesSent, out.bytesRead = int64(len(c.payload)), reply.Size
		out.connections += conn.begun.Swap(0)
		silent := ctx.Err() != nil && conn.below.Load() == a.below && (a.below == nil || a.below.heard.Load() == a.heard)
		c.release(conn, !c.keep || silent)
		if err == nil {
			return out
		}
		if try < mostTries && ctx.Err() == nil && a.unprocessed(err) {
			continue
		}
		out.fail(a.kind(ctx, conn, err))
		if out.kind == failStatus {
			out.status = int(status.Code(err))
		}
		return out
	}
}

// attempt is one attempt of a call: what the library reports about it, and the
// earlier state of its connection.
type attempt struct {
	peer            peer.Peer // without an address if it never had a stream
	header, trailer metadata.MD
	below           *watched
	before, heard   int64
}

// fromServer reports whether the server answered the call. Otherwise the status and
// its text are from the library.
func (a *attempt) fromServer() bool { return len(a.header) > 0 || len(a.trailer) > 0 }

// Texts of the library about streams that a GOAWAY left unprocessed, sent or not, and
// about streams that the server reset.
const (
	grpcRejected = "the stream is rejected because server is draining the connection"
	grpcDraining = "the connection is draining"
	grpcReset    = "stream terminated by RST_STREAM with error code: "
)

// unprocessed reports whether a call failed without having been processed, like its
// counterpart for HTTP/2. The library has tried it twice by then.
func (a *attempt) unprocessed(err error) bool {
	if a.fromServer() || a.peer.Addr == nil {
		return false
	}
	switch status.Convert(err).Message() {
	case grpcRejected, grpcDraining, grpcReset + "REFUSED_STREAM":
		return true
	}
	// The number of bytes written before is known only for the earlier connection.
	return a.below != nil && a.on(a.below) && a.below.ended.Load() != nil && a.below.unread(a.before)
}

// on reports whether the attempt was made on a connection.
func (a *attempt) on(w *watched) bool {
	return w != nil && a.peer.LocalAddr != nil && a.peer.LocalAddr.String() == w.LocalAddr().String()
}

// kind classifies a status by its origin: sent by the server, or made by the library
// because of a lost connection or stream. In the second case the error is that of
// the connection.
func (a *attempt) kind(ctx context.Context, conn *grpcConn, err error) (failure, error) {
	s := status.Convert(err)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return failTimeout, ctx.Err() // the server may have reported it too
	case len(a.trailer) > 0:
		return failStatus, statusText(s)
	case a.peer.Addr == nil && s.Code() == codes.Unavailable:
		if failed := conn.failed.Load(); failed != nil {
			return kindOf(ctx, *failed), *failed
		}
		return failConnect, statusText(s)
	case s.Code() == codes.DeadlineExceeded && !a.fromServer():
		return failTimeout, context.DeadlineExceeded
	case strings.HasPrefix(s.Message(), grpcReset), !a.fromServer() && (s.Message() == grpcRejected || s.Message() == grpcDraining):
		return failReset, errors.New(s.Message())
	}
	for _, w := range []*watched{a.below, conn.below.Load()} {
		if s.Code() == codes.Unavailable && a.on(w) && w.ended.Load() != nil {
			lost := w.ended.Load().err
			return kindOf(ctx, lost), lost
		}
	}
	return failStatus, statusText(s)
}

// statusText returns a status as a reason for a failure.
func statusText(s *status.Status) error {
	if s.Message() == "" {
		return errors.New(s.Code().String())
	}
	return fmt.Errorf("%s: %s", s.Code(), s.Message())
}
