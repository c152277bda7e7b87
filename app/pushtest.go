package app

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/observe/signals"
)

// PushTestOptions are the parameters of the published test of a control plane: create a Service,
// a Gateway and a VirtualService, wait, and repeat.
type PushTestOptions struct {
	Reps          int
	Delay, Settle time.Duration // between repetitions, and after the last
	Namespace     string        // of the resources
	App           string        // label of the pods behind each Service
	// Gateway is the value of the istio label of the gateway's pods, or the gateway's URL or
	// HOST:PORT. With an address, the test also waits until the gateway serves the last
	// VirtualService.
	Gateway  string
	Selector string // of istiod's series
	// Source provides istiod's metrics, and Name describes it. Mark returns a time, not before
	// the call, for which Source has samples.
	Source   signals.Source
	Name     string
	Mark     func(context.Context) (time.Time, error)
	Progress Progress
}

// PushTestReport is the result of the test.
type PushTestReport struct {
	Schema    int     `json:"schema"`
	Source    string  `json:"source"`
	Namespace string  `json:"namespace"`
	Gateway   string  `json:"gateway"`
	Reps      int     `json:"reps"`
	DelayS    float64 `json:"delay_s"`
	Created   int     `json:"created"` // resources
	signals.PushTest
	LeftOut []string `json:"left_out"`
}

// PushTest takes the cluster, runs the test and deletes what it created, even if it is
// interrupted.
func PushTest(ctx context.Context, claim Claim, o PushTestOptions) (report PushTestReport, err error) {
	if o.Gateway, err = gatewayOf(o.Gateway); err != nil {
		return report, err
	}
	o.Progress.Say("checking the cluster")
	defer o.Progress.Clear()
	kube, err := kubernetes.NewForConfig(claim.Config)
	if err != nil {
		return report, err
	}
	_, err = kube.CoreV1().Namespaces().Get(ctx, o.Namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return report, errs.WithHint(errs.Usage("the cluster has no namespace %s", o.Namespace), "kubectl create namespace %s, or name another with --namespace", o.Namespace)
	}
	if err != nil && !apierrors.IsForbidden(err) { // the user may still create objects in it
		return report, err
	}
	applier, err := lab.NewApplier(claim.Config)
	if err != nil {
		return report, err
	}
	claim.Run, claim.Revert = CommandRun("controlplane-test"), true
	t := &pushTest{PushTestOptions: o, id: pushTestID(), applier: applier}
	err = Occupy(ctx, o.Progress, claim, func(ctx context.Context, j *journal.Journal) error {
		t.journal = j
		report, err = t.measure(ctx)
		return err
	})
	return report, err
}

// pushTestID returns a random name that distinguishes the resources of one test from those of
// others.
func pushTestID() string {
	var b [3]byte
	rand.Read(b[:])
	return "meshtrial-test-" + hex.EncodeToString(b[:])
}

// pushTest is a test in progress.
type pushTest struct {
	PushTestOptions
	id      string
	applier *lab.Applier
	journal *journal.Journal
	owner   metav1.OwnerReference
	created []*unstructured.Unstructured // or attempted
}

// own creates a ConfigMap that owns what the test creates. Only the ConfigMap is in the journal: an
// entry is a Secret, which istiod watches, so entries for all objects would disturb the test. If the
// test is killed, reverting the ConfigMap has everything else garbage-collected.
func (t *pushTest) own(ctx context.Context) error {
	owner := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": t.id, "namespace": t.Namespace, "labels": map[string]any{PushTestLabel: t.id}},
	}}
	if _, _, err := t.journal.Apply(ctx, owner, "owns what controlplane-test creates"); err != nil {
		return err
	}
	at, err := t.applier.Open(ctx, owner, "")
	if err != nil {
		return err
	}
	made, err := at.Get(ctx, t.id, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("ConfigMap %s/%s: %w", t.Namespace, t.id, err)
	}
	t.owner = metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: t.id, UID: made.GetUID()}
	return nil
}

// measure runs the test between two readings of istiod's metrics.
func (t *pushTest) measure(ctx context.Context) (report PushTestReport, err error) {
	defer ending.Owe(ctx, "what the test created in namespace "+t.Namespace, "meshtrial cluster restore")()
	var from, to time.Time
	if err = t.own(ctx); err == nil {
		from, err = t.Mark(ctx)
	}
	if err == nil {
		err = t.run(ctx)
	}
	if err == nil {
		to, err = t.Mark(ctx)
	}
	t.Progress.Say("deleting what was created")
	left := t.clean(ctx)
	switch {
	case ctx.Err() != nil && left == nil:
		return report, errs.WithCode(errors.New("interrupted; everything the test created was deleted"), errs.CodeInterrupted)
	case err != nil:
		return report, errors.Join(err, left)
	}
	figures, err := signals.MeasurePushTest(ctx, t.Source, signals.Options{Selector: t.Selector}, from, to)
	return PushTestReport{Schema: 1, Source: t.Name, Namespace: t.Namespace, Gateway: t.Gateway, Reps: t.Reps,
		DelayS: t.Delay.Seconds(), Created: len(t.created), PushTest: figures, LeftOut: figures.LeftOut()}, errors.Join(err, left)
}

