package app

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/meshtrial/meshtrial/lab/journal"
)

// notes is a journal that has entries, of which some cannot be reverted.
type notes struct {
	all    []*journal.Entry
	broken string // the object's name
	lost   bool
	did    []string
}

func (n *notes) restore(how string, which func(*journal.Entry) bool) (done []journal.Outcome, err error) {
	if n.lost {
		return nil, journal.ErrLost
	}
	for _, e := range n.all {
		if !which(e) || how == "restore" && e.Kept != "" || e.Left != "" && len(e.Fields) == 0 && e.Object.Name != n.broken {
			continue
		}
		o := journal.Outcome{Entry: *e}
		if e.Object.Name == n.broken {
			o.Err = errors.New("forbidden")
			err = errors.Join(err, o.Err)
		} else {
			n.did = append(n.did, fmt.Sprintf("%s %s", how, e.Object.Name))
		}
		done = append(done, o)
	}
	return done, err
}

func (n *notes) Restore(_ context.Context, which func(*journal.Entry) bool) ([]journal.Outcome, error) {
	return n.restore("restore", which)
}

func (n *notes) TakeBack(_ context.Context, which func(*journal.Entry) bool) ([]journal.Outcome, error) {
	return n.restore("take back", which)
}

func (n *notes) Forget(_ context.Context, which func(*journal.Entry) bool) (count int, err error) {
	for _, e := range n.all {
		if which(e) {
			n.did = append(n.did, "forget "+e.Object.Name)
			count++
		}
	}
	return count, nil
}

// TestSettle: what was asked to stay is taken back by its run's name, and forgotten
// without being taken back where that is asked for; a note of what could not be reverted
// is not forgotten along with what was left alone of the object before.
func TestSettle(t *testing.T) {
	entry := func(run, name, kept, left string) *journal.Entry {
		return &journal.Entry{Run: run, Object: journal.Object{Kind: "Sidecar", Name: name}, Kept: kept, Left: left}
	}
	for name, c := range map[string]struct {
		options RestoreOptions
		broken  string
		lost    bool
		want    []string
	}{
		"all":                          {RestoreOptions{}, "", false, []string{"restore changed"}},
		"all, and forget":              {RestoreOptions{Forget: true}, "", false, []string{"restore changed", "forget left"}},
		"a run whose changes stay":     {RestoreOptions{Run: "apply"}, "", false, []string{"take back stays"}},
		"they stay for good":           {RestoreOptions{Run: "apply", Forget: true}, "", false, []string{"forget stays"}},
		"a dead run, and forget":       {RestoreOptions{Run: "dead", Forget: true}, "", false, []string{"restore changed", "forget changed"}},
		"what cannot be reverted":      {RestoreOptions{Run: "dead", Forget: true}, "changed", false, []string{"forget changed"}},
		"left before, and cannot now":  {RestoreOptions{Forget: true}, "left", false, []string{"restore changed"}},
		"the cluster is another's now": {RestoreOptions{Forget: true}, "", true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			n := &notes{broken: c.broken, lost: c.lost, all: []*journal.Entry{entry("apply", "stays", "test", ""), entry("dead", "changed", "", ""), entry("other", "left", "", "somebody's")}}
			_, _, failed, err := c.options.settle(t.Context(), n)
			if err != nil || (failed != nil) != (c.broken != "" || c.lost) || !reflect.DeepEqual(n.did, c.want) {
				t.Errorf("%q, %v, %v", n.did, failed, err)
			}
		})
	}
}
