package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestTransient(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	get := func(err error) error {
		return fmt.Errorf("list pods: %w", &url.Error{Op: "Get", URL: "https://x", Err: err})
	}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{apierrors.NewServiceUnavailable("starting"), true},
		{fmt.Errorf("list pods: %w", apierrors.NewTooManyRequests("busy", 1)), true},
		{apierrors.NewServerTimeout(pods, "list", 1), true},
		{apierrors.NewInternalError(errors.New("etcdserver: leader changed")), true},
		{apierrors.NewGenericServerResponse(502, "get", pods, "", "", 0, true), true},
		{get(syscall.ECONNREFUSED), true},
		{get(context.DeadlineExceeded), true},
		{fmt.Errorf("read the answer: %w", io.ErrUnexpectedEOF), true},
		{get(context.Canceled), false},
		{apierrors.NewForbidden(pods, "", nil), false},
		{apierrors.NewUnauthorized("expired"), false},
		{apierrors.NewNotFound(pods, "x"), false},
		{errors.New("pod x failed"), false},
		{nil, false},
	} {
		if got := Transient(c.err); got != c.want {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}
