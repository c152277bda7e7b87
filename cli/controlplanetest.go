package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/observe/signals"
)

// pushTestFlags are the flags of `meshtrial controlplane-test`.
type pushTestFlags struct {
	istiodFlags
	reps       int
	delay      seconds
	gateway    string
	target     string // namespace of the resources
	app        string
	prometheus string
	headers    []string
	selector   string
	settle     time.Duration
	wait       time.Duration
	json       bool
}

// seconds is a flag that takes a number of seconds, as the published test
// does, or a time with its unit.
type seconds time.Duration

func (s *seconds) String() string {
	return strconv.FormatFloat(time.Duration(*s).Seconds(), 'f', -1, 64)
}
func (s *seconds) Type() string { return "seconds" }
func (s *seconds) Set(text string) error {
	if v, err := strconv.ParseFloat(text, 64); err == nil && v >= 0 && v <= 3600 {
		*s = seconds(v * float64(time.Second))
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > time.Hour {
		return errors.New("want seconds from 0 to 3600, such as 2.5, or a duration such as 500ms")
	}
	*s = seconds(d)
	return nil
}

// pushTestReport is what `controlplane-test --json` prints.
type pushTestReport struct {
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

func newControlPlaneTestCommand(env *Env) *cobra.Command {
	f := pushTestFlags{delay: seconds(2500 * time.Millisecond)}
	cmd := &cobra.Command{
		Use:   "controlplane-test",
		Short: "Run the published poor man's test of a control plane, and say what it misses",
		Long: "Create a Service, a Gateway and a VirtualService, wait --delay, and do so --reps times.\n" +
			"Then report the number of pushes and the p99 of pilot_proxy_convergence_time over the\n" +
			"test, and say what these two figures miss. They come from istiod itself, through the\n" +
			"Kubernetes API, or from a Prometheus server (--prometheus-url). Everything that was\n" +
			"created is deleted, even when the test is interrupted.",
		Example: "  meshtrial controlplane-test --reps 10 --delay 2.5\n" +
			"  meshtrial controlplane-test --lab cluster --namespace test --prometheus-url http://localhost:9090",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return controlPlaneTest(cmd.Context(), env, f)
		},
	}
	flags := cmd.Flags()
	f.istiodFlags.register(flags)
	flags.IntVar(&f.reps, "reps", 10, "how often to create the three resources")
	flags.Var(&f.delay, "delay", "pause between repetitions")
	flags.StringVar(&f.gateway, "gateway", "ingressgateway", "the ingress gateway that the Gateways select, by its label istio=`NAME`; or its URL, to also wait until it serves the last one")
	flags.StringVar(&f.target, "namespace", "default", "where to create the resources")
	flags.StringVar(&f.app, "app", "catalog", "label app of the pods behind each Service; there may be none")
	flags.StringVar(&f.prometheus, "prometheus-url", "", "ask the Prometheus server at this `URL` instead of istiod itself")
	flags.StringArrayVar(&f.headers, "prometheus-header", nil, "send this header to the Prometheus server, `\"Name: value\"`; may be repeated")
	flags.StringVar(&f.selector, "selector", "", "`labels` that istiod's metrics must have in the Prometheus server, such as cluster=\"one\"")
	flags.DurationVar(&f.settle, "settle", 10*time.Second, "how long to wait after the last repetition")
	flags.DurationVar(&f.wait, "wait", 0, waitUsage)
	flags.BoolVar(&f.json, "json", false, "print JSON")
	return cmd
}

func (f *pushTestFlags) check() error {
	if err := f.istiodFlags.check(); err != nil {
		return err
	}
	switch {
	case f.reps < 1 || f.reps > 10000:
		return errs.Usage("--reps %d: must be 1 to 10000", f.reps)
	case f.settle < 0 || f.settle > time.Hour:
		return errs.Usage("--settle %s: must be 0s to 1h", f.settle)
	case len(validation.IsDNS1123Label(f.target)) > 0:
		return errs.Usage("--namespace %q is not the name of a namespace", f.target)
	case f.app == "" || len(validation.IsValidLabelValue(f.app)) > 0:
		return errs.Usage("--app %q is not the value of a label", f.app)
	case len(f.headers) > 0 && f.prometheus == "":
		return errs.Usage("--prometheus-header requires --prometheus-url")
	case f.selector != "" && f.prometheus == "":
		return errs.Usage("--selector requires --prometheus-url")
	}
	if _, _, err := f.selects(); err != nil {
		return err
	}
	if err := (signals.Options{Selector: f.selector}).Check(); err != nil {
		return errs.WithHint(errs.Usage("%v", err), "selectors are written as in PromQL, without braces: --selector 'cluster=\"one\"'")
	}
	if f.prometheus != "" {
		_, err := openPrometheus(f.prometheus, f.headers)
		return err
	}
	return nil
}

// selects returns the gateway's label and, if it was given, its URL.
func (f *pushTestFlags) selects() (name, address string, err error) {
	if !strings.ContainsAny(f.gateway, ":/") {
		if f.gateway == "" || len(validation.IsValidLabelValue(f.gateway)) > 0 {
			return "", "", errs.WithHint(errs.Usage("--gateway %q is neither the value of a label nor a URL", f.gateway), "the default is ingressgateway")
		}
		return f.gateway, "", nil
	}
	address = f.gateway
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", "", errs.WithHint(errs.Usage("--gateway %q is not a URL", f.gateway), "give a URL such as http://10.0.0.1:8080, or the gateway's name")
	}
	return "ingressgateway", strings.TrimSuffix(address, "/"), nil
}

