package worker

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/meshmark/meshmark/worker/control"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// rawMessage is a message without an encoding: its bytes are the payload.
type rawMessage struct {
	body []byte
	size int64
	keep bool
}

// rawCodec passes bytes through. It takes the name of the usual codec, so
// requests carry the usual content type and proxies see ordinary gRPC.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	message, ok := v.(*rawMessage)
	if !ok {
		return nil, fmt.Errorf("cannot send a %T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(message.body)}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	message, ok := v.(*rawMessage)
	if !ok {
		return fmt.Errorf("cannot receive a %T", v)
	}
	message.size = int64(data.Len())
	if message.keep {
		message.body = data.Materialize()
	}
	return nil
}

func (w *Worker) grpcServer(l net.Listener) (server, error) { return w.serveGRPC(l) }

func (w *Worker) grpcsServer(l net.Listener) (server, error) {
	config, err := w.tlsConfig(control.GRPC)
	if err != nil {
		return server{}, err
	}
	return w.serveGRPC(l, grpc.Creds(credentials.NewTLS(config)))
}

func (w *Worker) serveGRPC(l net.Listener, more ...grpc.ServerOption) (server, error) {
	s := grpc.NewServer(append(more,
		grpc.ForceServerCodecV2(rawCodec{}),
		grpc.MaxRecvMsgSize(int(w.options.MaxBodyBytes)),
		grpc.MaxSendMsgSize(control.MaxResponse),
		grpc.MaxConcurrentStreams(1000),
		grpc.MaxHeaderListSize(uint32(w.options.MaxHeaderBytes)),
		grpc.ConnectionTimeout(w.options.ReadTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: w.options.IdleTimeout}),
		grpc.WaitForHandlers(true),
	)...)
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "meshmark.v1.Echo",
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Unary", Handler: w.serveUnary}},
	}, struct{}{})
	return server{
		serve: func() error { return s.Serve(l) },
		drain: func(ctx context.Context) error { return grpcDrain(ctx, s) },
		end:   s.Stop,
	}, nil
}

func (w *Worker) serveUnary(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	current := w.active.Load()
	message := rawMessage{keep: current.needBody}
	if err := decode(&message); err != nil {
		w.counters.grpc.answered(http.StatusInternalServerError)
		return nil, err
	}
	if message.keep {
		if !w.bodies.take(message.size) {
			w.counters.grpc.answered(http.StatusServiceUnavailable)
			return nil, status.Error(grpcCode(http.StatusServiceUnavailable), "too many request bodies in memory")
		}
		// Given back when the handler ends; gRPC holds the reply a little
		// longer, within its own flow control.
		defer w.bodies.give(message.size)
	}
	incoming, _ := metadata.FromIncomingContext(ctx)
	x := Exchange{
		Protocol:  control.GRPC,
		Path:      control.GRPCMethod,
		Body:      message.body,
		BodyBytes: message.size,
		Start:     time.Now(),
		Header: func(name string) string {
			if values := incoming[name]; len(values) > 0 {
				return values[0]
			}
			return ""
		},
	}
	if err := current.serve(ctx, &x); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	if x.Status != http.StatusOK {
		return nil, status.Error(grpcCode(x.Status), http.StatusText(x.Status))
	}
	return &rawMessage{body: x.Reply}, nil
}
