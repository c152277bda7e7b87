package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/meshtrial/meshtrial/bench/internal/table"
	"github.com/meshtrial/meshtrial/drive/churn"
	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
)

// Who is connected to istiod in a turn, beside the lab's own ztunnel.
const (
	nobody     = "nobody"
	theReal    = "real"
	theirLikes = "simulated"
)

const (
	system      = "istio-system"
	ztunnelName = "ztunnel"       // of the lab's own, and of its service account
	benchName   = "bench-ztunnel" // of those of this bench
	tokenLife   = 12 * time.Hour

	turnChanges = 180                    // 60 cost istiod 0.4 s of CPU, which differed by a quarter from turn to turn
	changeEvery = 250 * time.Millisecond // istiod waits 100 ms for more
	idleFor     = 5 * time.Second
	stillFor    = 2 * time.Second
	turnLimit   = 3 * time.Minute // for ztunnels to come or go, and until nothing is pushed
)

// sideBySide is real ztunnels and simulated ones, in turns at one istiod.
type sideBySide struct {
	*mesh
	o      *options
	fleets []*fleet
	sizes  population.Sizes
	spec   xds.Spec // of the simulated ones
	own    float64  // how many proxies are connected anyway
}

// ztunnels sets what istiod spends on simulated ztunnels beside what it spends on real ones.
func ztunnels(ctx context.Context, o *options) (results []table.Row, err error) {
	dir := os.Getenv("MESHTRIAL_ZTUNNEL")
	switch {
	case dir == "":
		return nil, errors.New("MESHTRIAL_ZTUNNEL names no folder with ztunnel")
	case o.blocks < 2 || o.ztunnels < 1:
		return nil, fmt.Errorf("-blocks %d, -ztunnels %d: an interval takes two blocks, and a comparison one of either", o.blocks, o.ztunnels)
	case o.processes < 0 || o.processes > o.ztunnels:
		return nil, fmt.Errorf("-processes %d: each has a ztunnel, of which there are %d", o.processes, o.ztunnels)
	case o.processes == 0:
		o.processes = o.ztunnels
	}
	m, err := openMesh(ctx, "--ztunnel", dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.End(ctx)) }()
	fleets, leave, err := m.fleetsBeside(ctx, o.processes, o.ztunnels)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, leave()) }()
	s := &sideBySide{mesh: m, o: o, fleets: fleets, sizes: population.Sizes{Namespaces: 10, Services: 200, EndpointsPerService: 2}}
	defer func() { err = errors.Join(err, s.remove(context.WithoutCancel(ctx))) }()
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	turns := map[string][]turn{}
	for block := range o.blocks {
		order := []string{nobody, theReal, theirLikes}
		if block%2 == 1 {
			slices.Reverse(order)
		}
		for i, who := range order {
			one, err := s.turn(ctx, who, fmt.Sprintf("zt-%03d-%d", block, i))
			if err != nil {
				return nil, fmt.Errorf("block %d, %s: %w", block, who, err)
			}
			turns[who] = append(turns[who], one)
			o.say("block %d of %d, %s: istiod used %.2f s, pushes %v", block+1, o.blocks, who, one.cpu, one.pushes)
		}
	}
	return s.rows(turns), nil
}

// prepare makes what changes are about, and who takes turns.
func (s *sideBySide) prepare(ctx context.Context) error {
	if _, err := population.Ensure(ctx, s.RESTConfig(), s.sizes); err != nil {
		return err
	}
	root, err := s.kube.CoreV1().ConfigMaps(system).Get(ctx, "istio-ca-root-cert", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("istiod's root certificate: %w", err)
	}
	life := int64(tokenLife.Seconds())
	token, err := s.kube.CoreV1().ServiceAccounts(system).CreateToken(ctx, ztunnelName,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"istio-ca"}, ExpirationSeconds: &life}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("a token of ztunnel's service account: %w", err)
	}
	node := s.Nodes()[0].Name
	s.spec = xds.DefaultSpec(net.JoinHostPort(s.istiod, "15012"))
	s.spec.StreamsPerConnection = 1
	s.spec.Security = xds.Security{Mode: xds.SecurityToken, RootCA: root.Data["root-cert.pem"], Tokens: map[string]string{"": token.Status.Token}}
	for i := range s.o.ztunnels {
		s.spec.Proxies = append(s.spec.Proxies, xds.Proxy{Type: xds.NodeZtunnel, Name: fmt.Sprintf("%s-%d", benchName, i), Namespace: system, IP: fmt.Sprintf("10.200.%d.%d", i>>8, i&255), Node: node})
	}
	set, err := s.kube.AppsV1().DaemonSets(system).Get(ctx, ztunnelName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("the lab that runs has no ztunnel; without one that runs, this starts one that has: %w", err)
	}
	if _, err := s.kube.AppsV1().Deployments(system).Create(ctx, realZtunnels(set, node, s.o.ztunnels), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("real ztunnels: %w", err)
	}
	if err := s.still(ctx); err != nil {
		return err
	}
	s.own, err = s.connected(ctx)
	return err
}

