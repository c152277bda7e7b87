package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/meshtrial/meshtrial/bench/internal/labs"
	"github.com/meshtrial/meshtrial/bench/internal/table"
	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
)

// mesh is the lab and its istiod.
type mesh struct {
	*labs.Lab
	kube   kubernetes.Interface
	istiod string // IP
}

// openMesh takes the running lab, or starts one.
func openMesh(ctx context.Context) (m *mesh, err error) {
	m = &mesh{}
	if m.Lab, err = labs.Take(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.End(ctx))
		}
	}()
	if m.kube, err = kubernetes.NewForConfig(m.RESTConfig()); err != nil {
		return nil, err
	}
	service, err := m.kube.CoreV1().Services("istio-system").Get(ctx, "istiod", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	m.istiod = service.Spec.ClusterIP
	return m, nil
}

// cpu returns the CPU time of istiod so far, in seconds, as istiod reports it.
func (m *mesh) cpu(ctx context.Context) (float64, error) {
	return m.metric(ctx, "process_cpu_seconds_total")
}

// admits returns how many new streams istiod admits per second: its default for
// the threads that it reports (pilot/pkg/features/tuning.go, RequestLimit), or
// the value in its environment.
func (m *mesh) admits(ctx context.Context) (float64, error) {
	d, err := m.kube.AppsV1().Deployments("istio-system").Get(ctx, "istiod", metav1.GetOptions{})
	if err != nil {
		return 0, err
	}
	for _, c := range d.Spec.Template.Spec.Containers {
		for _, e := range c.Env {
			if limit, err := strconv.ParseFloat(e.Value, 64); e.Name == "PILOT_MAX_REQUESTS_PER_SECOND" && err == nil && limit > 0 {
				return limit, nil
			}
		}
	}
	threads, err := m.metric(ctx, "go_sched_gomaxprocs_threads")
	if err != nil {
		return 0, err
	}
	return min(15+5*threads, 100), nil
}

// metric returns the sum of one of istiod's metrics.
func (m *mesh) metric(ctx context.Context, name string) (float64, error) {
	metrics, err := observe.Fetch(ctx, http.DefaultClient, "http://"+net.JoinHostPort(m.istiod, "15014")+"/metrics")
	if err != nil {
		return 0, fmt.Errorf("istiod's metrics: %w", err)
	}
	v, ok := observe.Sum(metrics, name, nil)
	if !ok {
		return 0, fmt.Errorf("istiod's metrics have no %s", name)
	}
	return v, nil
}

// fleetBeside starts a process for sidecars next to istiod; leave ends it.
func (m *mesh) fleetBeside(ctx context.Context) (f *fleet, leave func() error, err error) {
	if f, err = newFleet(ctx); err != nil {
		return nil, nil, err
	}
	remove, err := m.besideIstiod(ctx, f.process.PID)
	if err != nil {
		return nil, nil, errors.Join(err, f.close())
	}
	return f, func() error { return errors.Join(f.close(), remove()) }, nil
}

