package worker

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/meshtrial/meshtrial/drive/worker/control"
	"github.com/meshtrial/meshtrial/internal/rawgrpc"
	"github.com/meshtrial/meshtrial/study/protocol"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

func init() {
	servings[protocol.GRPC] = serving{
		plain:  func(w *Worker, l net.Listener) (server, error) { return w.serveGRPC(l) },
		secure: (*Worker).grpcsServer,
		status: func(status int) string { return grpcCode(status).String() },
		dial:   dialGRPC,
	}
}

func (w *Worker) grpcsServer(l net.Listener) (server, error) {
	config, err := w.tlsConfig(protocol.GRPC)
	if err != nil {
		return server{}, err
	}
	return w.serveGRPC(l, grpc.Creds(credentials.NewTLS(config)))
}

// handlers is the number of goroutines that remain to answer calls. New ones, which answer the
// calls beyond these, grow their stacks in each call.
const handlers = 64

// grpcWindow is the flow-control window of a stream and of a connection, in bytes. Setting one also
// turns off grpc-go's estimate of the bandwidth-delay product, which sends a PING for almost every
// message.
const grpcWindow = 1 << 20

func (w *Worker) newGRPCServer(more ...grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(append(more,
		grpc.ForceServerCodecV2(rawgrpc.Codec{}),
		grpc.MaxRecvMsgSize(int(w.options.MaxBodyBytes)),
		grpc.MaxSendMsgSize(control.MaxResponse),
		grpc.MaxConcurrentStreams(1000),
		grpc.NumStreamWorkers(handlers),
		grpc.InitialWindowSize(grpcWindow),
		grpc.InitialConnWindowSize(grpcWindow),
		grpc.MaxHeaderListSize(uint32(w.options.MaxHeaderBytes)),
		grpc.ConnectionTimeout(w.options.ReadTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: w.options.IdleTimeout}),
		grpc.WaitForHandlers(true),
	)...)
}

func (w *Worker) serveGRPC(l net.Listener, more ...grpc.ServerOption) (server, error) {
	service := &grpcService{w, w.counters.protocol(protocol.GRPC)}
	s := w.newGRPCServer(more...)
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: protocol.GRPCService,
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: protocol.GRPCMethod, Handler: service.unary}},
	}, struct{}{})
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: control.OTLPLogs,
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Export", Handler: service.takeLogs}},
	}, struct{}{})
	service.registerCallouts(s)
	return server{
		serve: func() error { return s.Serve(l) },
		drain: func(ctx context.Context) error { return drainOr(ctx, s.GracefulStop, s.Stop) },
		end:   s.Stop,
	}, nil
}

// grpcService answers the calls to a worker.
type grpcService struct {
	w       *Worker
	counted *protocolCounters
}

// takeLogs accepts entries of an access log, as a collector does. The empty
// ExportLogsServiceResponse means that all were accepted.
func (s *grpcService) takeLogs(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	message := rawgrpc.Message{SizeOnly: true}
	if err := decode(&message); err != nil {
		s.counted.answered(http.StatusInternalServerError)
		return nil, err
	}
	s.counted.answered(http.StatusOK)
	return &rawgrpc.Message{}, nil
}

func (s *grpcService) unary(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	current := s.w.active.Load()
	message := rawgrpc.Message{SizeOnly: !current.needBody}
	x, err := s.exchange(ctx, current, decode, &message)
	if err != nil {
		return nil, err
	}
	if x.Status != http.StatusOK {
		return nil, status.Error(grpcCode(x.Status), http.StatusText(x.Status))
	}
	return &rawgrpc.Message{Body: x.Reply}, nil
}

// exchange reads a call into message, and passes it through the behaviours of a configuration. An
// error is the call's answer.
func (s *grpcService) exchange(ctx context.Context, current *active, decode func(any) error, message *rawgrpc.Message) (*Exchange, error) {
	if err := decode(message); err != nil {
		s.counted.answered(http.StatusInternalServerError)
		return nil, err
	}
	if !message.SizeOnly {
		if !s.w.bodies.take(message.Size) {
			s.counted.answered(http.StatusServiceUnavailable)
			return nil, status.Error(grpcCode(http.StatusServiceUnavailable), "too many request bodies in memory")
		}
		// gRPC holds the reply a little longer, within its own flow control.
		defer s.w.bodies.give(message.Size)
	}
	incoming, _ := metadata.FromIncomingContext(ctx)
	x := &Exchange{
		Protocol:  s.counted.name,
		counted:   s.counted,
		Body:      message.Body,
		BodyBytes: message.Size,
		Start:     time.Now(),
		Header:    metadataOf(incoming),
	}
	err := current.serve(ctx, x)
	switch {
	case errors.Is(err, errReset):
		return nil, status.Error(grpcCode(statusReset), "reset")
	case err != nil:
		return nil, status.FromContextError(err).Err()
	case x.slow > 0: // a message arrives complete or not at all
		err = s.w.trickle(ctx, x.Reply, x.slow, func([]byte) error { return nil })
		if err != nil {
			return nil, status.FromContextError(err).Err()
		}
	}
	return x, nil
}

// grpcCode returns the gRPC code for an HTTP status.
func grpcCode(status int) codes.Code {
	switch status {
	case http.StatusOK:
		return codes.OK
	case http.StatusServiceUnavailable, statusReset:
		return codes.Unavailable
	case http.StatusGatewayTimeout:
		return codes.DeadlineExceeded
	case http.StatusTooManyRequests:
		return codes.ResourceExhausted
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusForbidden:
		return codes.PermissionDenied
	case http.StatusRequestEntityTooLarge:
		return codes.ResourceExhausted
	case statusGone:
		return codes.Canceled
	case http.StatusNotFound:
		return codes.Unimplemented
	}
	return codes.Internal
}
