package worker

import (
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/meshtrial/meshtrial/drive/worker/control"
	"github.com/meshtrial/meshtrial/internal/rawgrpc"
	"github.com/meshtrial/meshtrial/study/protocol"
	"github.com/meshtrial/meshtrial/testing/must"
)

// TestCallouts asks a worker as Envoy does, with the messages' own code.
func TestCallouts(t *testing.T) {
	fails := func(status int) []control.Failure {
		return []control.Failure{{Share: 1, How: control.FailStatus, Status: status}}
	}
	for name, tt := range map[string]struct {
		failures []control.Failure
		check    codes.Code // of a CheckResponse; also of the call, if that fails
		denied   int        // HTTP status
		limit    ratelimitv3.RateLimitResponse_Code
		failed   [2]bool // the calls of Check and of ShouldRateLimit
	}{
		"allowed":    {nil, codes.OK, 0, ratelimitv3.RateLimitResponse_OK, [2]bool{}},
		"denied":     {fails(403), codes.PermissionDenied, 403, 0, [2]bool{false, true}},
		"over limit": {fails(429), codes.PermissionDenied, 429, ratelimitv3.RateLimitResponse_OVER_LIMIT, [2]bool{}},
		"broken":     {fails(503), codes.Unavailable, 0, 0, [2]bool{true, true}},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, func(o *Options) {
				o.Config.Failures = tt.failures
				o.Config.ServiceTime = control.ServiceTime{Distribution: control.Fixed, MeanUS: 20_000}
			})
			conn, err := grpc.NewClient(w.addr[protocol.GRPC], grpc.WithTransportCredentials(insecure.NewCredentials()))
			must.OK(t, err)
			defer conn.Close()
			begun := time.Now()
			check, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
				Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{Method: "GET", Path: "/"}}}})
			switch {
			case tt.failed[0]:
				if status.Code(err) != tt.check {
					t.Errorf("Check: %v, expected %v", err, tt.check)
				}
			case err != nil || codes.Code(check.GetStatus().GetCode()) != tt.check || int(check.GetDeniedResponse().GetStatus().GetCode()) != tt.denied:
				t.Errorf("Check: %v (%v), expected %v and status %d", check, err, tt.check, tt.denied)
			case time.Since(begun) < 20*time.Millisecond:
				t.Errorf("Check took %v, less than the service time", time.Since(begun))
			}
			limit, err := ratelimitv3.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &ratelimitv3.RateLimitRequest{Domain: "meshtrial"})
			if (err != nil) != tt.failed[1] || limit.GetOverallCode() != tt.limit && err == nil {
				t.Errorf("ShouldRateLimit: %v (%v), expected %v, an error: %v", limit, err, tt.limit, tt.failed[1])
			}
			if n := w.Counters().Protocols[protocol.GRPC].Requests; n != 2 {
				t.Errorf("%d requests counted, expected 2", n)
			}
		})
	}
}

// TestCalloutsRejectOthers sends something else than the method's message.
func TestCalloutsRejectOthers(t *testing.T) {
	w := start(t, nil)
	conn, err := grpc.NewClient(w.addr[protocol.GRPC], grpc.WithTransportCredentials(insecure.NewCredentials()))
	must.OK(t, err)
	defer conn.Close()
	for _, method := range []string{authv3.Authorization_Check_FullMethodName, ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName} {
		err := conn.Invoke(t.Context(), method, &rawgrpc.Message{Body: []byte("\xff\xff")}, &rawgrpc.Message{}, grpc.ForceCodecV2(rawgrpc.Codec{}))
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", method, err)
		}
	}
}

// A call is served by the configuration by which it was read, even if another one is set meanwhile.
func TestCallKeepsItsConfiguration(t *testing.T) {
	w := start(t, func(o *Options) { o.Config = control.Config{ResponseBytes: 3} })
	service := &grpcService{w.Worker, w.counters.protocol(protocol.GRPC)}
	reply, err := service.unary(nil, t.Context(), func(v any) error {
		v.(*rawgrpc.Message).Size = 5
		echo := w.active.Load().config
		echo.ResponseBytes = control.EchoBody
		_, err := w.configure(echo)
		return err
	}, nil)
	must.OK(t, err)
	if got := reply.(*rawgrpc.Message).Body; len(got) != 3 {
		t.Errorf("the response has %d bytes, expected 3", len(got))
	}
}
