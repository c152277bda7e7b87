package trial

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/drive/load"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
)

// setHeaders asks the mesh for the request headers that parts of its sidecars need.
func (d *deployed) setHeaders() error {
	var levels []string
	for v := range d.servers {
		if level := v.Level(dataplane.FactorFilters); level != "" && level != dataplane.FiltersNone {
			levels = append(levels, level)
		}
	}
	setter, ok := d.o.Mesh.(mesh.HeaderSetter)
	if !ok {
		return nil
	}
	headers, err := setter.RequestHeaders(levels)
	if err != nil {
		return err
	}
	for name, value := range headers {
		d.headers = append(d.headers, load.Header{Name: name, Value: value})
	}
	slices.SortFunc(d.headers, func(a, b load.Header) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// Time for a sidecar to receive an extension, and the polling interval: istiod waits until changes
// have settled, some seconds in large meshes, and on a busy machine its push and Envoy's answer
// take as long again. Only an extension without effect takes the full time. Clusters, listeners and
// routes arrive one after the other, and a later one may be rejected, so all must be quiet for a
// while.
const (
	extendTimeout = time.Minute
	extendEvery   = 250 * time.Millisecond
	extendSettle  = time.Second
)

// extend gives the servers' sidecars their extensions. If Kubernetes, the mesh or the sidecar
// itself rejects one, or it has no effect, extend removes it again and records that; the trials of
// its cells report it.
func (d *deployed) extend(ctx context.Context) error {
	extender, ok := d.o.Mesh.(mesh.Extender)
	applier, err := lab.NewApplier(d.o.Lab.RESTConfig())
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, server := range d.workers {
		if len(server.Extensions) == 0 {
			continue
		}
		if !ok {
			return fmt.Errorf("mesh %s has no EnvoyFilters", d.o.Mesh.Name())
		}
		server.extended = map[string]mesh.Extended{}
		group.Go(func() error {
			for _, x := range server.Extensions {
				problem, err := d.extendOne(ctx, extender, applier, server, x)
				if err != nil {
					return fmt.Errorf("%s on %s: %w", x.Part, server.Name, err)
				}
				one := mesh.Extended{Problem: problem, Names: extender.ExtensionNames(x)}
				if x.Wasm != nil {
					one.SHA256 = fmt.Sprintf("%x", sha256.Sum256(x.Wasm))
				}
				server.extended[x.Name] = one
			}
			return nil
		})
	}
	return group.Wait()
}

// extendOne applies an extension and waits until it is in force. It returns the reason if it is
// not, or an error if that is unknown.
func (d *deployed) extendOne(ctx context.Context, m mesh.Extender, applier *lab.Applier, server *workerRole, x mesh.Extension) (string, error) {
	before, err := server.pod.Proxy.Config(ctx)
	if err != nil {
		return "", err
	}
	object := m.ExtensionObject(server.Workload, x)
	if err := applier.ApplyObjects(ctx, []*unstructured.Unstructured{object}); err != nil {
		if ctx.Err() != nil || !refusal(err) {
			return "", err
		}
		return "the cluster rejects it: " + err.Error(), nil
	}
	problem := fmt.Sprintf("it changed nothing in the proxy within %v: check that its match fits a sidecar's inbound side", extendTimeout)
	if x.Wasm != nil {
		problem = fmt.Sprintf("the proxy did not load the module within %v: its log says why (\"failed to load\")", extendTimeout)
	}
	last, err := server.configs(ctx, m, before, func(now mesh.Uptake, still time.Duration) bool {
		return now.Refusal != "" || now.InForce && still >= extendSettle
	})
	if err != nil || last.InForce {
		return "", err
	}
	if last.Refusal != "" {
		problem = "the proxy rejects it: " + last.Refusal
	}
	// A sidecar that restarts with it might never become ready.
	if err := applier.DeleteObjects(ctx, []*unstructured.Unstructured{object}); err != nil {
		return "", err
	}
	// Remains of it, or the reason for its rejection, must not be attributed to the next one.
	last, err = server.configs(ctx, m, before, func(now mesh.Uptake, _ time.Duration) bool { return now.Absent })
	if !last.Absent {
		problem += fmt.Sprintf("; and the proxy still had it %v after its deletion", extendTimeout)
	}
	return problem, err
}

// configs reads the sidecar's configuration repeatedly until enough accepts it, given its changes
// since before and the time since the last one, for at most [extendTimeout]. It returns the last
// changes.
func (w *workerRole) configs(ctx context.Context, m mesh.Extender, before []byte, enough func(now mesh.Uptake, still time.Duration) bool) (now mesh.Uptake, err error) {
	limit, cancel := context.WithTimeout(ctx, extendTimeout)
	defer cancel()
	ticker := time.NewTicker(extendEvery)
	defer ticker.Stop()
	last, since := before, time.Now()
	for {
		after, err := w.pod.Proxy.Config(ctx)
		if err != nil {
			return now, err
		}
		step, err := m.Took(last, after)
		if err != nil {
			return now, err
		}
		if step.InForce {
			last, since = after, time.Now()
		}
		if now, err = m.Took(before, after); err != nil || enough(now, time.Since(since)) {
			return now, err
		}
		select {
		case <-limit.Done():
			return now, ctx.Err()
		case <-ticker.C:
		}
	}
}

// unextended lists the extensions that are not in force.
func (d *deployed) unextended() []string {
	var out []string
	for _, server := range d.workers {
		for _, x := range server.Extensions {
			if problem := server.extended[x.Name].Problem; problem != "" {
				out = append(out, fmt.Sprintf("%s is not active on %s: %s; its cells are not measured", x.Part, server.Name, problem))
			}
		}
	}
	slices.Sort(out)
	return out
}

// refusal reports whether an object was rejected because of its content.
func refusal(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) || strings.Contains(err.Error(), "admission webhook")
}

// refused returns the extensions of a cell's server that are not in force. The cell's trials are
// then not measured.
func (d *deployed) refused(job runner.Job) []record.Check {
	server := d.workers[dataplane.ServerVariant(job.Cell).For(job.Repeat)]
	if server == nil {
		return nil
	}
	var out []record.Check
	for _, x := range server.Extensions {
		if problem := server.extended[x.Name].Problem; problem != "" {
			out = append(out, record.Check{Name: "server-" + x.Part, Detail: problem})
		}
	}
	return out
}