// run creates the resources on a schedule that does not wait for the API server, and then lets
// istiod settle.
func (t *pushTest) run(ctx context.Context) error {
	begin := time.Now()
	for i := range t.Reps {
		t.Progress.Say("%d of %d", i+1, t.Reps)
		objects := t.objects(i)
		t.created = append(t.created, objects...)
		if err := t.applier.ApplyObjects(ctx, objects); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return errs.WithHint(err, "is Istio installed there, and may this user create Services, Gateways and VirtualServices in namespace %s?", t.Namespace)
		}
		if err := wake.Pause(ctx, time.Until(begin.Add(time.Duration(i+1)*t.Delay))); err != nil {
			return err
		}
	}
	if t.byURL() {
		if err := t.served(ctx); err != nil {
			return err
		}
	}
	t.Progress.Say("letting istiod settle for %s", t.Settle)
	return wake.Pause(ctx, t.Settle)
}

func (t *pushTest) byURL() bool { return strings.Contains(t.Gateway, "://") }

// gatewayOf returns the gateway's name or URL. Text that is not a name, such as HOST:PORT,
// becomes an HTTP URL.
func gatewayOf(text string) (string, error) {
	if !strings.ContainsAny(text, ":/") {
		return text, nil
	}
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	if u, err := url.Parse(text); err != nil || u.Host == "" {
		return "", errs.WithHint(errs.Usage("--gateway %s is neither a name nor a URL", text), "for example --gateway ingressgateway or --gateway http://10.0.0.1:80")
	}
	return text, nil
}

// host returns the host of the i-th VirtualService.
func (t *pushTest) host(i int) string { return fmt.Sprintf("%s-%d.meshtrial.test", t.id, i) }

// PushTestLabel marks every object that a test creates.
const PushTestLabel = "meshtrial.dev/controlplane-test"

// objects returns the three resources of the i-th repetition.
func (t *pushTest) objects(i int) []*unstructured.Unstructured {
	name, host, gateway := fmt.Sprintf("%s-%d", t.id, i), t.host(i), t.Gateway
	if t.byURL() {
		gateway = "ingressgateway"
	}
	object := func(apiVersion, kind string, spec map[string]any) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": apiVersion, "kind": kind, "spec": spec,
			"metadata": map[string]any{"name": name, "namespace": t.Namespace, "labels": map[string]any{PushTestLabel: t.id}},
		}}
		o.SetOwnerReferences([]metav1.OwnerReference{t.owner})
		return o
	}
	const istio = "networking.istio.io/v1beta1" // supported by every Istio since 1.5
	return []*unstructured.Unstructured{
		object("v1", "Service", map[string]any{
			"selector": map[string]any{"app": t.App},
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
				"host": name + "." + t.Namespace + ".svc.cluster.local", "port": map[string]any{"number": int64(80)}}}}}},
		}),
	}
}

// pushTestLimit limits the wait for the gateway, and the deletion, which continues after an
// interrupt.
const pushTestLimit = time.Minute

// served waits until the gateway knows the last host. A gateway answers "not found" for hosts
// that it does not know; any other answer counts.
func (t *pushTest) served(ctx context.Context) error {
	host := t.host(t.Reps - 1)
	t.Progress.Say("waiting until the gateway serves %s", host)
	ctx, cancel := context.WithTimeoutCause(ctx, pushTestLimit, fmt.Errorf("the gateway %s does not serve %s after %s; is it labelled istio=ingressgateway?", t.Gateway, host, pushTestLimit))
	defer cancel()
	client := &http.Client{Timeout: 2 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.Gateway, nil)
		if err != nil {
			return errs.WithCode(err, errs.CodeUsage)
		}
		req.Host = host
		if resp, err := client.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode != http.StatusNotFound {
				return nil
			}
		}
		if err := wake.Pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// clean deletes what the test created. Objects whose deletion fails are garbage-collected with
// their owner.
func (t *pushTest) clean(ctx context.Context) error {
	ctx, cancel := ending.Within(ctx, pushTestLimit)
	defer cancel()
	deleted := t.applier.DeleteObjects(ctx, t.created)
	if _, err := t.journal.Restore(ctx, journal.OfRun(t.journal.Run())); err != nil {
		return errs.WithHint(fmt.Errorf("some resources of the test were not deleted: %w", errors.Join(err, deleted)), "meshtrial cluster restore")
	}
	return nil
}

// freshWithin limits the wait for a server's next scrape of istiod. The longest usual interval is
// a minute.
const freshWithin = 2 * time.Minute

// AwaitScrape waits until a Prometheus server has scraped istiod again.
func AwaitScrape(ctx context.Context, remote *signals.Remote, selector string) (time.Time, error) {
	since := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, freshWithin, errs.WithHint(fmt.Errorf("%s has not read istiod for %s", remote, freshWithin),
		"is its scrape interval longer, or does its clock differ from this machine's?"))
	defer cancel()
	for {
		now := time.Now()
		samples, err := remote.Instant(ctx, "min(timestamp(pilot_services{"+selector+"}))", now)
		switch {
		case err != nil:
			return now, err
		case len(samples) == 0:
			return now, errs.WithHint(fmt.Errorf("%s has no metrics of an istiod (pilot_services is missing)", remote), "does it scrape istiod's port 15014?")
		case samples[0].Value*1000 >= float64(since.UnixMilli()):
			return now, nil
		}
		if err := wake.Pause(ctx, 500*time.Millisecond); err != nil {
			return now, err
		}
	}
}
