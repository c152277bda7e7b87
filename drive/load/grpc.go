package load

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/meshtrial/meshtrial/internal/rawgrpc"

	"github.com/meshtrial/meshtrial/study/protocol"
)

func init() { dialects[protocol.GRPC] = dialect{caller: newGRPCCaller} }

// grpcCaller makes unary calls over one connection.
type grpcCaller struct {
	options []grpc.DialOption
	target  string
	method  string
	payload []byte
	size    int
	header  metadata.MD
	own     own
	keep    bool
	// begun are connections that were begun since somebody looked: the library makes one
	// anew by itself where the other side has closed it, and sends requests once more that
	// were not taken.
	begun atomic.Int64

	mu     sync.Mutex
	conn   *grpc.ClientConn
	closed bool
}

func newGRPCCaller(spec *Spec, t target, d *dialer) caller {
	c := &grpcCaller{
		target: "passthrough:///" + d.addr, method: t.path,
		payload: spec.payload(), size: spec.payloadSize(), header: metadata.MD{}, own: newOwn(spec), keep: spec.KeepAlive,
	}
	for _, h := range spec.Headers {
		c.header.Append(h.Name, h.Value)
	}
	c.options = []grpc.DialOption{
		grpc.WithAuthority(t.hostPort),
		grpc.WithUserAgent("meshtrial"),
		grpc.WithDisableServiceConfig(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		// TLS is done by our dialer, so that it is done alike everywhere.
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			c.begun.Add(1)
			return d.dial(ctx)
		}),
		grpc.WithDefaultCallOptions(
			grpc.ForceCodecV2(rawgrpc.Codec{}),
			grpc.MaxCallRecvMsgSize(maxPayloadBytes),
			grpc.MaxCallSendMsgSize(maxPayloadBytes),
		),
	}
	return c
}

func (c *grpcCaller) open() (*grpc.ClientConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, net.ErrClosed
	}
	if c.conn != nil {
		return c.conn, nil
	}
	conn, err := grpc.NewClient(c.target, c.options...)
	if err != nil {
		return nil, err
	}
	c.conn = conn
	return conn, nil
}

func (c *grpcCaller) connect(ctx context.Context) error {
	conn, err := c.open()
	if err != nil {
		return err
	}
	for {
		conn.Connect()
		state := conn.GetState()
		switch state {
		case connectivity.Ready:
			c.begun.Store(0) // it is no request's
			return nil
		case connectivity.TransientFailure:
			return fmt.Errorf("grpc: no connection to %s", strings.TrimPrefix(c.target, "passthrough:///"))
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

func (c *grpcCaller) call(ctx context.Context, job job) outcome {
	conn, err := c.open()
	if err != nil {
		return failedWith(failOther)
	}
	out := outcome{}
	n := c.size
	if job.size >= 0 {
		n = int(job.size)
	}
	if md := c.own.metadata(c.header, job.n); len(md) > 0 {
		ctx = metadata.NewOutgoingContext(ctx, md)
	}
	reply := rawgrpc.Message{SizeOnly: true}
	err = conn.Invoke(ctx, c.method, &rawgrpc.Message{Body: c.payload[:n]}, &reply)
	out.bytesSent, out.bytesRead, out.connections = int64(n), reply.Size, c.begun.Swap(0)
	if err != nil {
		out.failed, out.kind = true, grpcKind(ctx, conn, err)
		if out.kind == failStatus {
			out.status = int(status.Code(err))
		}
	}
	if !c.keep {
		c.mu.Lock()
		conn.Close()
		c.conn = nil
		c.mu.Unlock()
	}
	return out
}

// grpcKind sorts a status: those that the library makes of a lost connection
// are not the server's answer.
func grpcKind(ctx context.Context, conn *grpc.ClientConn, err error) failure {
	switch s := status.Convert(err); s.Code() {
	case codes.DeadlineExceeded:
		return failTimeout
	case codes.Unavailable:
		if strings.Contains(s.Message(), "connection error") || conn.GetState() == connectivity.TransientFailure {
			return failConnect
		}
		if strings.Contains(s.Message(), "reset") {
			return failReset
		}
		if strings.Contains(s.Message(), "EOF") || strings.Contains(s.Message(), "closing") {
			return failEOF
		}
		return failStatus
	default:
		return failStatus
	}
}
