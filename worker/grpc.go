package worker

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/meshtrial/meshtrial/internal/rawgrpc"
	"github.com/meshtrial/meshtrial/worker/control"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

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
		grpc.ForceServerCodecV2(rawgrpc.Codec{}),
		grpc.MaxRecvMsgSize(int(w.options.MaxBodyBytes)),
		grpc.MaxSendMsgSize(control.MaxResponse),
		grpc.MaxConcurrentStreams(1000),
		grpc.MaxHeaderListSize(uint32(w.options.MaxHeaderBytes)),
		grpc.ConnectionTimeout(w.options.ReadTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: w.options.IdleTimeout}),
		grpc.WaitForHandlers(true),
	)...)
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "meshtrial.v1.Echo",
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Unary", Handler: w.serveUnary}},
	}, struct{}{})
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: control.OTLPLogs,
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Export", Handler: w.takeLogs}},
	}, struct{}{})
	return server{
		serve: func() error { return s.Serve(l) },
		drain: func(ctx context.Context) error { return grpcDrain(ctx, s) },
		end:   s.Stop,
	}, nil
}

// takeLogs takes entries of an access log, as a collector does, and answers
// with an empty ExportLogsServiceResponse: all were taken.
func (w *Worker) takeLogs(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	message := rawgrpc.Message{SizeOnly: true}
	if err := decode(&message); err != nil {
		w.counters.grpc.answered(http.StatusInternalServerError)
		return nil, err
	}
	w.counters.grpc.answered(http.StatusOK)
	return &rawgrpc.Message{}, nil
}

func (w *Worker) serveUnary(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	current := w.active.Load()
	message := rawgrpc.Message{SizeOnly: !current.needBody}
	if err := decode(&message); err != nil {
		w.counters.grpc.answered(http.StatusInternalServerError)
		return nil, err
	}
	if !message.SizeOnly {
		if !w.bodies.take(message.Size) {
			w.counters.grpc.answered(http.StatusServiceUnavailable)
			return nil, status.Error(grpcCode(http.StatusServiceUnavailable), "too many request bodies in memory")
		}
		// Given back when the handler ends; gRPC holds the reply a little
		// longer, within its own flow control.
		defer w.bodies.give(message.Size)
	}
	incoming, _ := metadata.FromIncomingContext(ctx)
	x := Exchange{
		Protocol:  control.GRPC,
		Path:      control.GRPCMethod,
		Body:      message.Body,
		BodyBytes: message.Size,
		Start:     time.Now(),
		Header: func(name string) string {
			if values := incoming[name]; len(values) > 0 {
				return values[0]
			}
			return ""
		},
	}
	err := current.serve(ctx, &x)
	switch {
	case errors.Is(err, errReset):
		return nil, status.Error(grpcCode(statusReset), "reset")
	case err != nil:
		return nil, status.FromContextError(err).Err()
	case x.slow > 0: // a message comes whole or not at all
		err = w.trickle(ctx, x.Reply, x.slow, func([]byte) error { return nil })
		if err != nil {
			return nil, status.FromContextError(err).Err()
		}
	}
	if x.Status != http.StatusOK {
		return nil, status.Error(grpcCode(x.Status), http.StatusText(x.Status))
	}
	return &rawgrpc.Message{Body: x.Reply}, nil
}