// istiod measures sidecars connected to a real istiod.
func (o *options) istiod(ctx context.Context) (results []table.Row, err error) {
	m, err := openMesh(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.End(ctx)) }()
	begin := time.Now()
	const perService = 2
	identities, err := population.Ensure(ctx, m.RESTConfig(), population.Sizes{Namespaces: 10, Services: o.services, EndpointsPerService: perService, Proxies: o.sidecars})
	if err != nil {
		return nil, err
	}
	o.say("%d services of %d pods after %.0f s", o.services, perService, time.Since(begin).Seconds())
	f, leave, err := m.fleetBeside(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, leave()) }()
	spec := xds.DefaultSpec(net.JoinHostPort(m.istiod, "15010"))
	for _, id := range identities {
		p := xds.Proxy{Type: id.Type, Name: id.Name, Namespace: id.Namespace, IP: id.IP, ServiceAccount: id.ServiceAccount, Node: id.Node, Labels: id.Labels}
		for _, port := range id.Ports {
			p.Ports = append(p.Ports, xds.Port(port))
		}
		spec.Proxies = append(spec.Proxies, p)
	}
	if len(spec.Proxies) != o.sidecars {
		return nil, fmt.Errorf("%d identities, want %d", len(spec.Proxies), o.sidecars)
	}
	idle, err := m.cpu(ctx)
	if err != nil {
		return nil, err
	}
	took, err := f.connect(ctx, o, spec)
	if err != nil {
		return nil, err
	}
	busy, err := m.cpu(ctx)
	if err != nil {
		return nil, err
	}
	account, err := f.Account(ctx)
	if err != nil {
		return nil, err
	}
	o.say("%d sidecars after %.1f s; streams lost: %v; bytes a sidecar holds: %v", o.sidecars, took.Seconds(), account.Reconnects, account.Config)
	n := float64(o.sidecars)
	resident, peak, err := f.memory(o.sidecars)
	if err != nil {
		return nil, err
	}
	limit, err := m.admits(ctx)
	if err != nil {
		return nil, err
	}
	results = append(results,
		table.Of(fmt.Sprintf("%d sidecars with %d services connected to istiod", o.sidecars, o.services), "s", took.Seconds()),
		table.Of(fmt.Sprintf("connected a second by the %.0f that istiod admits", limit), "ratio", n/took.Seconds()/limit).AtLeast(admitTarget),
		table.Of("istiod's CPU meanwhile", "s", busy-idle),
		table.Of("CPU of a sidecar to connect; target: a tenth of the 28 ms of pilot-load, which is not run here", "ms", 1000*seconds(account.CPU)/n).AtMost(connectTarget),
		table.Of("all sidecars' CPU to connect by istiod's", "ratio", seconds(account.CPU)/(busy-idle)),
		table.Of("memory of a sidecar", "KB", resident).AtMost(memoryTarget),
		table.Of("most memory of a sidecar while all connect", "KB", peak),
	)
	more, err := m.pushes(ctx, o, f)
	results = append(results, more...)
	if err != nil {
		return results, err
	}
	resident, _, err = f.memory(o.sidecars)
	return append(results, table.Of("memory of a sidecar after pushes", "KB", resident).AtMost(memoryTarget)), err
}

// pushes makes changes, and compares what sidecars and istiod spend on them.
func (m *mesh) pushes(ctx context.Context, o *options, f *fleet) (results []table.Row, err error) {
	namespace := population.Namespace(0)
	name := func(i int) string { return fmt.Sprintf("bench-xds-%d", i) }
	defer func() {
		ctx := context.WithoutCancel(ctx)
		for i := range o.pushes {
			e := m.kube.CoreV1().Services(namespace).Delete(ctx, name(i), metav1.DeleteOptions{})
			if !apierrors.IsNotFound(e) {
				err = errors.Join(err, e)
			}
		}
		// No controller removes what none has created: the next run in this lab
		// would find its endpoints there.
		e := m.kube.DiscoveryV1().EndpointSlices(namespace).Delete(ctx, name(0), metav1.DeleteOptions{})
		if !apierrors.IsNotFound(e) {
			err = errors.Join(err, e)
		}
	}()
	var services, endpoints []pushed
	for i := range o.pushes {
		marker := record.Marker{Change: i, Type: "cds", Text: name(i) + "." + namespace}
		one, err := m.push(ctx, o, f, marker, func() error {
			_, err := m.kube.CoreV1().Services(namespace).Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name(i)},
				Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: population.ServicePort}}}}, metav1.CreateOptions{})
			return err
		})
		if err != nil {
			return nil, err
		}
		services = append(services, one)
	}
	results = append(results, pushRows("new service", services)...)
	// A service's first endpoints make istiod push everything, so they are not
	// counted.
	for i := range o.pushes + 1 {
		address := fmt.Sprintf("192.0.2.%d", 1+i)
		marker := record.Marker{Change: o.pushes + i, Type: "eds", Text: address}
		one, err := m.push(ctx, o, f, marker, func() error { return m.endpoints(ctx, namespace, name(0), address) })
		if err != nil {
			return results, err
		}
		if i > 0 {
			endpoints = append(endpoints, one)
		}
	}
	return append(results, pushRows("new endpoint", endpoints)...), nil
}

