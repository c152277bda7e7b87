package worker

import (
	"context"
	"fmt"
	"net/http"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/meshtrial/meshtrial/internal/rawgrpc"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// A worker also is a service that Envoy asks about each request: envoy.service.auth.v3 and
// envoy.service.ratelimit.v3. Its configuration applies to such calls as to any other: the service
// time is how long they take, and a planned failure with a 4xx status denies the request (with 429,
// it is over its rate limit). Over HTTP, external authorization needs nothing of its own: Envoy
// passes on a request's method and path, and takes the status as the answer.

// registerCallouts adds both services to a server.
func (s *grpcService) registerCallouts(to *grpc.Server) {
	to.RegisterService(&grpc.ServiceDesc{
		ServiceName: authv3.Authorization_ServiceDesc.ServiceName,
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Check", Handler: s.callout(func() proto.Message { return &authv3.CheckRequest{} }, func(status int) proto.Message {
			switch {
			case status == http.StatusOK:
				return &authv3.CheckResponse{Status: &rpcstatus.Status{Code: int32(codes.OK)}}
			case status >= 400 && status < 500:
				return &authv3.CheckResponse{Status: &rpcstatus.Status{Code: int32(codes.PermissionDenied)},
					HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: &authv3.DeniedHttpResponse{Status: &typev3.HttpStatus{Code: typev3.StatusCode(status)}}}}
			}
			return nil
		})}},
	}, struct{}{})
	to.RegisterService(&grpc.ServiceDesc{
		ServiceName: ratelimitv3.RateLimitService_ServiceDesc.ServiceName,
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "ShouldRateLimit", Handler: s.callout(func() proto.Message { return &ratelimitv3.RateLimitRequest{} }, func(status int) proto.Message {
			switch status {
			case http.StatusOK:
				return &ratelimitv3.RateLimitResponse{OverallCode: ratelimitv3.RateLimitResponse_OK}
			case http.StatusTooManyRequests:
				return &ratelimitv3.RateLimitResponse{OverallCode: ratelimitv3.RateLimitResponse_OVER_LIMIT}
			}
			return nil
		})}},
	}, struct{}{})
}

// callout returns a method's handler, which parses the question, passes it through the worker's
// behaviours, and answers by the resulting HTTP status; nil answers with an error.
func (s *grpcService) callout(question func() proto.Message, answer func(status int) proto.Message) grpc.MethodHandler {
	return func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		var message rawgrpc.Message
		x, err := s.exchange(ctx, s.w.active.Load(), func(v any) error {
			if err := decode(v); err != nil {
				return err
			}
			if err := proto.Unmarshal(message.Body, question()); err != nil {
				return status.Error(codes.InvalidArgument, fmt.Sprintf("not a message of this method: %v", err))
			}
			return nil
		}, &message)
		if err != nil {
			return nil, err
		}
		reply := answer(x.Status)
		if reply == nil {
			return nil, status.Error(grpcCode(x.Status), http.StatusText(x.Status))
		}
		body, err := proto.Marshal(reply)
		if err != nil {
			return nil, fmt.Errorf("answer a callout: %w", err)
		}
		return &rawgrpc.Message{Body: body}, nil
	}
}
