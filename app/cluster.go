package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/cluster"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/mesh/meshes"
	"github.com/meshtrial/meshtrial/observe/procfs"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
)

// OpenCluster opens the cluster of a kubeconfig if its user has the rights that
// are needed, and notes what is left out for lack of others.
func OpenCluster(ctx context.Context, p Progress, o cluster.Options) (lab.Lab, error) {
	l, err := cluster.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	for _, note := range l.Notes() {
		p.Note("note: %s", note)
	}
	return l, nil
}

// Places are the namespaces that rights are asked for in: those of the meshes'
// control planes, one that a run could have, and one that the user names ("" for
// all).
func Places(names []string, named string) rights.Places {
	places := rights.Places{Journal: journal.Namespace, Run: site.NamespacePrefix + "check",
		Meshes: map[string]string{}, Named: named}
	for _, name := range names {
		places.Meshes[name] = meshes.ControlPlane(name)
	}
	return places
}

// Rights are those of the named features in their places. It panics on an unknown name.
func Rights(places rights.Places, names ...string) []rights.Feature {
	features, err := rights.Named(names...)
	if err != nil {
		panic(err)
	}
	return rights.Place(features, places)
}

// leaveTimeout bounds how long it may take to give the cluster back.
const leaveTimeout = 30 * time.Second

// Claim says who takes which cluster.
type Claim struct {
	Config *rest.Config
	// Run names the process in the cluster's Lease: a run's ID, or a [CommandRun].
	Run   string
	Study string // "" for other commands
	// Wait is how long to wait for another run that is at work in the cluster.
	Wait time.Duration
	// OwnLab says that the cluster is a local lab of this machine.
	OwnLab bool
	// Revert says to revert first what dead runs left.
	Revert bool
}

// CommandRun names a command in the cluster's Lease.
func CommandRun(command string) string { return command + "-" + runner.NewRunID(time.Now()) }

// Occupy takes a cluster for the time of some work, whose context ends if the Lease is lost.
func Occupy(ctx context.Context, p Progress, c Claim, work func(context.Context, *journal.Journal) error) (err error) {
	j, err := c.take(ctx, p)
	if err != nil {
		return c.explain(ctx, err)
	}
	defer func() { err = errors.Join(err, leave(ctx, j)) }()
	if c.Revert {
		if err := revertDead(ctx, p, j); err != nil {
			return c.explain(ctx, err)
		}
	}
	working, release := j.Context(ctx)
	defer release()
	err = work(working, j)
	if lost := context.Cause(working); errors.Is(lost, journal.ErrLost) && !errors.Is(err, lost) {
		// Nobody interrupted it.
		err = errs.WithHint(errors.Join(lost, err), "meshtrial cluster status shows which run holds the cluster")
	}
	return err
}

// take takes the cluster's Lease.
func (c Claim) take(ctx context.Context, p Progress) (*journal.Journal, error) {
	applier, err := lab.NewApplier(c.Config)
	if err != nil {
		return nil, err
	}
	me, err := procfs.Self()
	if err != nil {
		return nil, err
	}
	process, err := json.Marshal(me)
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	var gone func() bool
	if c.OwnLab { // a lab of ours goes with the run that started it
		gone = labGone
	}
	return journal.Enter(ctx, journal.Options{
		Gone:   gone,
		Config: c.Config, Open: applier, Wait: c.Wait, Keep: c.OwnLab,
		Holder: journal.Holder{Run: c.Run, Study: c.Study, Host: host, Since: time.Now().UTC(),
			Process: string(process)},
		Dead: func(text string) bool {
			var other procfs.Identity
			return json.Unmarshal([]byte(text), &other) == nil && procfs.LifeOf(other, me) == procfs.Dead
		},
		Tell: func(text string) { p.Note("%s", text) },
	})
}

// revertDead reverts what dead runs changed, and notes what stays because somebody asked for it.
func revertDead(ctx context.Context, p Progress, j *journal.Journal) error {
	done, err := j.Restore(ctx, nil)
	for _, o := range done {
		if o.Err == nil && len(o.Left) == 0 { // the journal has told the others
			p.Note("%s, changed by run %s, which has ended without reverting it: %s",
				o.Entry.Object, o.Entry.Run, o.Text)
		}
	}
	if err != nil {
		return fmt.Errorf("revert what an earlier run changed: %w", err)
	}
	kept, err := j.Kept(ctx)
	for _, text := range keptNotes(kept) {
		p.Note("%s", text)
	}
	return err
}

// keptNotes name what stays in a cluster because somebody asked for it, a line for
// each run that did.
func keptNotes(entries []*journal.Entry) (out []string) {
	var runs []string
	objects := map[string][]*journal.Entry{}
	for _, e := range entries {
		if len(objects[e.Run]) == 0 {
			runs = append(runs, e.Run)
		}
		objects[e.Run] = append(objects[e.Run], e)
	}
	for _, run := range runs {
		first := objects[run][0]
		text := first.Object.String()
		if n := len(objects[run]); n > 1 {
			text += fmt.Sprintf(" and %d more", n-1)
		}
		out = append(out, fmt.Sprintf("%s: kept on purpose by %s on %s; to revert: meshtrial cluster restore --run %s", text, first.Kept, first.At.Local().Format(time.DateTime), run))
	}
	return out
}

// leave gives the cluster back, also when the run was cancelled.
func leave(ctx context.Context, j *journal.Journal) error {
	defer ending.Owe(ctx, "the cluster's Lease", "meshtrial cluster restore")()
	ctx, cancel := ending.Within(ctx, leaveTimeout)
	defer cancel()
	return j.Leave(ctx)
}

// labEndLimit bounds the wait for the end of a local lab whose API server answers
// no more.
const labEndLimit = 5 * time.Second

// explain says why a local lab could not be taken that was taken down meanwhile, by the run
// that had started it.
func (c Claim) explain(ctx context.Context, err error) error {
	var held *journal.HeldError
	if !c.OwnLab || errors.As(err, &held) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, labEndLimit)
	defer cancel()
	for {
		if labGone() {
			return errs.WithHint(errors.New("the lab was stopped meanwhile, by the run that had started it or by `meshtrial lab down`"),
				"run again, which starts a lab; to keep one for several runs, use `meshtrial lab up` first, or --keep-lab with the first run")
		}
		if wake.Pause(ctx, 100*time.Millisecond) != nil {
			return err
		}
	}
}

// labGone says that no local lab runs.
func labGone() bool {
	_, err := local.Open("")
	return errors.Is(err, local.ErrNotRunning)
}
