package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/meshtrial/meshtrial/testing/must"
)

// Labs that start at the same time choose addresses one after the other.
func TestTurns(t *testing.T) {
	socket := fmt.Sprintf("@meshtrial-test-turn-%d", os.Getpid())
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
	must.OK(t, err)
	defer end()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := takeTurn(ctx, socket); !errors.Is(err, context.Canceled) {
		t.Errorf("while another has it: %v", err)
	}
}

func TestListsAreWhole(t *testing.T) {
	asked := 0
	all, err := listAll(func() ([]int, error) {
		if asked++; asked < 3 {
			return []int{1}, fmt.Errorf("list: %w", netlink.ErrDumpInterrupted)
		}
		return []int{1, 2}, nil
	})
	if err != nil || len(all) != 2 || asked != 3 {
		t.Errorf("%v, %v after %d", all, err, asked)
	}
	asked = 0
	if _, err := listAll(func() ([]int, error) { asked++; return nil, errors.ErrUnsupported }); asked != 1 || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v after %d", err, asked)
	}
}
