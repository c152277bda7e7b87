package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/resilience/trial"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/study"
)

// agreed completes a run's options, and has somebody agree to what it changes of
// others'. What it opened for that is closed by done.
func agreed(ctx context.Context, env *Env, p *progress, f runFlags, plan *study.Plan, o *runner.Options) (done func() error, err error) {
	connected, done, err := completed(ctx, p, f, plan, o)
	if err != nil {
		return nil, err
	}
	if err := agreeTo(ctx, env, p, f, plan, o, connected); err != nil {
		return nil, errors.Join(err, done())
	}
	return done, nil
}

// completed completes a run's options, with the control plane if the run needs that, which
// done closes. connected counts others' proxies; nil: it cannot.
func completed(ctx context.Context, p *progress, f runFlags, plan *study.Plan, o *runner.Options) (connected func(context.Context) (int, error), done func() error, err error) {
	if err := complete(ctx, p, f, plan, o); err != nil {
		return nil, nil, err
	}
	if plan.Study.Kind != study.ControlPlane && !trial.SetsControl(plan) {
		return nil, func() error { return nil }, nil
	}
	plane, err := openControl(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	o.Control = plane
	return plane.Connected, plane.Close, nil
}

// agreeTo has somebody agree to what a run changes of others'.
func agreeTo(ctx context.Context, env *Env, p *progress, f runFlags, plan *study.Plan, o *runner.Options, connected func(context.Context) (int, error)) error {
	changes, err := o.Kind.Changes(ctx, o, plan)
	if err != nil {
		return err
	}
	return agree(ctx, env, p, o.Lab, changes, f, connected)
}

// agree says what a run is going to change in a user's cluster, and asks, unless
// --yes has answered. What would hold for proxies of others wants a flag of its own:
// connected says how many there are, and may be nil. A local lab is the program's own.
func agree(ctx context.Context, env *Env, p *progress, where lab.Lab, changes []journal.Planned, f runFlags, connected func(context.Context) (int, error)) error {
	if where.Kind() == lab.KindLocal || len(changes) == 0 {
		return nil
	}
	text := "outside its own namespace this run changes, and puts back when it ends (if it is killed, meshtrial cluster restore does):\n" + journal.Text(changes)
	if slices.ContainsFunc(changes, func(c journal.Planned) bool { return len(c.Wide) > 0 }) {
		touched, theirs, err := others(ctx, connected)
		if err != nil {
			return err
		}
		text += "connected, and affected by what is mesh-wide: " + theirs + "\n"
		if touched && !f.meshWide {
			return errs.WithHint(errs.Usage("%sso it needs --mesh-wide: --yes is not enough", text),
				"give --mesh-wide if their requests may fail meanwhile; otherwise use levers that affect only the study's own namespaces (sidecar_scope: namespace), leave out steps and disruptions that take the control plane away, or use an istiod without proxies (--revision)")
		}
	}
	return ask(ctx, env, p, false, text, f.yes)
}

// others says whether proxies of others may be under what is mesh-wide, and which. A
// run that opens no control plane cannot count them, and takes it that there are some.
func others(ctx context.Context, connected func(context.Context) (int, error)) (touched bool, text string, err error) {
	if connected == nil {
		return true, "all proxies of this control plane; this run does not count those of others", nil
	}
	n, err := connected(ctx)
	if err != nil {
		return false, "", fmt.Errorf("count the proxies that mesh-wide changes would affect: %w", err)
	}
	return n > 0, fmt.Sprintf("%d proxies of others", n), nil
}

// ask says what is going to change, and goes on if somebody at the terminal says so.
func ask(ctx context.Context, env *Env, p *progress, own bool, text string, yes bool) error {
	if own || yes {
		p.Note("%s", strings.TrimSuffix(text, "\n"))
		return nil
	}
	p.Clear()
	if !isTerminal(env.Stdin) || terminalWidth(env.Stderr) == 0 {
		return errs.WithHint(errs.Usage("%sso somebody must agree to it", text), "--yes")
	}
	fmt.Fprintf(env.Stderr, "%sgo on? [y/N] ", text)
	answer := make(chan string, 1)
	go func() { // ends with the line, or the program
		line, _ := bufio.NewReader(env.Stdin).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case line := <-answer:
		if line == "y" || line == "yes" {
			return nil
		}
	}
	return errs.WithCode(errors.New("not agreed to: nothing that belongs to others was changed"), errs.CodeInterrupted)
}

// isTerminal says whether somebody can be asked there.
func isTerminal(in any) bool {
	f, ok := in.(*os.File)
	return ok && terminalWidth(f) > 0
}
