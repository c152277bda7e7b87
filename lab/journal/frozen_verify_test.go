//go:build verify

package journal_test

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/journal/fields"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
	"golang.org/x/sys/unix"
)

// freeze suspends a lab's API server, as on a machine without CPU or memory, until
// the returned function is called.
func (g *guest) freeze(t *testing.T) (thaw func()) {
	t.Helper()
	status, err := local.GetStatus(filepath.Dir(g.lab.Kubeconfig()))
	must.OK(t, err)
	pids := labtest.PIDs(status.ID, "kube-apiserver")
	if len(pids) != 1 {
		t.Fatalf("API servers of lab %s: %v", status.ID, pids)
	}
	must.OK(t, unix.Kill(pids[0], unix.SIGSTOP))
	thaw = sync.OnceFunc(func() {
		if err := unix.Kill(pids[0], unix.SIGCONT); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(thaw)
	return thaw
}

// TestFrozen suspends the API server, for less or more time than the Lease lasts,
// while a run changes objects or restores them and another waits for its turn. The
// first run continues if possible, restores everything in any case, and the other
// follows.
func TestFrozen(t *testing.T) {
	g := newGuest(t)
	for name, c := range map[string]struct {
		pause time.Duration
		back  bool // while objects are being restored
	}{
		"changes, 20 s": {20 * time.Second, false}, "changes, longer than the Lease": {journal.Lapse + 20*time.Second, false},
		"restore, 20 s": {20 * time.Second, true}, "restore, longer than the Lease": {journal.Lapse + 20*time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			g.apply(t, web)
			before := without(fields.Own(g.get(t, webObject).Object))
			first := g.entered(t, "first")
			ctx, stop := first.Context(t.Context())
			defer stop()
			for _, n := range []string{"0", "1"} {
				must.OK(t, must.Err(first.Change(ctx, webObject, "lever", set(n, "metadata", "labels", "step"))))
			}
			type turn struct {
				j   *journal.Journal
				err error
			}
			next := make(chan turn, 1)
			go func() {
				j, err := g.enter(t, "second", func(o *journal.Options) { o.Wait = 10 * time.Minute })
				next <- turn{j, err}
			}()
			time.Sleep(2 * time.Second) // it looks

			thaw := g.freeze(t)
			time.AfterFunc(c.pause, thaw)
			began := time.Now()
			var err error
			if c.back {
				_, err = first.Restore(ctx, nil)
			} else {
				for n := 2; err == nil && time.Since(began) < c.pause+5*time.Second; n++ {
					_, err = first.Change(ctx, webObject, "lever", set(strconv.Itoa(n), "metadata", "labels", "step"))
				}
			}
			t.Logf("after %.1f s: %v; its context: %v", time.Since(began).Seconds(), err, context.Cause(ctx))
			if c.pause < journal.Lapse && (err != nil || ctx.Err() != nil) {
				t.Errorf("the Lease is not lost so soon, but: %v, %v", err, context.Cause(ctx))
			}
			// As a run does at its end, whatever its result.
			if _, err := first.Restore(context.WithoutCancel(ctx), nil); err != nil {
				t.Errorf("reverted: %v", err)
			}
			select {
			case early := <-next:
				t.Fatalf("the second one got in before the first had left: %v", early.err)
			default:
			}
			if now := without(fields.Own(g.get(t, webObject).Object)); !reflect.DeepEqual(now, before) {
				t.Errorf("the object is not as it was:\n%v\n%v", now, before)
			}
			if entries, err := journal.Entries(t.Context(), g.kube); err != nil || len(entries) > 0 {
				t.Errorf("%d entries are left, %v", len(entries), err)
			}
			if err := first.Leave(t.Context()); err != nil {
				t.Error(err)
			}
			second := <-next
			if second.err != nil {
				t.Fatalf("the second one: %v", second.err)
			}
			if done, err := second.j.Restore(t.Context(), nil); err != nil || len(done) > 0 {
				t.Errorf("the second one reverts %v, %v", done, err)
			}
			if err := second.j.Leave(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestTwoAtOnce lets two runs enter at the same time: one gets the cluster; the
// other names the holder or waits, and has changed nothing.
func TestTwoAtOnce(t *testing.T) {
	g := newGuest(t)
	g.apply(t, web)
	wins := map[string]int{}
	for i := range 4 {
		names := []string{"one", "other"}
		if i%2 == 1 {
			names[0], names[1] = names[1], names[0]
		}
		type turn struct {
			run string
			j   *journal.Journal
			err error
		}
		turns, begin := make(chan turn, 2), make(chan struct{})
		for _, run := range names {
			go func() {
				<-begin
				j, err := g.enter(t, run, func(o *journal.Options) { o.Wait = 0 })
				if err == nil {
					_, err = j.Change(t.Context(), webObject, run, set(run, "metadata", "labels", "by"))
				}
				turns <- turn{run, j, err}
			}()
		}
		close(begin)
		a := <-turns // the winner, which is done immediately; the loser learns it from the next renewal
		b := <-turns
		if a.err != nil {
			a, b = b, a
		}
		var held *journal.HeldError
		if a.err != nil || !errors.As(b.err, &held) || held.Holder.Run != a.run {
			t.Fatalf("%s: %v; %s: %v", a.run, a.err, b.run, b.err)
		}
		wins[a.run]++
		if by := g.get(t, webObject).GetLabels()["by"]; by != a.run {
			t.Errorf("%s has the cluster, but %q has changed the object", a.run, by)
		}
		entries, err := journal.Entries(t.Context(), g.kube)
		if err != nil || len(entries) != 1 || entries[0].Run != a.run {
			t.Errorf("the journal has %d entries, %v", len(entries), err)
		}
		if _, err := a.j.Restore(t.Context(), nil); err != nil {
			t.Error(err)
		}
		if err := a.j.Leave(t.Context()); err != nil {
			t.Error(err)
		}
	}
	t.Logf("who was first: %v", wins)
}
