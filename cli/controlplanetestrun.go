package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/observe/signals"
)

// meter reads the two ends of the test.
type meter interface {
	// mark returns a moment not before since of which the source has samples.
	mark(ctx context.Context, since time.Time) (time.Time, error)
	source() signals.Source
	name() string // of the source, for people
	close() error
}

func (f *pushTestFlags) meter(ctx context.Context, p *progress) (meter, error) {
	if f.prometheus != "" {
		remote, err := openPrometheus(f.prometheus, f.headers)
		return &prometheusMeter{remote: remote, selector: f.selector, progress: p}, err
	}
	from, err := newIstiods(ctx, &f.istiodFlags, rights.Signals)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "meshtrial-test-")
	if err != nil {
		from.close()
		return nil, err
	}
	recorder, err := signals.OpenRecorder(dir)
	if err != nil {
		from.close()
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &istiodMeter{from: from, dir: dir, recorder: recorder,
		scraper: &signals.Scraper{Recorder: recorder, Discover: from.pods, RediscoverEvery: time.Nanosecond}}, nil
}

// istiodMeter reads istiod's own pages at the two ends.
type istiodMeter struct {
	from     *istiods
	dir      string
	recorder *signals.Recorder
	scraper  *signals.Scraper
}

func (m *istiodMeter) source() signals.Source { return m.recorder.Source() }
func (m *istiodMeter) name() string           { return "istiod itself" }

func (m *istiodMeter) mark(ctx context.Context, _ time.Time) (time.Time, error) {
	at, problems, err := m.scraper.Scrape(ctx)
	if err == nil && len(problems) > 0 {
		err = fmt.Errorf("read istiod: %s", strings.Join(problems, "; "))
	}
	return at, err
}

func (m *istiodMeter) close() error {
	m.from.close()
	return errors.Join(m.recorder.Close(), os.RemoveAll(m.dir))
}

// prometheusMeter asks a server, which has samples only now and then.
type prometheusMeter struct {
	remote   *signals.Remote
	selector string
	progress *progress
}

// freshWithin bounds the wait for a server's next scrape of istiod: the
// longest usual interval is a minute.
const freshWithin = 2 * time.Minute

func (m *prometheusMeter) source() signals.Source { return m.remote }
func (m *prometheusMeter) name() string           { return m.remote.String() }
func (m *prometheusMeter) close() error           { return m.remote.Close() }

// mark waits until the server has read istiod after since.
func (m *prometheusMeter) mark(ctx context.Context, since time.Time) (time.Time, error) {
	expr := "min(timestamp(pilot_services{" + m.selector + "}))"
	ctx, cancel := context.WithTimeout(ctx, freshWithin)
	defer cancel()
	for {
		now := time.Now()
		samples, err := m.remote.Instant(ctx, expr, now)
		if err != nil {
			return now, err
		}
		if len(samples) == 0 {
			return now, errs.WithHint(fmt.Errorf("%s has no metrics of an istiod (pilot_services is missing)", m.remote), "does it scrape istiod's port %d?", istiodPort)
		}
		if samples[0].Value*1000 >= float64(since.UnixMilli()) {
			return now, nil
		}
		m.progress.Say("waiting until Prometheus has read istiod again")
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return now, errs.WithHint(fmt.Errorf("%s has not read istiod for %s", m.remote, freshWithin), "is its scrape interval longer, or does its clock differ from this machine's?")
			}
			return now, ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// pushTest creates the resources and deletes them.
type pushTest struct {
	f        pushTestFlags
	version  string // of Istio's kinds
	applier  *lab.Applier
	id       string
	progress *progress
	created  []*unstructured.Unstructured // or begun to be
}

// randomName tells the resources of one test from those of any other.
func randomName() string {
	var b [3]byte
	rand.Read(b[:])
	return "meshtrial-test-" + hex.EncodeToString(b[:])
}

// testLabel marks everything that a test creates.
const testLabel = "meshtrial.dev/controlplane-test"

// run creates the resources on their schedule, which does not wait for the
// API server, and then lets istiod settle.
func (t *pushTest) run(ctx context.Context) error {
	gateway, address, err := t.f.selects()
	if err != nil {
		return err
	}
	begin := time.Now()
	for i := range t.f.reps {
		if err := wake.Pause(ctx, time.Until(begin.Add(time.Duration(i)*time.Duration(t.f.delay)))); err != nil {
			return err
		}
		t.progress.Say("%d of %d", i+1, t.f.reps)
		objects := t.objects(i, gateway)
		t.created = append(t.created, objects...)
		if err := t.applier.ApplyObjects(ctx, objects); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return errs.WithHint(err, "may this user create Services, Gateways and VirtualServices in namespace %s?", t.f.target)
		}
	}
	if err := wake.Pause(ctx, time.Until(begin.Add(time.Duration(t.f.reps)*time.Duration(t.f.delay)))); err != nil {
		return err
	}
	if address != "" {
		if err := t.served(ctx, address); err != nil {
			return err
		}
	}
	t.progress.Say("letting istiod settle for %s", t.f.settle)
	return wake.Pause(ctx, t.f.settle)
}

