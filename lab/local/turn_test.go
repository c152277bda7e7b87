package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
)

// Of labs that start at once one after the other chooses addresses.
func TestTurns(t *testing.T) {
	socket := fmt.Sprintf("@meshmark-test-turn-%d", os.Getpid())
	var at, most atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				end, err := takeTurn(t.Context(), socket)
				if err != nil {
					t.Error(err)
					return
				}
				if now := at.Add(1); now > most.Load() {
					most.Store(now)
				}
				at.Add(-1)
				end()
				end()
			}
		})
	}
	all.Wait()
	if most.Load() != 1 {
		t.Errorf("%d at once", most.Load())
	}
	end, err := takeTurn(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := takeTurn(ctx, socket); !errors.Is(err, context.Canceled) {
		t.Errorf("while another has it: %v", err)
	}
}
