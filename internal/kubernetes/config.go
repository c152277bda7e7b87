package kubernetes

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"k8s.io/client-go/rest"
)

// Prepare sets in a configuration that was just loaded what all clients need. API servers limit
// requests themselves, so clients don't: with client-go's default, 5/s, waits fail with the
// limiter's error instead of what they waited for. A busy API server takes its time for a TLS
// handshake, which client-go limits to 10 s; such requests are tried again.
func Prepare(config *rest.Config) {
	config.QPS, config.Burst = -1, -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return handshaker{next} })
}

// handshakes is how often a request's handshake is tried.
const handshakes = 3

// handshaker retries requests that were not sent, because a TLS handshake took too long.
type handshaker struct{ next http.RoundTripper }

// WrappedRoundTripper implements k8s.io/apimachinery/pkg/util/net.RoundTripperWrapper.
func (h handshaker) WrappedRoundTripper() http.RoundTripper { return h.next }

// RoundTrip implements [http.RoundTripper].
func (h handshaker) RoundTrip(r *http.Request) (*http.Response, error) {
	for try := 1; ; try++ {
		var began, connected atomic.Bool
		ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
			TLSHandshakeStart: func() { began.Store(true) },
			GotConn:           func(httptrace.GotConnInfo) { connected.Store(true) },
		})
		response, err := h.next.RoundTrip(r.WithContext(ctx))
		var timeout net.Error
		if try == handshakes || !began.Load() || connected.Load() || !errors.As(err, &timeout) || !timeout.Timeout() || r.Context().Err() != nil {
			return response, err
		}
		if r.Body != nil && r.Body != http.NoBody {
			if r.GetBody == nil {
				return response, err
			}
			again := r.Clone(r.Context())
			if again.Body, err = r.GetBody(); err != nil {
				return nil, err
			}
			r = again
		}
	}
}
