package app

import "context"

// Computing runs a pure computation that takes no context. When ctx ends, it returns and abandons
// the computation, because the process is about to exit. Otherwise a simulation of a large mesh
// could delay an interrupt for minutes.
func Computing(ctx context.Context, what func() error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	done := make(chan error, 1)
	go func() { done <- what() }()
	select {
	case err := <-done:
		if err == nil && ctx.Err() != nil { // both happened at once
			return context.Cause(ctx)
		}
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
