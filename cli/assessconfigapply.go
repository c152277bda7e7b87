package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/advise/scope/generate"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/journal/fields"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/run/site"
)

// applyFlags are those of --apply.
type applyFlags struct {
	apply, yes bool
	wait       time.Duration
}

// applied is what became of an application, in the report's JSON.
type applied struct {
	generate.Result
	Applied *appliedAs `json:"applied,omitempty"`
}

type appliedAs struct {
	Run     string   `json:"run"`
	Objects []string `json:"objects"`
	Undo    string   `json:"undo"`
}

// keptBy is who asks for generated Sidecars to stay.
const keptBy = "meshtrial assess config --apply"

// whatMatters are the lists without which nothing is applied: what they lack might
// be left out.
var whatMatters = []string{"Namespace", "Pod", "Service", "ServiceEntry", "VirtualService", "Sidecar", "EnvoyFilter", "HTTPRoute",
	"Deployment", "StatefulSet", "DaemonSet", "CronJob", "WorkloadEntry", "ConfigMap"}

// complete refuses to apply what was made of half of what is in the mesh.
func (f *applyFlags) complete(inv *generate.Inventory) error {
	var missing []string
	for _, kind := range whatMatters {
		if !inv.Has(kind) {
			missing = append(missing, kind)
		}
	}
	if len(missing) > 0 {
		return errs.WithHint(errs.Usage("not applied: the mesh's objects of kind %s are unknown, so required hosts could be missing", strings.Join(missing, ", ")),
			"meshtrial cluster check --feature assess-config shows what this user may not list")
	}
	return nil
}

// sidecarPlan says which objects are to change, from what to what.
func sidecarPlan(steps []generate.Step) []journal.Planned {
	var out []journal.Planned
	for _, s := range steps {
		o := sidecarObject(s)
		switch {
		case s.Before == nil:
			out = append(out, journal.Planned{Object: o.String(), Done: journal.Made, Note: "lets in " + shortList(s.Hosts)})
		case s.After == nil:
			out = append(out, journal.Planned{Object: o.String(), Done: journal.Removed, Note: s.Because()})
		default:
			if p, differs := journal.Plan(o, s.Before, []map[string]any{s.After}); differs {
				out = append(out, p)
			}
		}
	}
	return out
}

func shortList(hosts []string) string {
	const most = 4
	if len(hosts) <= most {
		return strings.Join(hosts, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(hosts[:most], ", "), len(hosts)-most)
}

func sidecarObject(s generate.Step) journal.Object {
	return journal.Object{APIVersion: "networking.istio.io/v1", Kind: "Sidecar", Namespace: s.Namespace, Name: s.Name}
}

// sidecarWriter is what a journal does for Sidecars.
type sidecarWriter interface {
	Apply(ctx context.Context, object *unstructured.Unstructured, why string) ([]fields.Field, bool, error)
	Remove(ctx context.Context, o journal.Object, why string) error
	Restore(ctx context.Context, which func(*journal.Entry) bool) ([]journal.Outcome, error)
	Keep(ctx context.Context, why string) (int, error)
	Run() string
}

// applySidecars carries the steps out and has them stay. Where one fails, or is not
// what was planned for any more, those before it are taken back.
func applySidecars(ctx context.Context, j sidecarWriter, open journal.Opener, steps []generate.Step) (err error) {
	defer ending.Owe(ctx, "Sidecars that are not all applied", "meshtrial cluster restore")()
	defer func() {
		var stays *journal.StaysError
		switch {
		case err == nil:
			return
		case errors.As(err, &stays):
			err = errs.WithHint(err, "everything was applied; the next command that changes this cluster completes the journal; to revert: meshtrial cluster restore --run %s", j.Run())
			return
		}
		ctx, cancel := ending.Within(ctx, site.RestoreTimeout)
		defer cancel()
		done, undo := j.Restore(ctx, journal.OfRun(j.Run()))
		if err = errors.Join(err, undo); undo == nil {
			err = errs.WithHint(err, "nothing stays applied: %s reverted", words.Plural(len(done), "object"))
		}
	}()
	for _, s := range steps {
		if err := asPlanned(ctx, open, s); err != nil {
			return err
		}
		if s.After == nil {
			err = j.Remove(ctx, sidecarObject(s), s.Because())
		} else {
			_, _, err = j.Apply(ctx, (&unstructured.Unstructured{Object: s.After}).DeepCopy(), s.Because())
		}
		if err != nil {
			return err
		}
	}
	_, err = j.Keep(ctx, keptBy)
	return err
}

// asPlanned reports whether an object is still what the plan began with.
func asPlanned(ctx context.Context, open journal.Opener, s generate.Step) error {
	o := sidecarObject(s)
	at, err := open.Open(ctx, o.Bare(), o.Namespace)
	if err != nil {
		return err
	}
	live, err := at.Get(ctx, o.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && s.Before == nil:
		return nil
	case apierrors.IsNotFound(err):
		err = fmt.Errorf("%s no longer exists", o)
	case err != nil:
		return fmt.Errorf("%s: %w", o, err)
	case s.Before == nil:
		err = fmt.Errorf("%s exists now", o)
	case !sameJSON(live.Object["spec"], s.Before["spec"]):
		err = fmt.Errorf("%s has been changed since it was read", o)
	default:
		return nil
	}
	return errs.WithHint(err, "generate again: the requirements may have changed")
}

// sameJSON compares values whose numbers may be of different types.
func sameJSON(a, b any) bool {
	x, err := json.Marshal(a)
	y, also := json.Marshal(b)
	return err == nil && also == nil && bytes.Equal(x, y)
}

// apply applies what was generated, once it was agreed to, and says what became of it.
func (f *configFlags) apply(ctx context.Context, env *Env, r generate.Result) (*appliedAs, error) {
	steps := r.Steps()
	if len(steps) == 0 {
		return nil, nil
	}
	p := newProgress(env.Stderr)
	defer p.Clear()
	text := "this changes the cluster, until it is reverted:\n" + journal.Text(sidecarPlan(steps))
	if err := ask(ctx, env, p, f.Lab == lab.KindLocal, text, f.applied.yes); err != nil {
		return nil, err
	}
	config, err := f.Config(ctx, f.namespace, rights.Journal, rights.AssessApply)
	if err != nil {
		return nil, err
	}
	open, err := lab.NewApplier(config)
	if err != nil {
		return nil, err
	}
	run := app.CommandRun("assess-config")
	claim := app.Claim{Config: config, Run: run, Wait: f.applied.wait, OwnLab: f.Lab == lab.KindLocal, Revert: true}
	err = app.Occupy(ctx, p, claim, func(ctx context.Context, j *journal.Journal) error {
		return applySidecars(ctx, j, open, steps)
	})
	if err != nil {
		return nil, err
	}
	out := &appliedAs{Run: run, Undo: "meshtrial cluster restore --run " + run}
	for _, s := range steps {
		out.Objects = append(out.Objects, sidecarObject(s).String())
	}
	return out, nil
}

func (a *appliedAs) write(w io.Writer) error {
	if a == nil {
		_, err := fmt.Fprintln(w, "\nNothing to apply.")
		return err
	}
	_, err := fmt.Fprintf(w, "\nApplied: %s. They stay; to revert them: %s\n", words.Plural(len(a.Objects), "Sidecar"), a.Undo)
	return err
}