func controlPlaneTest(ctx context.Context, env *Env, f pushTestFlags) error {
	config, err := f.config(ctx, f.target, rights.PushTest, rights.Journal)
	if err != nil {
		return err
	}
	p := newProgress(env.Stderr)
	defer p.Clear()
	p.Say("checking the cluster")
	version, err := f.ready(ctx, config)
	if err != nil {
		return err
	}
	claim := app.Claim{Config: config, Run: app.CommandRun("controlplane-test"), Wait: f.wait, OwnLab: f.lab == lab.KindLocal, Revert: true}
	return app.Occupy(ctx, p, claim, func(ctx context.Context, _ *journal.Journal) error {
		return f.pushAndMeasure(ctx, env, p, config, version)
	})
}

// pushAndMeasure is the test itself, in a cluster that is its own.
func (f pushTestFlags) pushAndMeasure(ctx context.Context, env *Env, p *progress, config *rest.Config, version string) (err error) {
	m, err := f.meter(ctx, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	applier, err := lab.NewApplier(config)
	if err != nil {
		return err
	}
	t := &pushTest{f: f, version: version, applier: applier, id: randomName(), progress: p}

	from, err := m.mark(ctx, time.Now())
	if err != nil {
		return err
	}
	defer ending.Owe(ctx, "what the test created in namespace "+f.target, t.remedy())()
	runErr := t.run(ctx)
	var to time.Time
	if runErr == nil {
		to, runErr = m.mark(ctx, time.Now())
	}
	p.Say("deleting what was created")
	cleanErr := t.clean(ctx)
	p.Clear()
	if ctx.Err() != nil && cleanErr == nil {
		return errs.WithCode(errors.New("interrupted; everything the test created is deleted"), errs.CodeInterrupted)
	}
	if runErr != nil {
		return errors.Join(runErr, cleanErr)
	}
	figures, err := signals.MeasurePushTest(ctx, m.source(), signals.Options{Selector: f.selector}, from, to)
	if err != nil {
		return errors.Join(err, cleanErr)
	}
	report := pushTestReport{Schema: 1, Source: m.name(), Namespace: f.target, Gateway: f.gateway, Reps: f.reps,
		DelayS: time.Duration(f.delay).Seconds(), Created: len(t.created), PushTest: figures, LeftOut: figures.LeftOut()}
	if f.json {
		err = writeJSON(env.Stdout, report)
	} else {
		err = printPushTest(env.Stdout, report)
	}
	if err == nil && cleanErr == nil && !report.Valid {
		return quiet(errs.CodeInvalid)
	}
	return errors.Join(err, cleanErr)
}

// ready finds what the test lacks: the namespace, or Istio's kinds, whose
// version it returns.
func (f *pushTestFlags) ready(ctx context.Context, config *rest.Config) (version string, err error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", errs.Usage("kubeconfig: %v", err)
	}
	_, err = kube.CoreV1().Namespaces().Get(ctx, f.target, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", errs.WithHint(errs.Usage("the cluster has no namespace %s", f.target), "kubectl create namespace %s, or name another with --namespace", f.target)
	}
	if err != nil && !apierrors.IsForbidden(err) { // who may not look may still create
		return "", fmt.Errorf("namespace %s: %w", f.target, err)
	}
	for _, version := range []string{"v1", "v1beta1", "v1alpha3"} {
		_, err := kube.Discovery().ServerResourcesForGroupVersion(ctx, "networking.istio.io/"+version)
		if err == nil {
			return version, nil
		}
		if !apierrors.IsNotFound(err) {
			return "", fmt.Errorf("does the cluster know Istio's kinds: %w", err)
		}
	}
	return "", errs.WithHint(errs.Usage("the cluster does not know Gateways and VirtualServices of networking.istio.io"), "is Istio installed there?")
}

// printPushTest writes the report for people.
func printPushTest(w io.Writer, r pushTestReport) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d × a Service, a Gateway and a VirtualService in namespace %s, %g s apart; %g proxies; from %s\n\n",
		r.Reps, r.Namespace, r.DelayS, r.Proxies, r.Source)
	fmt.Fprintf(&b, "pushes            %.0f\n", r.Pushes)
	if p99 := r.Convergence.P99S; p99 != nil {
		fmt.Fprintf(&b, "convergence p99   %.4f s\n", *p99)
	} else {
		fmt.Fprintf(&b, "convergence p99   no data\n")
	}
	fmt.Fprintf(&b, "\nWhat these figures miss:\n")
	for _, text := range r.LeftOut {
		fmt.Fprintf(&b, "  - %s\n", wrap(text, 100, "    "))
	}
	for _, text := range r.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// wrap breaks a text into lines of at most width characters where it can;
// lines after the first begin with indent.
func wrap(text string, width int, indent string) string {
	var b strings.Builder
	column := len(indent)
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case column+1+len(word) > width:
			b.WriteString("\n" + indent)
			column = len(indent)
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}

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
