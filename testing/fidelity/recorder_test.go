package fidelity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/meshtrial/meshtrial/drive/xds/wire"
	"github.com/meshtrial/meshtrial/internal/rawgrpc"
)

// maxMessage is the maximum size of a message in either direction, in bytes.
const maxMessage = 256 << 20

// Recorder forwards discovery streams to an istiod and keeps their
// transcripts.
type Recorder struct {
	upstream *grpc.ClientConn
	server   *grpc.Server

	mu      sync.Mutex
	streams []*stream
}

// stream is one forwarded stream.
type stream struct {
	mu       sync.Mutex
	observer *observer
	err      error // why recording stopped; forwarding continues
	open     bool
	cancel   context.CancelCauseFunc
}

// Options configures a [Recorder].
type Options struct {
	// Upstream is istiod's address, HOST:PORT.
	Upstream string
	// UpstreamTLS secures the connection to it. Credentials that a client sends
	// to prove its identity (its token) are forwarded.
	UpstreamTLS credentials.TransportCredentials
	// TLS is what clients see; nil serves them in plain text.
	TLS credentials.TransportCredentials
}

// NewRecorder returns a recorder, which connects when the first client does.
func NewRecorder(o Options) (*Recorder, error) {
	upstream, err := grpc.NewClient("passthrough:///"+o.Upstream, grpc.WithTransportCredentials(o.UpstreamTLS),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawgrpc.Codec{}), grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return nil, fmt.Errorf("recorder: istiod at %s: %w", o.Upstream, err)
	}
	r := &Recorder{upstream: upstream}
	options := []grpc.ServerOption{grpc.ForceServerCodecV2(rawgrpc.Codec{}), grpc.UnknownServiceHandler(r.handle), grpc.MaxRecvMsgSize(maxMessage)}
	if o.TLS != nil {
		options = append(options, grpc.Creds(o.TLS))
	}
	r.server = grpc.NewServer(options...)
	return r, nil
}

// Serve accepts clients until [Recorder.Close]; it may be called for several
// listeners.
func (r *Recorder) Serve(l net.Listener) error { return r.server.Serve(l) }

// Close ends all streams and listeners.
func (r *Recorder) Close() error {
	r.server.Stop()
	return r.upstream.Close()
}

// Transcripts returns a copy of the transcripts of all streams so far, in the
// order in which they began, and errors that kept any of them from being
// complete.
func (r *Recorder) Transcripts() ([]*Transcript, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*Transcript
	var failures []error
	for _, s := range r.streams {
		s.mu.Lock()
		t := s.observer.transcript
		t.Steps = append([]Step(nil), t.Steps...)
		failures = append(failures, s.err)
		s.mu.Unlock()
		out = append(out, &t)
	}
	return out, errors.Join(failures...)
}

// Mark adds a mark to the transcripts of all open streams.
func (r *Recorder) Mark(text string) {
	r.each(func(s *stream) {
		s.observer.transcript.Steps = append(s.observer.transcript.Steps, Step{Kind: Mark, Type: text})
	})
}

// Drop ends all open streams, as an istiod that goes away does.
func (r *Recorder) Drop() {
	r.each(func(s *stream) { s.cancel(errDropped) })
}

var errDropped = status.Error(codes.Unavailable, "stream dropped by the recorder")

func (r *Recorder) each(do func(*stream)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.streams {
		s.mu.Lock()
		if s.open {
			do(s)
		}
		s.mu.Unlock()
	}
}

// handle forwards one stream in both directions.
func (r *Recorder) handle(_ any, down grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(down)
	mode := map[string]string{wire.DeltaMethod: ModeDelta, wire.SotWMethod: ModeSotW}[method]
	if mode == "" {
		return status.Errorf(codes.Unimplemented, "the recorder forwards discovery streams only, not %s", method)
	}
	ctx, cancel := context.WithCancelCause(down.Context())
	defer cancel(nil)
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		md = md.Copy()
		for _, key := range []string{":authority", "content-type", "user-agent", "grpc-accept-encoding"} {
			delete(md, key)
		}
		ctx = metadata.NewOutgoingContext(ctx, md)
	}
	up, err := r.upstream.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	if err != nil {
		return err
	}
	s := &stream{observer: newObserver(mode), open: true, cancel: cancel}
	r.mu.Lock()
	r.streams = append(r.streams, s)
	r.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.open = false
		s.mu.Unlock()
	}()

	// Requests have a separate goroutine, which ends with the stream's context
	// when this function returns.
	go func() {
		cancel(forward(down.RecvMsg, up.SendMsg, s, s.observer.request))
	}()
	go func() {
		cancel(forward(up.RecvMsg, down.SendMsg, s, s.observer.response))
	}()
	<-ctx.Done()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// forward forwards messages until either end fails. It observes each before
// sending it, so no answer is observed before what it answers.
func forward(recv, send func(any) error, s *stream, observe func([]byte) error) error {
	for {
		var message rawgrpc.Message
		if err := recv(&message); err != nil {
			return err
		}
		s.mu.Lock()
		if s.err == nil {
			s.err = observe(message.Body)
		}
		s.mu.Unlock()
		if err := send(&message); err != nil {
			return err
		}
	}
}
