package detached

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/run/store"
)

// Fetch downloads the complete directory of a run that has ended. [Cluster.Fetched] records
// that.
func (c *Cluster) Fetch(ctx context.Context, r Run, to string, tell func(string)) (err error) {
	if err := c.begun(r); err != nil {
		return err
	}
	if !r.Ended() {
		return errs.WithHint(errs.Usage("run %s is in progress (%s), and reading its results would distort its measurements", r.Name, r.State), "wait until it ends: meshtrial attach %s%s", r.Name, c.words)
	}
	if err := store.Vacant(to); err != nil {
		return err
	}
	if r.Trials == 0 {
		tell("note: the run has no trial") // its contents may explain why
	}
	line, err := c.open(ctx, r, tell)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, line.close(ctx)) }()
	tell("fetching " + r.Results)
	body, err := line.Stream(ctx, archivePath)
	if err != nil {
		return fmt.Errorf("fetch run %s: %w", r.Name, err)
	}
	defer body.Close()
	if err := Unpack(body, to); err != nil {
		return errs.WithHint(fmt.Errorf("fetch run %s: %w", r.Name, err), "nothing was written; fetch it again")
	}
	return nil
}

// Fetched records that a run's directory is stored elsewhere.
func (c *Cluster) Fetched(ctx context.Context, r Run) error {
	return c.note(ctx, r, map[string]any{"metadata": map[string]any{"annotations": map[string]any{fetchedAnnotation: "true"}}})
}

// note patches the Job of a run.
func (c *Cluster) note(ctx context.Context, r Run, patch map[string]any) error {
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = c.objects.Resource(resources["Job"]).Namespace(r.Namespace).Patch(ctx, objectName(r.Name), types.MergePatchType, data, metav1.PatchOptions{FieldManager: journal.FieldManager})
	if err != nil {
		return fmt.Errorf("note on the Job of run %s: %w", r.Name, err)
	}
	return nil
}

// goneLimit limits the wait for the garbage collector.
const goneLimit = 2 * time.Minute

// stopLimit returns how long to wait for a run that reverts its changes, given its pod's grace
// period.
func (r Run) stopLimit() time.Duration {
	grace := site.RestoreTimeout + afterRestored
	if s := r.template.Spec.TerminationGracePeriodSeconds; s != nil {
		grace = time.Duration(*s) * time.Second
	}
	return grace + 30*time.Second
}

// Delete stops an active run, and removes everything that it created, including results. last
// reports that it was the last run in the cluster, so that the journal's namespace, which it
// held, may be deleted. With force, results that cannot be removed are left behind, which is
// reported.
func (c *Cluster) Delete(ctx context.Context, r Run, force bool, tell func(string)) (last bool, err error) {
	if err := c.own(ctx, r); err != nil {
		return false, err
	}
	if r.State != NoJob { // which has pods and results
		if err := c.empty(ctx, r, force, tell); err != nil {
			return false, err
		}
	}
	tell("removing what the run made")
	if err := c.remove(ctx, r.anchor); err != nil {
		return false, err
	}
	if err := c.gone(ctx, r); err != nil {
		return false, err
	}
	return c.unreserve(ctx)
}

// empty stops a run and removes its results.
func (c *Cluster) empty(ctx context.Context, r Run, force bool, tell func(string)) error {
	if err := c.stop(ctx, r, tell); err != nil {
		return err
	}
	switch err := c.discard(ctx, r, tell); {
	case err == nil:
	case !force || ctx.Err() != nil:
		return errs.WithHint(fmt.Errorf("remove %s: %w", r.Results, err), "nothing else was deleted; meshtrial runs delete %s --force%s deletes what it can", r.Name, c.words)
	default:
		tell(fmt.Sprintf("%s stays: %v", r.Results, err))
	}
	return nil
}

// stop makes the Job end an active pod, and waits until none is left. A pod that is told to
// end first reverts its changes.
func (c *Cluster) stop(ctx context.Context, r Run, tell func(string)) error {
	if !r.Ended() {
		if err := c.note(ctx, r, map[string]any{"spec": map[string]any{"suspend": true}}); err != nil {
			return err
		}
		tell("stopping the run, which reverts what it changed")
	}
	err := c.until(ctx, r.stopLimit(), fmt.Sprintf("the pods of run %s do not terminate", r.Name), func(ctx context.Context) (bool, error) {
		found, err := c.look(ctx, r.Namespace, r.Name)
		return err == nil && (len(found) == 0 || !found[0].atWork), err
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return errs.WithHint(err, "kubectl -n %s get pods -l %s=%s -o wide; if their node is dead: kubectl -n %s delete pod POD --force --grace-period=0", r.Namespace, Label, r.Name, r.Namespace)
	}
	return err
}

// discard removes the run directory.
func (c *Cluster) discard(ctx context.Context, r Run, tell func(string)) (err error) {
	line, err := c.open(ctx, r, tell)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, line.close(ctx)) }()
	return line.Do(ctx, "POST", removePath, nil, &struct{}{})
}

// gone waits until a run's Job is deleted.
func (c *Cluster) gone(ctx context.Context, r Run) error {
	return c.until(ctx, goneLimit, fmt.Sprintf("the objects of run %s are not deleted", r.Name), func(ctx context.Context) (bool, error) {
		_, err := c.objects.Resource(resources["Job"]).Namespace(r.Namespace).Get(ctx, objectName(r.Name), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
}

// until polls for at most the limit. An API server that does not answer for a moment does not end it.
func (c *Cluster) until(ctx context.Context, limit time.Duration, complaint string, done func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		ok, err := done(ctx)
		if ok || denied(err) {
			return err
		}
		if ended := wake.Pause(ctx, lookEvery); ended != nil {
			return errors.Join(fmt.Errorf("%s: %w", complaint, ended), err)
		}
	}
}
