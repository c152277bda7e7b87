package cli

import "context"

// computing carries out what does nothing but compute, which knows no context, and
// leaves it behind when the context ends: the process is about to. A simulation of a
// large mesh would otherwise not hear of an interrupt for minutes.
func computing(ctx context.Context, what func() error) error {
	done := make(chan error, 1)
	go func() { done <- what() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