// pushed is the cost of one change.
type pushed struct {
	share  float64 // the sidecars' CPU relative to istiod's, until nothing more arrived
	istiod float64 // istiod's CPU, in seconds
	took   float64 // until the last acknowledgement of a sidecar, in ms
	lag    float64 // p99 of how late the sidecars read arrived data, in ms
}

// pushRows reports several changes of a kind.
func pushRows(change string, all []pushed) []table.Row {
	row := func(what, unit string, of func(pushed) float64) table.Row {
		return table.Of(change+": "+what, unit, table.Each(all, of)...)
	}
	return []table.Row{
		row("all sidecars' CPU by istiod's (pilot-load's: 1.6)", "ratio", func(p pushed) float64 { return p.share }).AtMost(shareTarget),
		row("istiod's CPU", "s", func(p pushed) float64 { return p.istiod }),
		row("committed until the last sidecar has it", "ms", func(p pushed) float64 { return p.took }),
		row("a sidecar's own lag, p99", "ms", func(p pushed) float64 { return p.lag }),
		row("own lag by the time until the last has it", "ratio", func(p pushed) float64 { return p.lag / p.took }).AtMost(lagTarget),
	}
}

// endpoints makes an address the only endpoint of a Service without selector.
func (m *mesh) endpoints(ctx context.Context, namespace, service, address string) error {
	port, portName := int32(population.TargetPort), "http"
	slice := &discoveryv1.EndpointSlice{
		TypeMeta:    metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta:  metav1.ObjectMeta{Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &portName, Port: &port}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{address}}},
	}
	data, err := json.Marshal(slice)
	if err != nil {
		return err
	}
	force := true
	_, err = m.kube.DiscoveryV1().EndpointSlices(namespace).Patch(ctx, service, types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: "meshtrial-bench", Force: &force})
	return err
}

// push makes one change and waits until all sidecars have it and no more
// arrives.
func (m *mesh) push(ctx context.Context, o *options, f *fleet, marker record.Marker, change func() error) (pushed, error) {
	index, err := f.announce(ctx, marker)
	if err != nil {
		return pushed{}, err
	}
	fail := func(err error) (pushed, error) {
		return pushed{}, fmt.Errorf("change %d: %w", marker.Change, err)
	}
	istiod, err := m.cpu(ctx)
	if err != nil {
		return fail(err)
	}
	before, err := f.Account(ctx)
	if err != nil {
		return fail(err)
	}
	if err := change(); err != nil {
		return fail(err)
	}
	committed := time.Now().UnixNano()
	seen, err := f.seen(ctx, index, o.sidecars)
	if err != nil {
		return fail(err)
	}
	for {
		s, err := f.Status(ctx)
		if err != nil {
			return fail(err)
		}
		if s.Quiet(int64(time.Second)) {
			break
		}
		if err := wake.Pause(ctx, 100*time.Millisecond); err != nil {
			return fail(err)
		}
	}
	after, err := f.Account(ctx)
	if err != nil {
		return fail(err)
	}
	now, err := m.cpu(ctx)
	if err != nil {
		return fail(err)
	}
	last := int64(0)
	for _, at := range seen.AckedNS {
		last = max(last, at)
	}
	spent := now - istiod
	ours := seconds(after.CPU) - seconds(before.CPU)
	o.say("change %d: istiod %.2f s, sidecars %.3f s of CPU", marker.Change, spent, ours)
	return pushed{share: ours / spent, istiod: spent, took: float64(last-committed) / 1e6, lag: float64(after.Lag.At(0.99)) / 1000}, nil
}
