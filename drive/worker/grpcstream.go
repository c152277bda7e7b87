package worker

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/meshtrial/meshtrial/internal/rawgrpc"
	"github.com/meshtrial/meshtrial/study/protocol"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

func init() {
	servings[protocol.GRPCStream] = serving{plain: (*Worker).grpcStreamServer, status: func(status int) string { return grpcCode(status).String() }}
}

func (w *Worker) grpcStreamServer(l net.Listener) (server, error) {
	streams := newMessageStreams(w, w.counters.protocol(protocol.GRPCStream))
	s := w.newGRPCServer()
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: protocol.GRPCService,
		HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{StreamName: protocol.GRPCStreamMethod, ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, stream grpc.ServerStream) error { return grpcStream(stream, streams) }}},
	}, struct{}{})
	return server{
		serve: func() error { return s.Serve(l) },
		drain: func(ctx context.Context) error {
			streams.endLeave()
			err := drainOr(ctx, s.GracefulStop, s.Stop)
			streams.end()
			return err
		},
		end: func() {
			s.Stop()
			streams.end()
		},
	}, nil
}

// grpcStream answers the messages of a stream until it ends. The handler's return ends it, although
// its messages are still being read.
func grpcStream(stream grpc.ServerStream, streams *messageStreams) error {
	// The client learns that the stream is open.
	if err := stream.SendHeader(nil); err != nil {
		return err
	}
	incoming, _ := metadata.FromIncomingContext(stream.Context())
	s := &messageStream{of: streams, header: metadataOf(incoming)}
	ended := make(chan error, 1)
	streams.open.Go(func() { ended <- s.follow(stream) })
	select {
	case err := <-ended:
		return err
	case <-streams.leave.Done():
		s.finish()
		return nil
	}
}

// follow answers messages until the stream ends.
func (s *messageStream) follow(stream grpc.ServerStream) error {
	for {
		var current *active // when the message had arrived
		message := rawgrpc.Message{Keep: func() bool {
			current = s.of.w.active.Load()
			return current.needBody
		}}
		if err := stream.RecvMsg(&message); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if !message.SizeOnly && !s.of.w.bodies.take(message.Size) {
			s.of.counted.answered(http.StatusServiceUnavailable)
			return status.Error(grpcCode(http.StatusServiceUnavailable), errBodies.Error())
		}
		code, err := s.answer(stream.Context(), current, message.Body, message.Size, func(reply []byte) error { return stream.SendMsg(&rawgrpc.Message{Body: reply}) })
		if !message.SizeOnly {
			s.of.w.bodies.give(message.Size)
		}
		switch {
		case errors.Is(err, errReset):
			return status.Error(grpcCode(statusReset), "reset")
		case err != nil:
			return status.FromContextError(err).Err()
		case code != http.StatusOK:
			return status.Error(grpcCode(code), http.StatusText(code))
		}
	}
}

// metadataOf returns the [Exchange.Header] of a call's metadata.
func metadataOf(incoming metadata.MD) func(string) string {
	return func(name string) string {
		if values := incoming[name]; len(values) > 0 {
			return values[0]
		}
		return ""
	}
}
