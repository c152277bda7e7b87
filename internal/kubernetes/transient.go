package kubernetes

import (
	"context"
	"errors"
	"io"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Transient reports whether a failed read may succeed when it is repeated: the API server was not
// reached, is busy or is starting. A wait goes on after such an error.
func Transient(err error) bool {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) ||
			apierrors.IsTimeout(err) || apierrors.IsInternalError(err)
	}
	unreached := (*url.Error)(nil)
	return errors.As(err, &unreached) && !errors.Is(err, context.Canceled) ||
		errors.Is(err, io.ErrUnexpectedEOF) || utilnet.IsHTTP2ConnectionLost(err) || utilnet.IsConnectionReset(err) // while reading an answer
}