// realZtunnels are n that are to come, and none at first. They are what the node's own is,
// but for that they have no pods to carry anything for, and leave the node agent's socket
// alone. Together they have the part of the CPU that simulated ones have: see [ofPods].
func realZtunnels(set *appsv1.DaemonSet, node string, n int) *appsv1.Deployment {
	pod := *set.Spec.Template.DeepCopy()
	pod.Labels = map[string]string{"app": benchName, "istio.io/dataplane-mode": "none", "sidecar.istio.io/inject": "false"}
	second, none := int64(1), int32(0)
	pod.Spec.TerminationGracePeriodSeconds = &second
	pod.Spec.NodeName = node // they tolerate simulated ones too
	for i, volume := range pod.Spec.Volumes {
		if volume.HostPath != nil {
			pod.Spec.Volumes[i].VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
		}
	}
	c := &pod.Spec.Containers[0]
	c.Resources.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(eachMilliCPU(n)), resource.DecimalSI)
	if c.ReadinessProbe != nil { // asked often until it is ready, and as seldom as ever from then on
		c.StartupProbe = c.ReadinessProbe.DeepCopy()
		c.StartupProbe.PeriodSeconds, c.StartupProbe.FailureThreshold = 1, int32(turnLimit.Seconds())
	}
	c.Env = append(c.Env, corev1.EnvVar{Name: "PROXY_MODE", Value: "dedicated"}, corev1.EnvVar{Name: "ENABLE_PROXY", Value: "false"},
		corev1.EnvVar{Name: "PROXY_WORKLOAD_INFO", Value: strings.Join([]string{system, benchName, ztunnelName}, "/")})
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: benchName, Namespace: system},
		Spec: appsv1.DeploymentSpec{Replicas: &none, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": benchName}}, Template: pod}}
}

