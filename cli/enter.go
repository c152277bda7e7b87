package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/observe/procfs"
	"github.com/meshtrial/meshtrial/run/runner"
	"k8s.io/client-go/rest"
)

// leaveTimeout bounds how long it may take to give the cluster back.
const leaveTimeout = 30 * time.Second

// enter takes the cluster for a run, and puts back what dead ones left. keep
// says that the cluster is one's own.
func enter(ctx context.Context, p *progress, config *rest.Config, run, study string, wait time.Duration, keep bool) (*journal.Journal, error) {
	j, err := openJournal(ctx, p, config, run, study, wait, keep)
	if err != nil {
		return nil, err
	}
	done, err := j.Restore(ctx, nil)
	for _, o := range done {
		if o.Err == nil && len(o.Left) == 0 { // else it has been told
			p.Note("%s, changed by run %s, which has ended without putting it back: %s", o.Entry.Object, o.Entry.Run, o.Text)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("put back what an earlier run changed: %w", err), leave(ctx, j))
	}
	kept, err := j.Kept(ctx)
	if err != nil {
		return nil, errors.Join(err, leave(ctx, j))
	}
	for _, text := range sayKept(kept) {
		p.Note("%s", text)
	}
	return j, nil
}

// sayKept names what stays in a cluster because somebody asked for it, a line for
// each who did.
func sayKept(entries []*journal.Entry) (out []string) {
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
		out = append(out, fmt.Sprintf("%s: as asked for by %s on %s, which stays; to take it back: meshtrial cluster restore --run %s", text, first.Kept, first.At.Local().Format(time.DateTime), run))
	}
	return out
}

// openJournal takes the cluster's Lease.
func openJournal(ctx context.Context, p *progress, config *rest.Config, run, study string, wait time.Duration, keep bool) (*journal.Journal, error) {
	applier, err := lab.NewApplier(config)
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
	if keep { // a lab of ours goes with the run that started it
		gone = labGone
	}
	return journal.Enter(ctx, journal.Options{
		Gone:   gone,
		Config: config, Open: applier, Wait: wait, Keep: keep,
		Holder: journal.Holder{Run: run, Study: study, Host: host, Since: time.Now().UTC(), Process: string(process)},
		Dead: func(text string) bool {
			var other procfs.Identity
			return json.Unmarshal([]byte(text), &other) == nil && procfs.LifeOf(other, me) == procfs.Dead
		},
		Tell: func(text string) { p.Note("%s", text) },
	})
}

// waitUsage is the usage of the flag --wait.
const waitUsage = "how long to wait for another run that is at work in the cluster"

// occupied has a command that is no study's run do its work in a cluster that is
// its own meanwhile, as a run's is. The work's context ends if the Lease is lost.
func occupied(ctx context.Context, j *journal.Journal, work func(context.Context) error) (err error) {
	defer func() { err = errors.Join(err, leave(ctx, j)) }()
	ctx, release := j.Context(ctx)
	defer release()
	err = work(ctx)
	if lost := context.Cause(ctx); errors.Is(lost, journal.ErrLost) && !errors.Is(err, lost) { // nobody interrupted it
		err = errs.WithHint(errors.Join(lost, err), "meshtrial cluster status says whose the cluster is")
	}
	return err
}

// commandRun names a command in the cluster's Lease.
func commandRun(command string) string { return command + "-" + runner.NewRunID(time.Now()) }

// leave gives the cluster back, also when the run was cancelled.
func leave(ctx context.Context, j *journal.Journal) error {
	defer ending.Owe(ctx, "the cluster's Lease", "meshtrial cluster restore")()
	ctx, cancel := ending.Within(ctx, leaveTimeout)
	defer cancel()
	return j.Leave(ctx)
}

// sayOutcomes says what became of entries, a line or two each.
func sayOutcomes(done []journal.Outcome) string {
	var b strings.Builder
	for _, o := range done {
		switch {
		case o.Err != nil:
			fmt.Fprintf(&b, "%s: not put back: %v\n", o.Entry.Object, o.Err)
			continue
		case len(o.Back) > 0:
			fmt.Fprintf(&b, "%s: %s (%s)\n", o.Entry.Object, o.Text, strings.Join(o.Back, ", "))
		default:
			fmt.Fprintf(&b, "%s: %s\n", o.Entry.Object, o.Text)
		}
		for _, text := range o.Left {
			fmt.Fprintf(&b, "  left alone: %s\n", text)
		}
	}
	return b.String()
}
