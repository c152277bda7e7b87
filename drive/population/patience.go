package population

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/internal/wake"
)

// listed is list, asked again while the API server has no time for it.
func (w *World) listed(ctx context.Context) (have map[string]*unstructured.Unstructured, err error) {
	err = patiently(ctx, func() error {
		have, err = w.list(ctx)
		return err
	})
	return have, err
}

// patiently does something again as long as it fails by what may go away by itself: tens of
// thousands of objects that come or go keep an API server busy.
func patiently(ctx context.Context, do func() error) error {
	for {
		began := time.Now()
		err := do()
		if err == nil || !passing(err) {
			return err
		}
		if ended := wake.Pause(ctx, sinceLook(began)); ended != nil {
			return fmt.Errorf("%w (last seen: %w)", ended, err)
		}
	}
}

// passing tells whether a refusal may go away by itself.
func passing(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) // the connection
	}
	return apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsInternalError(err)
}