// remove takes away the real ztunnels.
func (s *sideBySide) remove(ctx context.Context) error {
	err := s.kube.AppsV1().Deployments(system).Delete(ctx, benchName, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// turn has the same changes made as every turn, with so-and-so connected.
func (s *sideBySide) turn(ctx context.Context, who, label string) (one turn, err error) {
	kinds := []string{churn.KindService, churn.KindAuthorizationPolicy, churn.KindPodLabels} // one write each
	trace := &churn.Trace{}
	for i := range turnChanges {
		trace.Changes = append(trace.Changes, churn.TraceChange{OffsetNS: int64(i) * int64(changeEvery), Kind: kinds[i%len(kinds)]})
	}
	plan, err := churn.NewPlan(churn.Spec{Trial: label, Trace: trace, Population: s.sizes, Seed: 1})
	if err != nil {
		return one, err
	}
	driver, err := churn.NewDriver(s.RESTConfig(), plan)
	if err != nil {
		return one, err
	}
	defer func() {
		err = errors.Join(err, driver.Cleanup(context.WithoutCancel(ctx)), s.leave(context.WithoutCancel(ctx), who))
	}()
	if err := driver.Prepare(ctx); err != nil {
		return one, err
	}
	if err := s.come(ctx, who); err != nil {
		return one, err
	}
	if err := s.still(ctx); err != nil {
		return one, err
	}
	var looks [3]observe.Scrape // before a time without changes, after it, and after the changes
	for i, wait := range []func() error{
		func() error { return nil },
		func() error { return wake.Pause(ctx, idleFor) },
		func() error { return s.change(ctx, driver) },
	} {
		if err := wait(); err != nil {
			return one, err
		}
		if looks[i], err = s.scrape(ctx); err != nil {
			return one, err
		}
	}
	if err := s.still(ctx); err != nil {
		return one, err
	}
	return spent(looks[0], looks[1], looks[2])
}

// change makes the changes, and waits as long as their pushes may take.
func (s *sideBySide) change(ctx context.Context, driver *churn.Driver) error {
	events, err := driver.Drive(ctx, time.Now().Add(time.Second), func(context.Context, []record.Marker) error { return nil })
	if err != nil {
		return err
	}
	for _, e := range events {
		if e.Error != "" {
			return fmt.Errorf("change %d, %s %s: %s", e.Change, e.Op, e.Object, e.Error)
		}
	}
	return wake.Pause(ctx, stillFor)
}

// come connects those whose turn it is.
func (s *sideBySide) come(ctx context.Context, who string) error {
	ctx, cancel := context.WithTimeout(ctx, turnLimit)
	defer cancel()
	switch who {
	case theReal:
		if err := s.scale(ctx, s.o.ztunnels); err != nil {
			return err
		}
		if err := lab.WaitPods(ctx, s.kube, system, "app="+benchName, s.o.ztunnels); err != nil {
			return err
		}
	case theirLikes:
		group, ctx := errgroup.WithContext(ctx)
		parts := xds.Divide(len(s.spec.Proxies), len(s.fleets))
		for i, f := range s.fleets {
			spec := s.spec
			spec.Proxies = spec.Proxies[parts[i]:parts[i+1]]
			group.Go(func() error {
				_, err := f.connect(ctx, s.o, spec)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
	default:
		return nil
	}
	return s.await(ctx, s.own+float64(s.o.ztunnels))
}

// leave ends them.
func (s *sideBySide) leave(ctx context.Context, who string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, turnLimit)
	defer cancel()
	switch who {
	case theReal:
		err = s.scale(ctx, 0)
	case theirLikes:
		for _, f := range s.fleets {
			_, stopped := f.Stop(ctx)
			err = errors.Join(err, stopped)
		}
	}
	if err != nil {
		return err
	}
	return s.await(ctx, s.own)
}

func (s *sideBySide) scale(ctx context.Context, n int) error {
	_, err := s.kube.AppsV1().Deployments(system).Patch(ctx, benchName, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n), metav1.PatchOptions{})
	return err
}

// scrape reads istiod's metrics.
func (s *sideBySide) scrape(ctx context.Context) (observe.Scrape, error) {
	return observe.ScrapeAll(ctx, []observe.Replica{{Name: "istiod", HTTP: http.DefaultClient, Base: "http://" + net.JoinHostPort(s.istiod, "15014")}})
}

// connected is how many proxies are, by istiod's own count.
func (s *sideBySide) connected(ctx context.Context) (float64, error) {
	page, err := s.scrape(ctx)
	if err != nil {
		return 0, err
	}
	n, ok := page.Sum("pilot_xds")
	if !ok {
		return 0, errors.New("istiod does not say how many proxies are connected")
	}
	return n, nil
}

// await waits until so many are.
func (s *sideBySide) await(ctx context.Context, want float64) error {
	for {
		n, err := s.connected(ctx)
		if err != nil || n == want {
			return err
		}
		if err := wake.Pause(ctx, lookEvery); err != nil {
			return fmt.Errorf("%.0f proxies are connected to istiod, not %.0f: %w", n, want, err)
		}
	}
}

// still waits until istiod is told of nothing and pushes nothing.
func (s *sideBySide) still(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, turnLimit)
	defer cancel()
	for {
		before, err := s.scrape(ctx)
		if err != nil {
			return err
		}
		if err := wake.Pause(ctx, stillFor); err != nil {
			return fmt.Errorf("istiod is never still: %w", err)
		}
		after, err := s.scrape(ctx)
		if err != nil {
			return err
		}
		rises, err := after.Since(before)
		if err != nil {
			return err
		}
		busy := 0.0
		for series, rise := range rises {
			if strings.HasPrefix(series, "pilot_inbound_updates") || strings.HasPrefix(series, "pilot_xds_pushes") {
				busy += rise
			}
		}
		if busy == 0 {
			return nil
		}
	}
}
