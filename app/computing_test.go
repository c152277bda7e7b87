package app

import (
	"context"
	"errors"
	"testing"
)

// An interrupt ends a command before its computation is done.
func TestComputing(t *testing.T) {
	never := make(chan struct{})
	defer close(never)
	ctx, cancel := context.WithCancel(context.Background())
	began := make(chan struct{})
	go func() {
		<-began
		cancel()
	}()
	err := Computing(ctx, func() error {
		close(began)
		<-never
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("an interrupted computation ends with %v", err)
	}
	failed := errors.New("failed")
	if err := Computing(context.Background(), func() error { return failed }); !errors.Is(err, failed) {
		t.Errorf("a computation that fails ends with %v", err)
	}
}
