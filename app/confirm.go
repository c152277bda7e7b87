package app

import (
	"context"
	"fmt"
	"slices"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/journal"
)

// confirm asks for consent to what the run changes in a user's cluster outside its own
// namespace. connected counts other people's proxies; it is nil if the run cannot.
func (r *prepared) confirm(ctx context.Context, connected func(context.Context) (int, error)) error {
	changes, err := r.runner.Kind.Changes(ctx, &r.runner, r.plan)
	if err != nil {
		return err
	}
	return r.confirmChanges(ctx, changes, connected)
}

// confirmChanges asks for consent to changes. What affects other people's proxies needs
// MeshWide as well. A local lab is the program's own, also to a detached run in it.
func (o *RunOptions) confirmChanges(ctx context.Context, changes []journal.Planned,
	connected func(context.Context) (int, error)) error {
	if o.headerLab() == lab.KindLocal || len(changes) == 0 {
		return nil
	}
	text := "outside its own namespace this run makes these changes, and reverts them when it ends (if it is killed: meshtrial cluster restore):\n" + journal.Text(changes)
	if slices.ContainsFunc(changes, func(c journal.Planned) bool { return len(c.Wide) > 0 }) {
		affected, theirs := true, "all proxies of this control plane; this run does not count other users' proxies"
		if connected != nil {
			n, err := connected(ctx)
			if err != nil {
				return fmt.Errorf("count the proxies that mesh-wide changes would affect: %w", err)
			}
			affected, theirs = n > 0, words.Plural(n, "proxy")+" of other users"
		}
		text += "affected by mesh-wide changes: " + theirs + "\n"
		if affected && !o.MeshWide {
			return errs.WithHint(errs.Usage("%sthis requires --mesh-wide: --yes is not enough", text),
				"give --mesh-wide if their requests may fail meanwhile; otherwise use levers that affect only the study's own namespaces (sidecar_scope: namespace), leave out steps and disruptions that take the control plane away, or use an istiod without proxies (--revision)")
		}
	}
	return o.Confirm(ctx, text)
}