// objects are the three resources of one time.
func (t *pushTest) objects(i int, gateway string) []*unstructured.Unstructured {
	name := fmt.Sprintf("%s-%d", t.id, i)
	host := name + ".meshtrial.test"
	object := func(apiVersion, kind string, spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": apiVersion, "kind": kind, "spec": spec,
			"metadata": map[string]any{"name": name, "namespace": t.f.target, "labels": map[string]any{testLabel: t.id}},
		}}
	}
	istio := "networking.istio.io/" + t.version
	return []*unstructured.Unstructured{
		object("v1", "Service", map[string]any{
			"selector": map[string]any{"app": t.f.app},
			"ports":    []any{map[string]any{"name": "http", "port": int64(80), "targetPort": int64(3000), "protocol": "TCP"}},
		}),
		object(istio, "Gateway", map[string]any{
			"selector": map[string]any{"istio": gateway},
			"servers": []any{map[string]any{"hosts": []any{host},
				"port": map[string]any{"name": "http", "number": int64(80), "protocol": "HTTP"}}},
		}),
		object(istio, "VirtualService", map[string]any{
			"hosts": []any{host}, "gateways": []any{name},
			"http": []any{map[string]any{"route": []any{map[string]any{"destination": map[string]any{
				"host": name + "." + t.f.target + ".svc.cluster.local", "port": map[string]any{"number": int64(80)}}}}}},
		}),
	}
}

// servedWithin bounds the wait for the gateway.
const servedWithin = time.Minute

// served waits until the gateway knows the last host: until it answers with
// anything but "not found", which is what it says of hosts that it has not.
func (t *pushTest) served(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, servedWithin)
	defer cancel()
	host := fmt.Sprintf("%s-%d.meshtrial.test", t.id, t.f.reps-1)
	client := &http.Client{Timeout: 2 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	last := "nothing"
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/", nil)
		if err != nil {
			return err
		}
		req.Host = host
		if resp, err := client.Do(req); err == nil {
			resp.Body.Close()
			if last = resp.Status; resp.StatusCode != http.StatusNotFound {
				return nil
			}
		} else {
			last = err.Error()
		}
		t.progress.Say("waiting until the gateway serves %s (%s)", host, last)
		if err := wake.Pause(ctx, 200*time.Millisecond); err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				return errs.WithHint(fmt.Errorf("the gateway %s does not serve %s after %s (last: %s)", address, host, servedWithin, last),
					"is it labelled istio=ingressgateway?")
			}
			return err
		}
	}
}

// cleanWithin bounds the deletion, which an interrupt does not stop.
const cleanWithin = time.Minute

func (t *pushTest) clean(ctx context.Context) error {
	if len(t.created) == 0 {
		return nil
	}
	ctx, cancel := ending.Within(ctx, cleanWithin)
	defer cancel()
	if err := t.applier.DeleteObjects(ctx, t.created); err != nil {
		return errs.WithHint(fmt.Errorf("some of what the test created is left: %w", err), "%s", t.remedy())
	}
	return nil
}

// remedy is the command that deletes what the test created.
func (t *pushTest) remedy() string {
	return fmt.Sprintf("kubectl -n %s delete service,gateways.networking.istio.io,virtualservices.networking.istio.io -l %s=%s", t.f.target, testLabel, t.id)
}
